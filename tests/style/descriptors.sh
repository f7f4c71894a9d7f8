#!/bin/sh
# SPDX-License-Identifier: MIT
#
# No descriptor of the store, the filesystem or the library is a standard stream: they are opened by
# backend/base/descriptor.h alone.

here=$(dirname "$0")
. "$here/cases.sh"

calls='open|open64|openat|openat2|creat|mkstemp|mkostemp|memfd_create|epoll_create1?|inotify_init1?'
calls="$calls|eventfd|timerfd_create|signalfd|socket|accept4?|dup|fopen|tmpfile|opendir|popen"

# Prints each call in a tree that may return 0, 1 or 2.  $1: tree.
wrong_in() {
	files_of "$1" .c .h | grep -E '^(backend|fs|src/lib|backend/base)/' |
		grep -v '^backend/base/descriptor\.' | while read -r file; do
		grep -nE "(^|[^A-Za-z0-9_>.])($calls)\(" "$1/$file" |
			grep -vE "descriptor_above\(($calls)\(|($calls)\([0-9]\)" |
			sed "s|^|$file:|"
	done
}

# $1: a file, $2: a line of it.  Whether that is found.
is_found() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree/$(dirname "$1")"
	printf '%s\n' "$2" >"$scratch/tree/$1"
	[ -n "$(wrong_in "$scratch/tree")" ]
}

is_not_found() {
	! is_found "$@"
}

all_are_above() {
	wrong_in "$top" | nothing
}

expect "a file that is opened is found in the store" \
	is_found backend/sqlite/x.c '	fd = open(path, O_RDONLY);'
expect "a file that is made is found in the library" \
	is_found src/lib/x.c '	int fd = mkostemp(name, O_CLOEXEC);'
expect "an eventfd is found in the filesystem" is_found fs/write/x.c '	x->wake = eventfd(0, 0);'
expect "one that is moved is none" \
	is_not_found backend/x.c '	x->wake = descriptor_above(eventfd(0, 0));'
expect "words in a comment are none" is_not_found fs/write/x.h ' * flags are those of open(2)'
expect "nothing opens files otherwise" all_are_above
finish
