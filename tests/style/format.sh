#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The layout of the files, as .clang-format and .editorconfig say.

here=$(dirname "$0")
. "$here/cases.sh"

# The layout differs between versions of clang-format; this is the one of .clang-format.
clang_format() {
	for name in clang-format-14 clang-format; do
		command -v "$name" >/dev/null 2>&1 || continue
		case $("$name" --version) in
		*" 14."*) echo "$name"; return ;;
		esac
	done
}

is_formatted() {
	files_of "$top" .c .h | (cd "$top" && xargs "$formatter" --dry-run -Werror)
}

# $1: a pattern, then ends of names: no line may match.
no_line() {
	pattern=$1
	shift
	files_of "$top" "$@" | lines_of "$top" "$pattern" | nothing
}

no_trailing_blanks() {
	no_line '[[:blank:]]$' .c .h .am .ac .sh .py .md bootstrap run runner .supp NEWS
}

final_newlines() {
	files_of "$top" .c .h .am .ac .sh .py .md bootstrap run runner .supp NEWS |
		while read -r file; do
			[ -z "$(tail -c 1 "$top/$file")" ] || echo "$file"
		done | nothing
}

# Characters, not bytes; tabs reach to the next multiple of eight.
narrow_lines() {
	code_of "$top" | (
		cd "$top" && LC_ALL=C xargs awk '{
			if (length($0) + 7 * gsub(/\t/, "&") <= 100)
				next
			width = 0
			for (i = 1; i <= length($0); i++) {
				c = substr($0, i, 1)
				if (c == "\t")
					width += 8 - width % 8
				else if (c < "\200" || c > "\277")
					width++
			}
			if (width > 100)
				print FILENAME ":" FNR ": " width " columns"
		}'
	) | nothing
}

tabs_indent() {
	no_line '^( {8}|\t* {8})' .c .h
}

licences_named() {
	code_of "$top" | (
		cd "$top" && xargs awk '
		FNR <= 2 && /SPDX-License-Identifier: MIT/ { named[FILENAME] = 1 }
		END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in named)) print ARGV[i] }'
	) | nothing
}

formatter=$(clang_format)
if [ -n "$formatter" ]; then
	expect "C files are laid out as .clang-format says" is_formatted
else
	skip "C files are laid out as .clang-format says" "clang-format 14 is not installed"
fi
expect "no line ends in blanks" no_trailing_blanks
expect "every file ends in a newline" final_newlines
expect "no line of code is wider than 100 columns" narrow_lines
expect "C files are indented with tabs" tabs_indent
expect "every file of code names its licence at its top" licences_named
finish
