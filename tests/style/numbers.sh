#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The numbers that doc/guide.md gives are those that the benchmark has written down.

here=$(dirname "$0")
. "$here/cases.sh"

# The rows of tables in a text, as name|unit|directory|bindfs|sessfs; $1: the columns of the last
# three.
rows() {
	awk -F '|' -v columns="$1" '
		function trim(text) { gsub(/^ +| +$/, "", text); return text }
		BEGIN { split(columns, at, " ") }
		/^\|/ && !/^\| *---/ {
			print trim($2) "|" trim($3) "|" trim($(at[1])) "|" trim($(at[2])) "|" \
				trim($(at[3]))
		}'
}

# The table of a text whose section is called "How fast", without its head.
shown() {
	awk '/^## /{ inside = /^## How fast/ } inside' "$1" | rows '4 5 6' | sed 1d
}

# $1: a text, $2: what the benchmark has written.
agree() {
	rows '4 5 7' <"$2" >"$scratch/measured"
	shown "$1" >"$scratch/shown"
	[ "$(wc -l <"$scratch/shown")" -ge 5 ] || echo "there are not five rows"
	grep -vxFf "$scratch/measured" "$scratch/shown"
	return 0
}

all_agree() {
	agree "$1" "$2" | nothing
}

a_wrong_one_is_found() {
	sed '/^## How fast/,$s/[1-9]\( |$\)/0\1/' "$top/doc/guide.md" >"$scratch/wrong"
	! cmp -s "$scratch/wrong" "$top/doc/guide.md" &&
		! all_agree "$scratch/wrong" "$top/doc/benchmark.md"
}

expect "the numbers in doc/guide.md are those of doc/benchmark.md" \
	all_agree "$top/doc/guide.md" "$top/doc/benchmark.md"
expect "a number that is another one is found" a_wrong_one_is_found
finish
