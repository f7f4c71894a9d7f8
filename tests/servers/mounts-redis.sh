#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Cases of tests/mount on stores of a server; skipped where none is installed.
SESSFS_TEST_KIND=redis exec "$top_srcdir/tests/servers/test_mounts.py" "$@"
