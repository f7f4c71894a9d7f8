#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What `make install` leaves, and whether the packages, the container file and the units fit it.

here=$(dirname "$0")
. "$here/../style/cases.sh"

build=${top_builddir:-$top/build}
files=$here/files

variable() {
	sed -n "s/^$1 = //p" "$build/Makefile"
}

prefix=$(variable prefix)
cc=$(variable CC)
sanitizers=$(variable SANITIZER_CFLAGS)
# make check tells its jobs and variables to what it starts.
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR

install_all() {
	make -s -C "$build" install DESTDIR="$scratch/root" >"$scratch/log" 2>&1 ||
		{ tail -n 20 "$scratch/log"; return 1; }
}

installed() {
	(cd "$scratch/root$prefix" && find . ! -type d | cut -c 3- | LC_ALL=C sort)
}

# The build for the tests has no archive of the library.
listed() {
	if grep -q '^build_old_libs=no' "$build/libtool"; then
		grep -v '/libsessfs\.a$' "$files"
	else
		cat "$files"
	fi
}

installs_the_list() {
	install_all && listed >"$scratch/files" && installed | diff "$scratch/files" -
}

# The paths in links and those in contrib/ that a page names, but folders.
named() {
	sed -e 's/](\([A-Za-z][^):]*\))/\n@\1\n/g' -e 's/`\(contrib\/[^` ]*\)`/\n@\1\n/g' "$1" |
		sed -n 's/^@//p' | grep -v '/$' | sort -u
}

# $1: the page.
installs_what_is_named() {
	named "$1" >"$scratch/named"
	grep -q '^contrib/examples/session.c$' "$scratch/named" || return 1
	while read -r name; do
		page=share/man/man${name##*.}/${name#doc/}
		[ -f "$scratch/root$prefix/share/doc/sessfs/$name" ] ||
			[ -f "$scratch/root$prefix/$page" ] || echo "lacks $name"
	done <"$scratch/named" | nothing
}

# README.md and the guide, whose links are made to start where those of README.md do.
pages() {
	cat "$top/README.md"
	sed -e 's/](\([A-Za-z][^):]*\))/](doc\/\1)/g' -e 's/](\.\.\//](/g' "$top/doc/guide.md"
}

finds_a_name_in_vain() {
	{ pages; echo 'See [more](contrib/more.md).'; } >"$scratch/README.md"
	! installs_what_is_named "$scratch/README.md"
}

# A store that needs nothing of this tree but what is installed.
builds_a_store() {
	echo sessfs_plugin >"$scratch/shown"
	cp -R "$top/contrib/store" "$scratch/store" && chmod -R u+w "$scratch/store" &&
		PKG_CONFIG_PATH="$scratch/root$prefix/lib/pkgconfig" \
			PKG_CONFIG_SYSROOT_DIR="$scratch/root" \
			make -C "$scratch/store" CC="$cc" \
				CFLAGS="-Wall -Wextra -Werror $sanitizers" &&
		nm -D --defined-only "$scratch/store/store.so" | cut -d ' ' -f 3 |
			grep -v '^__odr_asan\.' | diff - "$scratch/shown"
}

# Of the contract all but what a store need not have.
holds_the_contract() {
	SESSFS_STORE="$scratch/store/store.so" "$build/tests/contract/plugin" --quiet
}

uninstalls_all() {
	make -s -C "$build" uninstall DESTDIR="$scratch/root" >/dev/null 2>&1 &&
		installed | nothing
}

# Of what is in git, all but what only git needs.
releases_all() {
	release=$scratch/release
	make -s -C "$build" distdir distdir="$release" top_distdir="$release" >/dev/null 2>&1
	git -C "$top" ls-files | grep -v '\.gitignore$' | while read -r file; do
		[ -e "$release/$file" ] || echo "lacks $file"
	done | nothing
}

# The words of the lists of the packages, as patterns for names below usr.  Debian has its
# libraries in a folder of their own, which is a '*' in the lists, and zsh looks elsewhere.
patterns() {
	cat "$1/debian/"*.install "$1/debian/not-installed" |
		sed -e 's|^usr/||' -e 's|lib/\*/|lib/|'
}

# Every file is in one package, or in none on purpose, and no word is in vain.  $1: a tree.
packages_hold_all() {
	patterns "$1" >"$scratch/patterns"
	while read -r file; do
		found=0
		while read -r pattern; do
			# shellcheck disable=SC2254 # it is a pattern
			case $file in
			$pattern | $pattern/*)
				found=$((found + 1))
				echo "$pattern" >>"$scratch/used"
				;;
			esac
		done <"$scratch/patterns"
		[ "$found" -eq 1 ] || echo "$file is in $found packages"
	done <"$files" >"$scratch/wrong"
	sort -u "$scratch/patterns" >"$scratch/known"
	sort -u "$scratch/used" | comm -13 - "$scratch/known" | sed 's/$/ fits no file/' \
		>>"$scratch/wrong"
	nothing <"$scratch/wrong"
}

# $1: a command of sed that spoils a list.
finds_a_wrong_list() {
	rm -rf "$scratch/tree"
	mkdir -p "$scratch/tree"
	cp -R "$top/debian" "$scratch/tree/" && chmod -R u+w "$scratch/tree" || return
	sed -i "$1" "$scratch/tree/debian/sessfs.install"
	! packages_hold_all "$scratch/tree"
}

# The packages of the libraries that a program is linked with, but for what every system has.
runtime_packages() {
	readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -v -e '^libasan\.' -e '^libubsan\.' -e '^libtsan\.' -e '^libclang_rt\.' |
		while read -r name; do
			file=$(ldd "$1" | awk -v name="$name" '$1 == name { print $3 }')
			dpkg -S "$(readlink -f "$file")" | sed 's/:.*//'
		done | sort -u | grep -v -x -e libc6 -e 'libgcc-s1'
}

program() {
	if [ -e "$build/.libs/sessfs" ]; then
		echo "$build/.libs/sessfs"
	else
		echo "$build/sessfs"
	fi
}

# $1: a container file.
holds_the_libraries() {
	sed '1,/^FROM.*AS build/d' "$1" >"$scratch/second"
	runtime_packages "$(program)" >"$scratch/packages"
	grep . "$scratch/packages" || return 1
	while read -r package; do
		grep -qw -e "$package" "$scratch/second" || echo "lacks $package"
	done <"$scratch/packages" | nothing
}

finds_a_missing_library() {
	sed 's/libsqlite3-0//' "$top/contrib/Containerfile" >"$scratch/Containerfile"
	! holds_the_libraries "$scratch/Containerfile"
}

# $1: a folder with debian/control.  What bootstrap installs to build with, the package names too.
builds_with_the_same() {
	sed -n "/^apt_build='/,/'\$/p" "$top/bootstrap" | tr -s " \t'" '\n' |
		grep '^lib.*-dev$' | grep -v '^libc6-dev$' | while read -r package; do
		sed -n '/^Build-Depends:/,/^[^ ]/p' "$1/debian/control" | grep -q " $package " ||
			echo "debian/control lacks $package"
	done | nothing
}

finds_a_missing_dependency() {
	mkdir -p "$scratch/other/debian"
	sed '/libjansson-dev/d' "$top/debian/control" >"$scratch/other/debian/control"
	! builds_with_the_same "$scratch/other"
}

versions_agree() {
	version=$(sed -n 's/^AC_INIT(\[sessfs\], \[\(.*\)\])/\1/p' "$top/configure.ac")
	head -n 1 "$top/debian/changelog" | grep -F "sessfs ($version)"
}

# systemd looks for programs of a unit where they are not yet.  $1: a unit, further words: for it.
unit_is_right() {
	unit=$1
	shift
	mkdir -p "$scratch/units" "$scratch/run"
	# Only what is wrong is printed, and that is not always a status.
	sed "s|=sessfs |=$(program) |" "$top/contrib/systemd/$unit" >"$scratch/units/$unit"
	[ $# -eq 0 ] || cat >>"$scratch/units/$unit"
	XDG_RUNTIME_DIR="$scratch/run" systemd-analyze verify --man=no --generators=no \
		"$(manager_of "$unit")" "$scratch/units/$unit" 2>&1 | grep -F "$unit" | nothing
}

manager_of() {
	case $1 in
	*@*) echo --system ;;
	*) echo --user ;;
	esac
}

finds_a_wrong_word() {
	! echo 'Nonsense=1' | unit_is_right "$1" wrong
}

# What gives a service mounts of its own hides ours.
mount_words='Private(Tmp|Devices|Mounts|Users|IPC) Protect(System|Home|Kernel.*|ControlGroups|Proc)
	ProcSubset (ReadOnly|ReadWrite|Inaccessible|NoExec|Exec|Bind|BindReadOnly)Paths
	TemporaryFileSystem Root(Directory|Image) MountAPIVFS MountFlags DynamicUser LogNamespace
	LoadCredential.*'

# $1: a unit.
no_mounts_of_its_own() {
	for word in $mount_words; do
		grep -E "^$word=" "$1"
	done | nothing
}

finds_a_mount_of_its_own() {
	sed '/^\[Service\]/aProtectSystem=strict' "$top/contrib/systemd/$1" >"$scratch/$1"
	! no_mounts_of_its_own "$scratch/$1"
}

# What the head of the unit has as a drop-in for a store on a server.
drop_in_of() {
	sed -n '/^#	\[Unit\]/,/^# *$/{ s/^#	//p; }' "$1"
}

# Addresses of the network that a unit leaves open; further files: drop-ins.
reaches_servers() {
	[ "$(cat "$@" | sed -n 's/^IPAddressDeny=//p' | tail -n 1)" = "" ] || return 1
	for family in AF_UNIX AF_INET AF_INET6 AF_NETLINK; do
		cat "$@" | grep "^RestrictAddressFamilies=" | grep -qw "$family" ||
			echo "lacks $family"
	done | nothing
}

lets_the_unit_reach_servers() {
	unit=$top/contrib/systemd/sessfs@.service
	drop_in_of "$unit" >"$scratch/drop-in"
	! reaches_servers "$unit" && reaches_servers "$unit" "$scratch/drop-in"
}

expect "the drop-in of sessfs@.service lets it reach a server" lets_the_unit_reach_servers
expect "make install leaves the files that are listed" installs_the_list
pages >"$scratch/pages"
expect "what README.md and the guide name is installed" installs_what_is_named "$scratch/pages"
expect "a name of nothing that is installed is found" finds_a_name_in_vain
if [ -x "$build/tests/contract/plugin" ] && command -v pkg-config >/dev/null 2>&1; then
	expect "a store of another kind is built with what is installed" builds_a_store
	expect "it holds the contract" holds_the_contract
else
	skip "a store of another kind holds the contract" "Criterion or pkg-config is missing"
fi
expect "make uninstall takes them away again" uninstalls_all
if git -C "$top" ls-files 2>/dev/null | grep -q '^bootstrap$'; then
	expect "a release has every file" releases_all
else
	skip "a release has every file" "this is none of git's folders"
fi
expect "a file that no package has is found" finds_a_wrong_list '/bin\/sessfs/d'
expect "a word that fits no file is found" finds_a_wrong_list '$ausr/share/nonsense'
expect "every file is in one package" packages_hold_all "$top"
expect "a package that is missing to build with is found" finds_a_missing_dependency
expect "bootstrap and debian/control name the same libraries" builds_with_the_same "$top"
expect "configure.ac and debian/changelog name the same version" versions_agree
if command -v dpkg >/dev/null 2>&1 && command -v readelf >/dev/null 2>&1; then
	expect "a library that the container lacks is found" finds_a_missing_library
	expect "the container has the libraries" holds_the_libraries "$top/contrib/Containerfile"
else
	skip "the container has the libraries" "dpkg or readelf is not installed"
fi
for unit in sessfs.service sessfs@.service; do
	expect "mounts of its own are found in $unit" finds_a_mount_of_its_own "$unit"
	expect "$unit has no mounts of its own" \
		no_mounts_of_its_own "$top/contrib/systemd/$unit"
	if command -v systemd-analyze >/dev/null 2>&1; then
		expect "a wrong word in $unit is found" finds_a_wrong_word "$unit"
		expect "systemd has nothing to say about $unit" unit_is_right "$unit"
		[ "$unit" = sessfs.service ] ||
			expect "nor about its drop-in" \
				unit_is_right "$unit" drop-in <"$scratch/drop-in"
	else
		skip "systemd has nothing to say about $unit" "systemd-analyze is not installed"
	fi
done
finish
