#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The table of tests/README.md: what users may rely on, and which tests try it.

here=$(dirname "$0")
. "$here/cases.sh"

manual=$top/doc/sessfs.5
table=$top/tests/README.md

# Sections that promise something.  Those with sections of their own are in it as well.
sections() {
	sed -n 's/^\.S[hs] //p' "$manual" | grep -vx -e NAME -e DESCRIPTION -e 'SEE ALSO'
}

# SECTION|FILES, a line each.
rows() {
	sed -n 's/^| \([^|]*[^| ]\) *| \(`.*`\) *|$/\1|\2/p' "$1"
}

wrong_sections() {
	sections | while read -r section; do
		[ "$(rows "$1" | grep -c "^$section|")" -eq 1 ] ||
			echo "$section: no row, or several"
	done
	rows "$1" | cut -d'|' -f1 | while read -r section; do
		sections | grep -qx -- "$section" || echo "$section: no section of the manual"
	done
}

# What stands there is a program or a script of TESTS, or a source of a program.
wrong_files() {
	rows "$1" | cut -d'|' -f2 | tr ' ' '\n' | tr -d '`' | sort -u | while read -r file; do
		name=tests/${file%.c}
		sources=$(echo "$name" | tr -c 'a-z0-9\n' _)_SOURCES
		[ -e "$top/tests/$file" ] || [ -e "$top/$name.c" ] ||
			grep -q "^$sources" "$top"/tests/*/Makemodule.am ||
			echo "$file: there is no such test"
		grep -qE "(^|[[:space:]])(tests/$file|$name)([[:space:]]|\$)" \
			"$top"/tests/*/Makemodule.am ||
			echo "$file: nobody runs it"
	done
}

is_found() {
	[ -n "$($1 "$scratch/table")" ]
}

sed '/^| Locks |/d' "$table" >"$scratch/table"
expect "a section that nobody tries is found" is_found wrong_sections
sed 's/^| Locks |/| Lockers |/' "$table" >"$scratch/table"
expect "a section that is none is found" is_found wrong_sections
sed 's/test_locks/test_lockers/' "$table" >"$scratch/table"
expect "a test that is none is found" is_found wrong_files

every_section_is_tried() {
	wrong_sections "$table" | nothing
}

every_test_is_run() {
	wrong_files "$table" | nothing
}

expect "every section of the manual is tried" every_section_is_tried
expect "every test of the table is run" every_test_is_run
finish
