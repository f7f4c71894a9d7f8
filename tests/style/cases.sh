# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# For the scripts beside this one: counts cases, and lists the files of the tree.  A script sets
# nothing; it calls expect for each case and finish at its end.

top=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
passed=0
failed=0
skipped=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sessfs-style-XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT

# $1: a sentence, then a command that succeeds when the sentence is true and prints why not.
expect() {
	sentence=$1
	shift
	if "$@" >"$scratch/said" 2>&1; then
		echo "ok: $sentence"
		passed=$((passed + 1))
	else
		echo "NOT OK: $sentence"
		head -n 40 "$scratch/said"
		failed=$((failed + 1))
	fi
}

skip() {
	echo "skipped: $1: $2"
	skipped=$((skipped + 1))
}

finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
	exit
}

# The files of a tree whose names end in one of the words, without data that tests compare byte by
# byte.  $1: the tree.
files_of() {
	tree=$1
	shift
	for end; do
		(
			cd "$tree" || exit
			find .ci src fs backend tests contrib debian doc \
				-type f -name "*$end" 2>/dev/null
			find . -maxdepth 1 -type f -name "*$end" | cut -c 3-
		)
	done | grep -v -e '^tests/golden/' -e '^tests/data/' -e '^aclocal\.m4$' -e '/__pycache__/' |
		sort -u
}

code_of() {
	files_of "$1" .c .h .am .ac .sh .py bootstrap runner check
}

# Lines of the files, which come by standard input, of the tree $1 that match the pattern $2; $3 is
# an option of grep.
lines_of() {
	(cd "$1" && xargs grep -nH "${3:--E}" -e "$2")
}

# No output is success.
nothing() {
	! grep .
}
