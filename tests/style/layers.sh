#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Who may include whom: see ARCHITECTURE.md.

here=$(dirname "$0")
. "$here/cases.sh"

# ROOM MAY-INCLUDE...; the longest room that fits a file counts.
rooms='
src/base	src/base
src/lib		src/lib backend src/base
src		src fs backend
fs/kernel	fs/kernel fs/model src/base
fs/model	fs/model backend src/base
backend		backend src/base
'

# HEADER ROOM...: a library is known in these rooms only.
libraries='
fuse.*\.h	fs/kernel
sqlite3.*\.h	backend/sqlite
jansson.*\.h	fs/model src
'

room_of() {
	echo "$rooms" | awk -v file="$1" '
		NF && index(file, $1 "/") == 1 && length($1) > length(room) { room = $1 }
		END { print room }'
}

# Prints each include of a file that its room may not have.  $1: tree, $2: file.
wrong_includes() {
	room=$(room_of "$2")
	allowed=$(echo "$rooms" | awk -v room="$room" '$1 == room { $1 = ""; print }')
	sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$1/$2" | while read -r header; do
		for other in $allowed; do
			case $(room_of "$header") in
			"$other" | "$other"/*) continue 2 ;;
			esac
		done
		echo "$2 includes $header"
	done
	sed -n 's/^[ \t]*#[ \t]*include[ \t]*<\([^>]*\)>.*/\1/p' "$1/$2" | while read -r header; do
		echo "$libraries" | while read -r name homes; do
			[ -n "$name" ] && echo "$header" | grep -qx "$name" || continue
			for home in $homes; do
				case $room/ in "$home"/*) continue 2 ;; esac
				case $2 in "$home"/*) continue 2 ;; esac
			done
			echo "$2 includes <$header>"
		done
	done
}

# Prints what is wrong in a whole tree.  $1: tree.
wrong_in() {
	files_of "$1" .c .h | grep -E '^(src|fs|backend)/' | while read -r file; do
		wrong_includes "$1" "$file"
	done
}

# $1: a file, $2: an include that it must not have.  Whether that is found.
is_found() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree/$(dirname "$1")"
	printf '#include %s\n' "$2" >"$scratch/tree/$1"
	[ -n "$(wrong_in "$scratch/tree")" ]
}

layers_hold() {
	wrong_in "$top" | nothing
}

# Nobody may come from nowhere: "x.h" without a room escapes the rules above.
includes_name_rooms() {
	files_of "$top" .c .h | grep -E '^(src|fs|backend)/' | while read -r file; do
		sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' "$top/$file" |
			while read -r header; do
				[ -e "$top/$header" ] || echo "$file includes $header"
			done
	done | nothing
}

expect "an include that goes upward is found in the ground floor" \
	is_found src/base/x.c '"backend/backend.h"'
expect "an include that goes upward is found in the store" \
	is_found backend/sqlite/x.c '"fs/model/tree.h"'
expect "an include that goes upward is found in the model" \
	is_found fs/model/x.h '"fs/kernel/session.h"'
expect "an include that skips the model is found" \
	is_found fs/kernel/x.c '"backend/backend.h"'
expect "libfuse is found outside fs/kernel" is_found fs/model/x.c '<fuse_lowlevel.h>'
expect "SQLite is found outside backend/sqlite" is_found backend/memory/x.c '<sqlite3.h>'
expect "jansson is found outside fs/model and src" is_found backend/x.c '<jansson.h>'
expect "no room includes one that lies above it" layers_hold
expect "includes are written from the top" includes_name_rooms
finish
