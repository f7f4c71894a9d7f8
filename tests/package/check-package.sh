#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds the packages from a tree and tries them in a small system of their own, which is mounted
# through fstab(5), asked for its manual, and cleaned again.  Needs root, and the network.
#
# usage: check-package.sh TREE
#
#	SESSFS_SUITE=bookworm    which Debian to try; otherwise the one that runs here
#	SESSFS_MIRROR=URL        where it comes from
#	SESSFS_ROOT=DIR          a root made by debootstrap, which is copied instead of making one

set -u

tree=${1:?usage: check-package.sh TREE}
mirror=${SESSFS_MIRROR:-http://deb.debian.org/debian}
# shellcheck source=/dev/null
suite=${SESSFS_SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")}
passed=0
failed=0

say() {
	printf 'check-package: %s\n' "$*" >&2
}

fail() {
	say "$*"
	exit 1
}

[ "$(id -u)" -eq 0 ] || fail "only root can make a system to try the packages in"
[ -c /dev/fuse ] || fail "/dev/fuse is missing, so nothing can be mounted"
for command in debootstrap dpkg-buildpackage dh unshare chroot; do
	command -v "$command" >/dev/null 2>&1 ||
		fail "$command is missing; install debootstrap, dpkg-dev, debhelper, util-linux"
done

work=$(mktemp -d "${TMPDIR:-/var/tmp}/sessfs-package-XXXXXX") || exit 1
root=$work/root
# Mounts are made in a namespace of their own, so they have gone when that has.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM HUP

# Packages

build_packages() {
	cp -a "$tree" "$work/tree" && chmod -R u+w "$work/tree" &&
		(cd "$work/tree" && dpkg-buildpackage -us -uc -b) >"$work/build.log" 2>&1 ||
		{ tail -n 40 "$work/build.log" >&2; fail "dpkg-buildpackage has failed"; }
}

# A system

make_root() {
	if [ -n "${SESSFS_ROOT:-}" ]; then
		cp -a "$SESSFS_ROOT" "$root" || fail "cannot copy $SESSFS_ROOT"
	else
		debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/root.log" 2>&1 ||
			{ tail -n 20 "$work/root.log" >&2; fail "debootstrap has failed"; }
	fi
	cp /etc/resolv.conf "$root/etc/" 2>/dev/null
	mkdir -p "$root/packages"
	cp "$work"/*.deb "$root/packages/" && rm -f "$root"/packages/*-dbgsym_*.deb
	# No service is started in it.
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod +x "$root/usr/sbin/policy-rc.d"
}

# Runs the script on stdin in the system, with mounts and processes of its own, which end with it.
inside() {
	cat - >"$work/script"
	cat >"$root/packages/script" <<-'END' && cat "$work/script" >>"$root/packages/script"
	set -ex
	export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
	# What a '!' negates ends no script.
	not() {
		if "$@"; then exit 1; fi
	}
	END
	timeout "$limit" unshare -mpf --kill-child --propagation private sh -c '
		mount -t proc proc "$1/proc" && mount -t tmpfs -o mode=755,dev dev "$1/dev" &&
		while read -r name major minor; do
			mknod -m 666 "$1/dev/$name" c "$major" "$minor" || exit
		done <"$2" && exec chroot "$1" /bin/sh /packages/script
	' sh "$root" "$work/devices" </dev/null
}

# $1: a sentence; the script on stdin succeeds when it is true in the system.
expect() {
	if inside >"$work/said" 2>&1; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "NOT OK: $1"
		tail -n 30 "$work/said"
		failed=$((failed + 1))
	fi
}

# What is on the disk, but for what package managers keep for themselves.
files_of_the_root() {
	(
		cd "$root" || exit
		find . -xdev \( -path ./var/cache -o -path ./var/log -o -path ./var/lib/dpkg \
			-o -path ./var/lib/apt -o -path ./run -o -path ./packages \) -prune \
			-o -print | LC_ALL=C sort
	)
}

# The packages are in /packages.  The first time with all that they need.
install_packages() {
	expect "the packages can be installed" <<-END
		apt-get update -q
		apt-get install -y -q --no-install-recommends /packages/*.deb sqlite3 man-db \
			bash-completion
		sessfs --version
	END
	expect "they can be taken away" <<-END
		dpkg -P sessfs libsessfs-dev libsessfs0
		not command -v sessfs
		useradd -m agent
		mkdir -p /srv/sessions /srv/archive /var/lib/agents /home/agent/sessions
		chown agent /var/lib/agents /home/agent/sessions
	END
	files_of_the_root >"$work/before"
	expect "they can be installed again, with what is there" <<-END
		dpkg -i /packages/*.deb
	END
}

write_fstab() {
	# All words that somebody may write there, and what goes through a shell on its way.
	words=defaults,rw,relatime,_netdev,nofail,auto,exec,async,x-systemd.device-timeout=5
	words=$words,x-systemd.requires=network.target,x-gvfs-hide,comment=agents
	cat >"$root/etc/fstab" <<-END
	/var/lib/agents/store.db /srv/sessions fuse.sessfs $words,allow_other,max_size=2G 0 2
	/var/lib/agents/a\\040b.db /srv/archive fuse.sessfs noauto,noatime,noexec,strict 0 0
	/home/agent/store.db /home/agent/sessions fuse.sessfs user,noauto 0 0
	END
}

# Negative control: what is asked here must be able to fail.
try_the_questions() {
	for wrong in 'false; true' 'not true; true'; do
		echo "$wrong" | inside >/dev/null 2>&1 &&
			fail "a script that fails in the system is not seen to fail"
	done
	echo 'true; not false' | inside >"$work/said" 2>&1 ||
		{ cat "$work/said" >&2; fail "no script runs in the system"; }
}

try_packages() {
	expect "mount -a mounts what fstab says, and a second one changes nothing" <<-END
		mount -a
		findmnt -t fuse.sessfs -no TARGET | grep -x /srv/sessions
		mount -a
		[ \$(findmnt -t fuse.sessfs -no TARGET | wc -l) -eq 1 ]
		mkdir /srv/sessions/demo
		echo '{"n": 1}' >>/srv/sessions/demo/l.jsonl
		sqlite3 /var/lib/agents/store.db 'SELECT state_data FROM agentscope_sessions' |
			grep -x '{"n": 1}'
		[ \$(stat -c %U /var/lib/agents/store.db) = agent ]
		umount /srv/sessions
		not grep fuse.sessfs /proc/self/mountinfo
		mount /srv/sessions
		grep -x '{"n": 1}' /srv/sessions/demo/l.jsonl
		umount -a -t fuse.sessfs
	END
	expect "a store with a blank in its name is mounted, with the options of its line" <<-END
		mount /srv/archive
		[ -e '/var/lib/agents/a b.db' ]
		findmnt -no OPTIONS /srv/archive | grep noexec
		mkdir /srv/archive/s
		not cp /etc/os-release /srv/archive/s/k.json
		mount -o remount,ro /srv/archive
		not mkdir /srv/archive/t
		umount /srv/archive
	END
	expect "mount -t fuse.sessfs works, and says why when it does not" <<-END
		mount -t fuse.sessfs /var/lib/agents/store.db /srv/sessions -o ro
		not mkdir /srv/sessions/new
		umount /srv/sessions
		not mount -t fuse.sessfs /etc/passwd /srv/sessions 2>/packages/said
		grep 'sessfs: ' /packages/said
	END
	expect "a user mounts and unmounts what fstab allows" <<-END
		runuser -u agent -- mount /home/agent/sessions
		runuser -u agent -- mkdir /home/agent/sessions/s
		not ls /home/agent/sessions
		runuser -u agent -- umount /home/agent/sessions
	END
	expect "the manual answers" <<-END
		for page in sessfs 'sessfs 1' 'sessfs 5' sessfs-security libsessfs; do
			man \$page | grep -q NAME
		done
	END
	expect "bash completes the command line" <<-END
		bash -c '. /usr/share/bash-completion/bash_completion && _completion_loader sessfs;
			complete -p sessfs'
		[ -e /usr/share/zsh/vendor-completions/_sessfs ]
		[ -e /usr/share/fish/vendor_completions.d/sessfs.fish ]
	END
	expect "the units are where systemd looks" <<-END
		[ -e /usr/lib/systemd/system/sessfs@.service ]
		[ -e /usr/lib/systemd/user/sessfs.service ]
		[ -d /etc/sessfs ]
	END
}

purge_packages() {
	expect "the packages can be purged" <<-END
		dpkg -P sessfs libsessfs-dev libsessfs0
	END
	rm -f "$root"/var/lib/agents/* "$root"/home/agent/store.db*
	files_of_the_root >"$work/after"
	if diff "$work/before" "$work/after" >"$work/said" &&
		! grep -i sessfs "$work/after" >"$work/said"; then
		echo "ok: nothing is left but the stores"
		passed=$((passed + 1))
	else
		echo "NOT OK: nothing is left but the stores"
		head -n 30 "$work/said"
		failed=$((failed + 1))
	fi
}

limit=900
cat >"$work/devices" <<-END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
END
build_packages
make_root
try_the_questions
install_packages
write_fstab
try_packages
purge_packages
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
