#!/bin/sh
# SPDX-License-Identifier: MIT
#
# libmariadb 10.11: a result that is cut off looks like a statement without rows.
#
# A program that gets NULL from mysql_store_result() is told by the manual to ask
# mysql_field_count(): 0 says that the statement had no rows to give, anything else that rows were
# lost.  When the connection ends between the columns and the last row (an administrator's KILL, a
# restart of the server), the library sets the count to 0 itself: the idiom takes the loss for a
# statement without rows.  Only mysql_errno() tells.
#
# Seen with libmariadb3 and mariadb-server-core 1:10.11.19-0+deb12u1 of Debian 12:
#	before the KILL: 2 columns
#	after it: no result, 0 columns, error 2013
#
# Needs Debian 12, gcc and apt's lists; installs into a temporary directory.  Ends with 0 if it is
# still so.
set -eu

version=1:10.11.19-0+deb12u1
dir=$(mktemp -d)
server=
finish() {
	if [ "$server" ]; then
		kill "$server" && wait "$server" || :
	fi
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
apt-get -qq download mariadb-server-core="$version" mariadb-server="$version" \
	libmariadb3="$version" libmariadb-dev="$version" libaio1 liburing2 libnuma1 >apt.log 2>&1 ||
	{ cat apt.log >&2; exit 1; }
for package in *.deb; do
	dpkg-deb -x "$package" root
done
libraries=$(dirname "$(find root/usr/lib -name libmariadb.so.3)")
export LD_LIBRARY_PATH="$dir/$libraries:$dir/root/usr/lib/$(gcc -print-multiarch):$dir/root/lib/$(gcc -print-multiarch)"

mkdir data
root/usr/sbin/mariadbd --no-defaults --bootstrap --user="$(id -un)" --datadir="$dir/data" \
	--lc-messages-dir="$dir/root/usr/share/mysql" --max-connections=10 2>>server.log <<-END
	CREATE DATABASE mysql;
END
root/usr/sbin/mariadbd --no-defaults --skip-grant-tables --skip-networking --user="$(id -un)" \
	--datadir="$dir/data" --socket="$dir/socket" --pid-file="$dir/pid" \
	--max-connections=10 --lc-messages-dir="$dir/root/usr/share/mysql" --log-error="$dir/server.log" &
server=$!
while [ ! -S socket ]; do
	kill -0 "$server" || { cat server.log >&2; exit 1; }
	sleep 0.1
done

cat >lost.c <<'END'
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>

static MYSQL *link_to(const char *socket)
{
	MYSQL *link = mysql_init(NULL);

	if (!mysql_real_connect(link, NULL, "root", NULL, NULL, 0, socket, 0)) {
		fprintf(stderr, "%s\n", mysql_error(link));
		exit(2);
	}
	return link;
}

int main(int count, char **arguments)
{
	MYSQL *reader = link_to(arguments[1]), *administrator = link_to(arguments[1]);
	MYSQL_RES *rows;

	/* 200 MB, so that the server is still sending when the connection ends. */
	if (count != 2 || mysql_query(reader, "SELECT seq, REPEAT('x', 100000) FROM mysql.seq_1_to_2000"))
		return 2;
	printf("before the KILL: %u columns\n", mysql_field_count(reader));
	if (mysql_kill(administrator, mysql_thread_id(reader)))
		return 2;
	rows = mysql_store_result(reader);
	printf("after it: %s, %u columns, error %u\n", rows ? "a result" : "no result",
	       mysql_field_count(reader), mysql_errno(reader));
	mysql_close(administrator);
	return 0;
}
END
gcc -o lost lost.c -I"$(dirname "$(find root/usr/include -name mysql.h | head -1)")" \
	-L"$libraries" -lmariadb
./lost "$dir/socket" | tee seen
printf '%s\n' 'before the KILL: 2 columns' 'after it: no result, 0 columns, error 2013' |
	cmp -s - seen || { echo "it has changed" >&2; exit 1; }
