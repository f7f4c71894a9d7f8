#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The packages, built from a release and tried in a system of their own (check-package.sh), in a
# soak; skipped where such a system cannot be made.

for command in debootstrap dpkg-buildpackage dh; do
	command -v "$command" >/dev/null 2>&1 || {
		echo "skipped: the packages: $command is not installed"
		exit 77
	}
done
[ "$(id -u)" -eq 0 ] || {
	echo "skipped: the packages: only root can make a system to try them in"
	exit 77
}
exec make -s -C "$top_builddir" check-package
