#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The contract of stores, held by one on Redis; skipped where no server is installed.
exec "$top_srcdir/tests/servers/with-server" redis \
	"$top_builddir/tests/contract/redis" "$@"
