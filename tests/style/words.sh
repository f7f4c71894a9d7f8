#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The words of comments, and names of functions.  The subject of a comment is a thing: "he" and
# "who" are people, so a program, a thread or a mount is "the caller", "the lock's holder", "this
# mount".  A function whose whole name is a general verb cannot be found by grep: its module's name
# is a part of it.

# Files and folders that are not done yet, one a line.
skipped_paths='
backend/feed/feed.c
backend/sql/changes.c
backend/sql/changes.h
backend/sql/commit.c
backend/sql/feed.c
backend/sql/mounts.c
backend/sql/mounts.h
backend/sql/state.c
backend/sql/texts-mounts.h
backend/sql/transaction.c
backend/sql/transaction.h
backend/sql/uses.c
backend/sql/watch.c
backend/sqlite/owner/mounts.c
backend/sqlite/owner/mounts.h
backend/sqlite/store/changes.c
backend/sqlite/store/feed.c
fs/share/
fs/inode/waiting.c
fs/inode/waiting.h
fs/inode/aparts.c
fs/inode/aparts.h
fs/tree/rest.c
fs/upkeep/orphans.c
'

here=$(dirname "$0")
. "$here/cases.sh"

# "who" may follow these; "there is no X" and "is no longer" are fine.
people='users?|persons?|people'
pronouns='he|him|his|himself|whoever|whom|whomever|whatever|whichever'
verbs='take|tell|find|look|judge|rest|kept|ask|say|go'

words_of() {
	/usr/bin/python3 "$here/comments.py" "$1" |
		sed -E -e "s/\b($people) who\b/\1/gI" -e 's/\bthere (is|are|was|were) no\b//gI' \
			-e 's/\b(is|are|was|were|be) no (longer|(more|less|[a-z]+er) than)\b//gI' |
		grep -iE -e "\b(who|$pronouns)\b" -e '\b(is|are|was|were|be) no\b' | cut -c 1-160
}

names_of() {
	lines_of "$1" "^([a-z][a-zA-Z0-9_ *]*[ *]|#define )($verbs)\("
}

# Those of the product in the tree $1 that are not skipped.
done_files() {
	files_of "$1" .c .h | grep -E '^(src|fs|backend)/' >"$scratch/files"
	for path in $skipped_paths; do
		awk -v path="$path" 'index($0, path) != 1' "$scratch/files" >"$scratch/rest"
		mv "$scratch/rest" "$scratch/files"
	done
	cat "$scratch/files"
}

# $1: words_of or names_of.
none() {
	done_files "$top" >"$scratch/done"
	[ -s "$scratch/done" ] || echo "no file is looked at"
	{ [ -s "$scratch/done" ] && "$1" "$top" <"$scratch/done"; } | nothing
}

all_skipped_exist() {
	for path in $skipped_paths; do
		[ -e "$top/$path" ] || echo "$path"
	done | nothing
}

# $1: words_of or names_of, $2: lines of a file.  Whether one of them is found.
is_found() {
	mkdir -p "$scratch/tree/fs"
	printf '%s\n' "$2" >"$scratch/tree/fs/x.c"
	echo fs/x.c | "$1" "$scratch/tree" | grep -q fs/x.c
}

is_not_found() {
	! is_found "$@"
}

expect "a person in place of a program is found" is_found words_of '/* The lock is his. */'
expect "whoever does something is found" is_found words_of '/* Whoever asks, waits. */'
expect "one who does something is found" is_found words_of 'int x; /* who has it */'
expect "words are found across lines" is_found words_of '/* A tail that is
 * no JSON. */'
expect "something that is no other thing is found" is_found words_of '/* They are no rows. */'
expect "people may do something" is_not_found words_of '/* Users who may read it. */'
expect "what does not exist may be called so" is_not_found words_of '/* There is no file. */'
expect "what has ended may be called so" is_not_found words_of '/* It is no longer open. */'
expect "a longer word is none of these" is_not_found words_of '/* The whole of this. */'
expect "texts and code are not comments" is_not_found words_of 'const char *who = "/* who */";'
expect "a function that is only a verb is found" is_found names_of 'static int take(void)'
expect "so is a macro" is_found names_of '#define say(x) x'
expect "a module's verb is not found" is_not_found names_of 'static int quota_take(void)'
expect "a call is not found" is_not_found names_of '	r = ops->take(x);'
expect "each path that is skipped is there" all_skipped_exist
expect "comments have none of these words" none words_of
expect "no function's whole name is a general verb" none names_of
finish
