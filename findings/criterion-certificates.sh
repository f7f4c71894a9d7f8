#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Criterion 2.4: each test case reads the TLS certificates of the whole system.
#
# Criterion runs each case in a process that starts anew.  Debian's library compares texts by
# libgit2, which it initializes in each of these processes, and libgit2 with Mbed TLS parses
# /etc/ssl/certs/ca-certificates.crt when it is initialized: 140 certificates, a third of the time
# of an empty case when AddressSanitizer watches the allocations.  A program of N cases reads the
# file N + 1 times, and compares no text at all.
#
# Seen with libcriterion3 2.4.1-2 and libgit2-1.5 1.5.1+ds-1+deb12u2 of Debian 12:
#	4 empty cases, certificates read 5 times
#
# Needs Debian 12 with ca-certificates, gcc and apt's lists; installs into a temporary directory.
# Ends with 0 if it is still so.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
apt-get -qq download libcriterion3=2.4.1-2 libcriterion-dev=2.4.1-2 \
	libgit2-1.5=1.5.1+ds-1+deb12u2 libnanomsg5 libhttp-parser2.9 libmbedcrypto7 libmbedtls14 \
	libmbedx509-1 libssh2-1 libffi8 strace libunwind8 >apt.log 2>&1 ||
	{ cat apt.log >&2; exit 1; }
for package in *.deb; do
	dpkg-deb -x "$package" root
done
libraries=$dir/root/usr/lib/$(gcc -print-multiarch)
export LD_LIBRARY_PATH="$libraries"

cat >cases.c <<'END'
#include <criterion/criterion.h>

Test(empty, a) {}
Test(empty, b) {}
Test(empty, c) {}
Test(empty, d) {}
END
gcc -o cases cases.c -Iroot/usr/include -L"$libraries" -Wl,-rpath-link,"$libraries" -lcriterion
root/usr/bin/strace -f -qq -e trace=openat,open -o trace ./cases --quiet
times=$(grep -c 'ca-certificates\.crt' trace || :)
echo "4 empty cases, certificates read $times times" | tee seen
[ "$times" -eq 5 ] || { echo "it has changed" >&2; exit 1; }
