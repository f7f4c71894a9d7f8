#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds the packages from a tree and tries them in a small system of their own: stores are mounted
# through fstab(5), the manual is asked, a copy of the system is booted to try the units, and all is
# cleaned again.  Needs root, and the network.
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
skipped=0

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
	unset TMPDIR # that of outside
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
			bash-completion systemd systemd-sysv libpam-systemd dbus-user-session
		sessfs --version
	END
	expect "they can be taken away" <<-END
		dpkg -P sessfs-mysql sessfs-postgresql sessfs-redis sessfs-s3 sessfs libsessfs-dev \
			libsessfs0
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
	expect "a store on a server needs its package, and says so" <<-END
		url='mysql://agent@127.0.0.1:1/x?tls=off'
		not sessfs mount "\$url" /srv/sessions 2>/packages/said
		grep 127.0.0.1 /packages/said
		dpkg -r sessfs-mysql
		not sessfs mount "\$url" /srv/sessions 2>/packages/said
		grep 'the package sessfs-mysql' /packages/said
		dpkg -i /packages/sessfs-mysql_*.deb
	END
	expect "a bucket needs its package, and says so" <<-END
		export AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x AWS_MAX_ATTEMPTS=1
		url="--endpoint=http://127.0.0.1:1 /var/lib/agents/s3.db s3://bucket"
		not sessfs import \$url 2>/packages/said
		grep 127.0.0.1 /packages/said
		dpkg -r sessfs-s3
		not sessfs import \$url 2>/packages/said
		grep 'the package sessfs-s3' /packages/said
		dpkg -i /packages/sessfs-s3_*.deb
	END
	expect "a user mounts and unmounts what fstab allows" <<-END
		runuser -u agent -- mount /home/agent/sessions
		runuser -u agent -- mkdir /home/agent/sessions/s
		not ls /home/agent/sessions
		runuser -u agent -- umount /home/agent/sessions
	END
	expect "the manual answers" <<-END
		for page in sessfs 'sessfs 1' 'sessfs 5' sessfs-s3 sessfs-security sessfs-servers \
			sessfs-views libsessfs; do
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

# What a copy of the system tries when it was booted, as a service of its own.
write_probe() {
	mkdir -p "$booted/etc/systemd/system/multi-user.target.wants" \
		"$booted/home/agent/.config/systemd/user/default.target.wants" \
		"$booted/var/lib/systemd/linger"
	rm -f "$booted/usr/sbin/policy-rc.d"
	cat >"$booted/etc/systemd/system/probe.service" <<-END
	[Unit]
	After=sessfs@agents.service user@$agent.service
	[Service]
	Type=oneshot
	ExecStart=sh /packages/probe
	ExecStopPost=systemctl --no-block poweroff
	TimeoutStartSec=120
	END
	# A service that uses the mount, right away.
	cat >"$booted/home/agent/.config/systemd/user/agent.service" <<-END
	[Unit]
	Wants=sessfs.service
	After=sessfs.service
	[Service]
	Type=oneshot
	ExecStart=sh -c 'mkdir %h/sessions/demo && echo 1 >>%h/sessions/demo/l.jsonl'
	RemainAfterExit=yes
	END
	ln -s ../probe.service "$booted/etc/systemd/system/multi-user.target.wants/"
	ln -s /usr/lib/systemd/system/sessfs@.service \
		"$booted/etc/systemd/system/multi-user.target.wants/sessfs@agents.service"
	for unit in /usr/lib/systemd/user/sessfs.service ../agent.service; do
		ln -s "$unit" "$booted/home/agent/.config/systemd/user/default.target.wants/"
	done
	touch "$booted/var/lib/systemd/linger/agent"
	chroot "$booted" chown -R agent: /home/agent
	printf 'STORE=/var/lib/agents/unit.db\nDIR=/srv/archive\n' >"$booted/etc/sessfs/agents.conf"
	echo '/var/lib/agents/store.db /srv/sessions fuse.sessfs allow_other,nofail 0 0' \
		>"$booted/etc/fstab"
	echo 'c! /dev/fuse 0666 - - - 10:229' >"$booted/etc/tmpfiles.d/fuse.conf"
	cat >"$booted/packages/probe" <<-'END'
	exec >/packages/probed 2>&1
	# Until it is so, or for ten seconds.
	is() {
		sentence=$1
		shift
		for _ in $(seq 20); do
			if "$@" >/packages/said 2>&1; then
				echo "ok: $sentence"
				return
			fi
			sleep 0.5
		done
		echo "NOT OK: $sentence"
		cat /packages/said
	}
	not() {
		if "$@"; then return 1; fi
	}
	of_user() {
		XDG_RUNTIME_DIR=/run/user/$(id -u agent) runuser -u agent -- "$@"
	}
	ours() {
		findmnt -kno FSTYPE "$1" | grep -qx fuse.sessfs
	}
	ctl() {
		$how "$@"
	}
	property() {
		[ "$(ctl show -P "$1" "$unit")" = "$2" ]
	}
	says() {
		ctl show -P StatusText "$unit" | grep "$1"
	}
	holds() {
		of_user grep -q n "$dir/demo/l.jsonl"
	}
	daemon_is_of() {
		pid=$(ctl show -P MainPID "$unit")
		[ "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status")" = "$(id -u "$1")" ]
	}
	# $1: a level, $2: a sentence of the daemon.
	journal_has() {
		journalctl -p "$1" --no-pager -o cat "_SYSTEMD_UNIT=$unit" | grep "$2"
	}
	try_unit() {
		unit=$1 dir=$2 how=$3
		is "$unit is active" property ActiveState active
		is "$unit has mounted" ours "$dir"
		is "$unit says what" says 'is mounted on'
		is "$unit serves as the owner of its store" daemon_is_of agent
		of_user mkdir -p "$dir/demo"
		of_user sh -c "echo '{\"n\": 1}' >>$dir/demo/l.jsonl"
		kill -KILL "$(ctl show -P MainPID "$unit")"
		is "$unit is started again when it was killed" property NRestarts 1
		is "$unit mounts again, and nothing is lost" holds
		of_user sh -c "exec sleep 60 4>>$dir/demo/held" &
		sleep 1
		is "$unit is stopped while its mount is in use" ctl stop "$unit"
		is "$unit has unmounted" not ours "$dir"
		is "$unit has ended well" property Result success
		is "$unit is started by hand" ctl start "$unit"
		is "$unit has mounted when that returns" holds
	}
	is "fstab is mounted at boot" ours /srv/sessions
	is "a directory that is not mounted is seen as such" not ours /srv
	is "a user's service that wants the mount finds it" \
		of_user grep -x 1 /home/agent/sessions/demo/l.jsonl
	try_unit sessfs@agents.service /srv/archive systemctl
	is "information of the daemon is in the journal" journal_has info 'is mounted on'
	is "it is no notice there" not journal_has notice 'is mounted on'
	try_unit sessfs.service /home/agent/sessions 'of_user systemctl --user'
	END
}

try_boot() {
	booted=$work/booted
	if ! command -v systemd-nspawn >/dev/null 2>&1; then
		echo "skipped: the units work in a system that was booted: no systemd-nspawn"
		skipped=$((skipped + 1))
		return
	fi
	cp -a "$root" "$booted" || fail "cannot copy the system"
	agent=$(chroot "$booted" id -u agent)
	write_probe
	set -- --property='DeviceAllow=/dev/fuse rwm'
	[ -d /run/systemd/system ] || set -- --keep-unit
	timeout 180 systemd-nspawn -q -D "$booted" --register=no "$@" -b </dev/null \
		>"$work/boot.log" 2>&1
	if ! grep . "$booted/packages/probed"; then
		echo "NOT OK: the system can be booted"
		tail -n 20 "$work/boot.log"
		failed=$((failed + 1))
		return
	fi
	passed=$((passed + $(grep -c '^ok: ' "$booted/packages/probed")))
	failed=$((failed + $(grep -c '^NOT OK: ' "$booted/packages/probed")))
}

purge_packages() {
	expect "the packages can be purged" <<-END
		dpkg -P sessfs-mysql sessfs-postgresql sessfs-redis sessfs-s3 sessfs libsessfs-dev \
			libsessfs0
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
try_boot
purge_packages
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
