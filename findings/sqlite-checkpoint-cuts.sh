#!/bin/sh
# SPDX-License-Identifier: MIT
#
# SQLite 3.40.1: a checkpoint takes away the blocks that a database was given behind its end.
#
# A program that wants a later transaction to find room on a full disk may give the database blocks
# behind its end (fallocate with FALLOC_FL_KEEP_SIZE, which "fallocate --keep-size" is).  A
# checkpoint that has copied the whole log ends with ftruncate() to the size of the database, also
# where that is its size already, and Linux frees all blocks behind the end then.  A passive
# checkpoint does so beside another connection's transaction that is under way, and was given the
# blocks: they may be another program's when it commits.
#
# Seen with sqlite3 and libsqlite3-0 3.40.1-2+deb12u2 of Debian 12, on ext4 and tmpfs:
#	given: size 8192, 8192 KiB
#	after the checkpoint: size 8192, 8 KiB
#
# Needs Debian 12 and apt's lists; installs into a temporary directory.  Ends with 0 if it is still
# so.
set -eu

version=3.40.1-2+deb12u2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
apt-get -qq download sqlite3="$version" libsqlite3-0="$version" libreadline8 libtinfo6 >apt.log 2>&1 ||
	{ cat apt.log >&2; exit 1; }
for package in *.deb; do
	dpkg-deb -x "$package" root
done
LD_LIBRARY_PATH=$(dirname "$(find "$dir/root" -name 'libsqlite3.so.0')")
export LD_LIBRARY_PATH

cat >look <<'END'
#!/bin/sh
stat -c '%s %b %B' db
END
cat >checkpoint <<'END'
#!/bin/sh
root/usr/bin/sqlite3 db 'PRAGMA wal_checkpoint(PASSIVE)' >/dev/null
END
chmod +x look checkpoint

root/usr/bin/sqlite3 db >seen <<-END
	.output /dev/null
	PRAGMA journal_mode = WAL;
	PRAGMA wal_autocheckpoint = 0;
	CREATE TABLE t (data);
	INSERT INTO t VALUES ('committed');
	PRAGMA wal_checkpoint(TRUNCATE);
	INSERT INTO t VALUES ('in the log');
	BEGIN;
	INSERT INTO t VALUES ('under way');
	.output
	.shell fallocate --keep-size --length 8M db
	.shell ./look
	.shell ./checkpoint
	.shell ./look
	COMMIT;
END
set -- $(cat seen)
echo "sqlite3 $version"
echo "given: size $1, $(($2 * $3 >> 10)) KiB"
echo "after the checkpoint: size $4, $(($5 * $6 >> 10)) KiB"
[ "$1" = "$4" ] && [ $(($2 * $3)) -ge $((8 << 20)) ] && [ $(($5 * $6)) -lt $((1 << 20)) ]
