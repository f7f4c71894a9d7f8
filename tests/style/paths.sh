#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The files speak of the project, not of the machine that somebody happened to build it on.

here=$(dirname "$0")
. "$here/cases.sh"

# $1: tree.
all_files() {
	files_of "$1" .c .h .am .ac .sh .bash .py .md .supp .service bootstrap run runner \
		Containerfile fstab NEWS LICENSE .clang-format .editorconfig .gitignore
}

# Where it was built in place, what was made lies among the sources.  $1: tree.
source_files() {
	if [ -e "$1/config.status" ]; then
		all_files "$1"
	else
		files_of "$1" ''
	fi | grep -v -e '^Makefile\.in$' -e '^configure$' -e '^configure~$'
}

# $1: text that must not stand in any file of the tree $2.
nowhere() {
	source_files "$2" | lines_of "$2" "$1" -F | nothing
}

# Folders that only some machine has, wherever the build is.
no_foreign_folders() {
	all_files "$top" |
		lines_of "$top" \
			'(^|[^[:alnum:]_.})/-])/(root|work|workspace|builds?|Users)/[[:alnum:]]' |
		nothing
}

is_deep() {
	case $1 in
	/*/*) true ;;
	*) false ;;
	esac
}

seen_in_a_file() {
	mkdir -p "$scratch/tree/src"
	echo "/* made in $1/src */" >"$scratch/tree/src/x.c"
	! nowhere "$1" "$scratch/tree"
}

source_tree=$(cd "$top" && pwd -P)
build_tree=$(cd "${top_builddir:-$top}" && pwd -P)
expect "a folder that is named in a file is found" seen_in_a_file "$source_tree"
for folder in "$source_tree" "$build_tree"; do
	is_deep "$folder" || continue
	expect "no file names the folder of the ${word:-source} tree" nowhere "$folder" "$top"
	word=build
done
expect "no file names a folder of a build machine" no_foreign_folders
finish
