#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The contract of stores, held by those on servers; skipped where no server is installed.
exec "$top_srcdir/tests/servers/with-server" postgresql \
	"$top_builddir/tests/contract/servers" "$@"
