#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Who may include and call whom, and how long files may be: see ARCHITECTURE.md.

here=$(dirname "$0")
. "$here/cases.sh"

ROOMS=$top/ARCHITECTURE.md
export ROOMS

product_of() {
	files_of "$1" .c .h | grep -E '^(src|fs|backend)/'
}

# Prints what is wrong in a whole tree.  $1: tree.
wrong_in() {
	# shellcheck disable=SC2046
	/usr/bin/python3 "$here/rooms.py" includes "$1" $(product_of "$1")
}

# $1: a file, $2: an include that it must not have.  Whether that is found.
is_found() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree/$(dirname "$1")"
	printf '#include %s\n' "$2" >"$scratch/tree/$1"
	wrong_in "$scratch/tree" | grep -q x.[ch]
}

inside_is_found() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree/fs/tree" "$scratch/tree/fs/write"
	touch "$scratch/tree/fs/write/write.h"
	echo '#include "fs/write/handle.h"' >"$scratch/tree/fs/tree/x.c"
	wrong_in "$scratch/tree" | grep -q x.[ch]
}

layers_hold() {
	wrong_in "$top"
}

# Nobody may come from nowhere: "x.h" without a room escapes the rules above.
includes_name_rooms() {
	product_of "$top" | sed "s|^|$top/|" |
		xargs sed -n 's/^[ \t]*#[ \t]*include[ \t]*"\([^"]*\)".*/\1/p' | sort -u |
		while read -r header; do
			[ -e "$top/$header" ] || echo "$header is included, and is not there"
		done | nothing
}

# What users of the store, the tree and the library read may be longer.
lengths_hold() {
	product_of "$1" | grep -vx -e backend/backend.h -e fs/api/tree.h -e src/lib/sessfs.h |
		(cd "$1" && xargs wc -l) | awk '
		$2 ~ /\.c$/ && $1 > 600 || $2 ~ /\.h$/ && $1 > 200 { print $2 ": " $1 " lines" }' |
		nothing
}

a_long_file_is_found() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree/backend/base"
	seq 601 >"$scratch/tree/backend/base/x.c"
	! lengths_hold "$scratch/tree"
}

# Prints FILE KIND NAME of all objects below this folder.  The name of a library may stand before
# that of an object.
symbols() {
	find backend fs src -name '*.o' ! -path '*/.libs/*' | xargs nm -A |
		sed -e 's/\.o:[0-9a-f]* *\([A-Za-z]\) / \1 /' -e 's|/[a-z_]*_la-|/|' \
			-e 's|/sessfs-|/|' >"$scratch/all"
	# What was moved away has left its object behind.
	cut -d ' ' -f 1 "$scratch/all" | sort -u | while read -r file; do
		[ -e "$top/$file.c" ] || echo "$file"
	done >"$scratch/gone"
	awk -v gone="$scratch/gone" '
		BEGIN { while ((getline file <gone) > 0) left[file] }
		!($1 in left)' "$scratch/all"
}

# $1: lines of symbols.  Whether something is found in them.
call_is_found() {
	echo "$1" | /usr/bin/python3 "$here/rooms.py" calls "$top" | grep -q -e calls -e circle
}

call_is_not_found() {
	echo "$1" | /usr/bin/python3 "$here/rooms.py" calls "$top"
}

calls_hold() {
	symbols >"$scratch/symbols"
	if [ "$(wc -l <"$scratch/symbols")" -lt 1000 ]; then
		echo "there are no objects in $PWD"
		return 1
	fi
	/usr/bin/python3 "$here/rooms.py" calls "$top" <"$scratch/symbols"
}

expect "an include that goes upward is found in the ground floor" \
	is_found backend/base/x.c '"backend/backend.h"'
expect "an include that goes upward is found in the store" \
	is_found backend/sqlite/x.c '"fs/api/tree.h"'
expect "an include that goes upward is found in the filesystem" \
	is_found fs/tree/x.h '"fs/kernel/session.h"'
expect "an include that goes upward is found in the program" \
	is_found src/exchange/x.c '"src/cmd/cmd.h"'
expect "an include that skips the tree is found" \
	is_found fs/kernel/x.c '"backend/backend.h"'
expect "libfuse is found outside fs/kernel" is_found fs/write/x.c '<fuse_lowlevel.h>'
expect "SQLite is found outside backend/sqlite" is_found backend/memory/x.c '<sqlite3.h>'
expect "libmariadb is found outside backend/mysql" is_found backend/x.c '<mysql.h>'
expect "libpq is found outside backend/postgresql" is_found backend/sqlite/x.c '<libpq-fe.h>'
expect "jansson is found outside fs/base and src" is_found backend/x.c '<jansson.h>'
expect "what is inside of another room is found" inside_is_found
expect "a folder that is in no room is found" is_found fs/x/x.c '<stdio.h>'
expect "a call that goes upward is found" call_is_found "fs/base/x U tree_list
fs/tree/listing T tree_list"
expect "a call that goes downward is none" call_is_not_found "fs/tree/listing U lines_next
fs/base/lines T lines_next"
expect "a circle of four files is found" call_is_found "fs/base/a T a
fs/base/a U b
fs/base/b T b
fs/base/b U c
fs/base/c T c
fs/base/c U d
fs/base/d T d
fs/base/d U a"
expect "a circle of two files is small" call_is_not_found "fs/base/a T a
fs/base/a U b
fs/base/b T b
fs/base/b U a"
expect "a file of more than 600 lines is found" a_long_file_is_found
expect "no room includes one that lies above it" layers_hold
expect "no room calls one that lies above it, and no circle has more than three files" calls_hold
expect "includes are written from the top" includes_name_rooms
expect "no file has more than 600 lines, and no internal header more than 200" lengths_hold "$top"
finish
