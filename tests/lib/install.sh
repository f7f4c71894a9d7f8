#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What `make install` puts below DESTDIR serves another program: the example is built with what
# pkg-config says, and run.

here=$(dirname "$0")
. "$here/../style/cases.sh"

build=${top_builddir:-$top/build}
to=$scratch/to
store=$scratch/store.db

# make check tells its jobs and variables to what it starts.
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR

installs() {
	make -C "$build" install-libLTLIBRARIES install-includeHEADERS install-pkgconfigDATA \
		DESTDIR="$to"
}

pkg() {
	PKG_CONFIG_PATH="$to$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$to" pkg-config "$@"
}

# $1: the program; then: what to link it with.
# shellcheck disable=SC2046,SC2086 # these are words
builds() {
	program=$1
	shift
	${CC:-cc} $SANITIZER_CFLAGS -Wall -Wextra -Werror -o "$scratch/$program" \
		"$top/contrib/examples/session.c" $(pkg --cflags sessfs) "$@"
}

# shellcheck disable=SC2046
takes_the_header() {
	echo '#include <sessfs.h>' >"$scratch/x.cc"
	"$1" -fsyntax-only -Wall -Wextra -Werror "$scratch/x.cc" $(pkg --cflags sessfs)
}

# $1: the program; then its words.
session() {
	program=$1
	shift
	LD_LIBRARY_PATH=$to$libdir "$scratch/$program" "$store" "$@"
}

remembers() {
	session "$1" list demo messages '{"n": 0}' '{"n": 1}' &&
		session "$1" save demo meta '"small"' &&
		[ "$(session "$1" show demo messages)" = "$(printf '{"n": 0}\n{"n": 1}')" ] &&
		[ "$(session "$1" get demo meta)" = '"small"' ] &&
		[ "$(session "$1" sessions)" = demo ] &&
		session "$1" forget demo meta &&
		! session "$1" get demo meta &&
		session "$1" forget demo &&
		[ -z "$(session "$1" sessions)" ]
}

says_why() {
	session "$1" save demo meta nonsense 2>"$scratch/why"
	grep -q 'not JSON at byte' "$scratch/why"
}

# The header's functions and nothing else.
shows_its_header() {
	sed -n 's/^[a-z].*[ *]\(sessfs_[a-z_]*\)(.*/\1/p' "$top/src/lib/sessfs.h" |
		grep -v '_fn$' | sort >"$scratch/header"
	[ -s "$scratch/header" ] && nm -D --defined-only "$to$libdir/libsessfs.so" |
		awk '{ print $3 }' | sort | diff "$scratch/header" -
}

if ! command -v pkg-config >/dev/null 2>&1; then
	skip "the library is installed below DESTDIR" "pkg-config is not installed"
	finish
fi
expect "the library is installed below DESTDIR" installs
libdir=$(find "$to" -name sessfs.pc)
libdir=${libdir%/pkgconfig/sessfs.pc}
libdir=${libdir#"$to"}
if command -v c++ >/dev/null 2>&1; then
	expect "C++ takes the header" takes_the_header c++
else
	skip "C++ takes the header" "there is no C++ compiler"
fi
if [ -e "$to$libdir/libsessfs.so" ]; then
	# shellcheck disable=SC2046
	expect "the example is built with what pkg-config says" builds shared $(pkg --libs sessfs)
	expect "the example remembers sessions" remembers shared
	expect "the example says why a text is refused" says_why shared
	expect "the library shows the functions of its header and nothing else" shows_its_header
else
	skip "the example is built with what pkg-config says" "there is no shared library"
fi
if [ -e "$to$libdir/libsessfs.a" ]; then
	# shellcheck disable=SC2046
	expect "the example is built with the static library" \
		builds static $(pkg --static --libs sessfs | sed 's/-lsessfs/-l:libsessfs.a/')
	rm -f "$to$libdir"/libsessfs.so*
	expect "the example needs no other then" remembers static
else
	skip "the example is built with the static library" "there is none"
fi
finish
