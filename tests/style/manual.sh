#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The manual pages, as mandoc and groff read them.

here=$(dirname "$0")
. "$here/cases.sh"

pages() {
	files_of "$1" .1 .3 .5 .7 .8 | grep '^doc/'
}

# What other pages are installed is the machine's business.
without_others() {
	grep -v -e 'referenced manual not found' -e 'outdated mandoc.db'
}

mandoc_likes() {
	pages "$1" | while read -r page; do
		mandoc -Tlint "$1/$page" 2>&1 | without_others
	done | nothing
}

groff_likes() {
	pages "$1" | while read -r page; do
		groff -ww -mandoc -Tutf8 "$1/$page" 2>&1 >/dev/null
	done | nothing
}

# $1: a function that must complain about a page with a mistake in it.
finds_mistakes() {
	mkdir -p "$scratch/tree/doc"
	sed 's/^\.Sh DESCRIPTION$/.Sh\n.It x\n.unknown y/' "$top/doc/sessfs-security.7" \
		>"$scratch/tree/doc/wrong.7"
	! "$1" "$scratch/tree"
}

for tool in mandoc groff; do
	if command -v "$tool" >/dev/null 2>&1; then
		expect "$tool finds a mistake in a page" finds_mistakes "${tool}_likes"
		expect "$tool has nothing to say about the pages" "${tool}_likes" "$top"
	else
		skip "$tool has nothing to say about the pages" "$tool is not installed"
	fi
done
finish
