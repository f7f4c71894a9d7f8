#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tests/runner counts what ran, and no failure gets lost in it.

here=$(dirname "$0")
. "$here/cases.sh"

# Runs a script below the runner.  $1: the last line that the runner shall print, $2: its exit
# status, $3: the script.
counts() {
	printf '#!/bin/sh\n%s\n' "$3" >"$scratch/program"
	chmod +x "$scratch/program"
	TEST_TIMEOUT=2 "$top/tests/runner" "$scratch/program" >"$scratch/log" 2>&1
	status=$?
	cat "$scratch/log"
	[ "$(tail -n 1 "$scratch/log")" = "cases: $1" ] && [ "$status" -eq "$2" ]
}

# A script that leaves this TAP file, as Criterion does.
tap() {
	printf "printf '%s' >\"\${CRITERION_OUTPUTS#tap:}\"; exit %s" "$1" "$2"
}

expect "a program that succeeds is one case that passed" \
	counts '1 passed, 0 failed, 0 skipped' 0 'exit 0'
expect "a program that fails is one case that failed" \
	counts '0 passed, 1 failed, 0 skipped' 1 'exit 3'
expect "a program that skips itself is one case that was skipped" \
	counts '0 passed, 0 failed, 1 skipped' 77 'exit 77'
expect "the numbers that a script prints last count" \
	counts '4 passed, 0 failed, 2 skipped' 0 \
	'echo 1 passed, 0 failed; echo 4 passed, 0 failed, 2 skipped'
expect "a failure that a script prints is one, whatever its status" \
	counts '4 passed, 1 failed, 0 skipped' 1 'echo 4 passed, 1 failed'
expect "a script that fails without a failed case has a failed case" \
	counts '4 passed, 1 failed, 0 skipped' 1 'echo 4 passed, 0 failed; exit 1'
expect "a script that ran nothing has failed" \
	counts '0 passed, 1 failed, 0 skipped' 1 'echo 0 passed, 0 failed'
expect "the cases of Criterion are counted" \
	counts '2 passed, 1 failed, 1 skipped' 1 \
	"$(tap '1..4\nok - a::b\nok - a::c\nnot ok - a::d\nok - a::e # SKIP no\n' 1)"
expect "a case of Criterion without a result has failed" \
	counts '1 passed, 2 failed, 0 skipped' 1 "$(tap '1..3\nok - a::b\n' 0)"
expect "a program of Criterion without a case has failed" \
	counts '0 passed, 1 failed, 0 skipped' 1 "$(tap '1..0\n' 0)"
expect "a program that does not end has failed" \
	counts '0 passed, 1 failed, 0 skipped' 1 'sleep 30'
expect "a program that a signal ends has failed" \
	counts '0 passed, 1 failed, 0 skipped' 1 'kill -SEGV $$'
expect "the report of a sanitizer is a failure of a program that succeeds" \
	counts '1 passed, 1 failed, 0 skipped' 1 \
	'report=${ASAN_OPTIONS#log_path=}; echo leak >"${report%%:*}.1"; exit 0'

# What bootstrap shows of a log of the runner.  $1: the log, $2: what it shall show.
shows() {
	mkdir -p "$scratch/build-check/tests"
	cp "$top/bootstrap" "$scratch/bootstrap"
	printf "$1" >"$scratch/build-check/tests/x.log"
	(cd "$scratch" && sh -c '. ./bootstrap >/dev/null; show_failures' ./bootstrap help) \
		>"$scratch/shown" 2>&1
	cat "$scratch/shown"
	[ "$(sed 1d "$scratch/shown")" = "$(printf "$2")" ]
}

counted="cases: 3 passed, 1 failed, 0 skipped\n"
expect "of a test that failed, bootstrap shows no case that has passed" shows \
	"ok - a\n  # note\nnot ok - b\n  why\nlog\nok: c\nok - d\n$counted" \
	"not ok - b\n  why\nlog\n$counted"
# Neither automake nor libtool can.
builds_in_no_odd_folder() {
	mkdir -p "$scratch/odd folder"
	cp "$top/bootstrap" "$scratch/odd folder/bootstrap"
	! "$scratch/odd folder/bootstrap" >"$scratch/shown" 2>&1 && grep 'blank' "$scratch/shown"
}

expect "bootstrap says that it builds in no folder with a blank" builds_in_no_odd_folder
expect "bootstrap shows nothing of a test that passed" shows \
	'ok - a\ncases: 1 passed, 0 failed, 0 skipped\n' ''
finish
