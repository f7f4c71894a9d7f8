#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tests/runner counts what ran and ends what is left, and tests/check loses no failure.

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
expect "a file that is left in TMPDIR is a failure" \
	counts '1 passed, 1 failed, 0 skipped' 1 'touch "$TMPDIR/x"; exit 0'
[ "$(id -u)" -ne 0 ] || expect "a file that is left in /dev/shm is a failure" \
	counts '1 passed, 1 failed, 0 skipped' 1 'touch /dev/shm/x; exit 0'

# A process of a session of its own, whose parent has ended, as a daemon is.
leaves_a_process() {
	counts '1 passed, 1 failed, 0 skipped' 1 \
		"setsid sh -c 'echo \$\$ >$scratch/pid; exec sleep 60' & sleep 0.3; exit 0" &&
		! kill -0 "$(cat "$scratch/pid")"
}
expect "a process that is left is a failure, and is ended" leaves_a_process

leaves_a_mount() {
	counts '1 passed, 2 failed, 0 skipped' 1 \
		"mkdir \"\$TMPDIR/x\" && mount -t tmpfs sessfs-left \"\$TMPDIR/x\"; exit 0" &&
		! grep sessfs-left /proc/self/mounts
}
# What another program sees.
mounts_apart() {
	counts '1 passed, 0 failed, 0 skipped' 0 "
		mkdir \"\$TMPDIR/x\" && mount -t tmpfs sessfs-apart \"\$TMPDIR/x\" || exit 1
		! grep sessfs-apart /proc/$$/mounts || exit 1
		umount \"\$TMPDIR/x\" && rmdir \"\$TMPDIR/x\""
}
if [ "$(id -u)" -eq 0 ]; then
	expect "a mount that is left is a failure, and goes" leaves_a_mount
	expect "a program has mounts of its own" mounts_apart
else
	skip "a mount that is left is a failure, and goes" "needs root"
fi

# The driver, with scripts for tests.  $1: the last line that it shall print, $2: its exit status,
# then NAME=SCRIPT for each test.
checks() {
	line=$1 wanted=$2
	shift 2
	names=
	rm -rf "$scratch/build"
	mkdir -p "$scratch/build/tests" "$scratch/source"
	ln -sfn "$top/tests" "$scratch/source/tests"
	for test; do
		printf '#!/bin/sh\n%s\n' "${test#*=}" >"$scratch/build/tests/${test%%=*}"
		chmod +x "$scratch/build/tests/${test%%=*}"
		names="$names tests/${test%%=*}"
	done
	# shellcheck disable=SC2086 # a list of words
	"$top/tests/check" --source "$scratch/source" --build "$scratch/build" \
		--slowest 3 $names >"$scratch/log" 2>&1
	status=$?
	cat "$scratch/log"
	[ "$(tail -n 1 "$scratch/log")" = "$line" ] && [ "$status" -eq "$wanted" ] &&
		[ "$(cat "$scratch/build/tests/summary")" = "$line" ]
}

finds_a_failure() {
	checks '4 passed, 1 failed, 1 skipped' 1 a='echo 3 passed, 0 failed' \
		b='echo ok - good; echo "  # note"; echo "not ok - bad"; echo why
		echo skipped: no reason; echo 1 passed, 1 failed, 1 skipped' &&
		grep -x 'not ok - bad' "$scratch/log" && grep -x why "$scratch/log" &&
		grep ' no reason$' "$scratch/log" &&
		! grep -e good -e note "$scratch/log"
}

names_the_slowest() {
	checks '2 passed, 0 failed' 0 \
		a='echo "ok - long (12.5 s)"; echo "ok - short (0.1 s)"; echo 2 passed, 0 failed' &&
		grep '12.5 s  tests/a: long' "$scratch/log"
}

expect "the driver adds up, and shows of a failure what has not passed" finds_a_failure
expect "the driver fails when no test passes" \
	checks '0 passed, 0 failed, 1 skipped' 1 a='exit 77'
expect "a test that cannot be run has failed" \
	checks '1 passed, 1 failed' 1 a='exit 0' b='exec /nowhere/at/all'
expect "the slowest cases are named" names_the_slowest

# Neither automake nor libtool can.
builds_in_no_odd_folder() {
	mkdir -p "$scratch/odd folder"
	cp "$top/bootstrap" "$scratch/odd folder/bootstrap"
	! "$scratch/odd folder/bootstrap" >"$scratch/shown" 2>&1 && grep 'blank' "$scratch/shown"
}

expect "bootstrap says that it builds in no folder with a blank" builds_in_no_odd_folder
finish
