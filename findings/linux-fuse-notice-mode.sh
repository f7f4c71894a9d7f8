#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Linux 6.18 and libfuse 3.14.0: a notice for an inode that has just been looked up costs it its mode.
#
# fuse_lowlevel_notify_inval_inode() makes the kernel drop attributes of answers that are under way,
# since they may be older.  It does so as well for an inode that it has just made for the answer to a
# look-up, which is then without a mode and an owner.  The kernel asks for the attributes before it
# opens the file, and drops that answer, too, if another notice has come meanwhile: so open(2) fails
# with EACCES for all users but root, although no answer ever had such a mode.  A filesystem can only
# leave out notices for what the kernel has not asked about since its look-up, and answer with
# attributes that hold for no time.
#
# Here each look-up finds a new inode with the mode 0644, and a thread sends notices for the newest
# all the time.  Seen after 2,000 to 100,000 opens:
#	open(2) for reading, mode 0644: Permission denied
#
# Needs Debian 12, apt's lists, gcc, /dev/fuse and root; installs into a temporary directory.  Ends
# with 0 if it is still so, and with 1 if no open was refused within two minutes.
set -eu

version=3.14.0-4
dir=$(mktemp -d)
trap 'umount -l "$dir/mount" 2>/dev/null || :; rm -rf --one-file-system "$dir"' EXIT
trap 'exit 1' INT TERM HUP

chmod 755 "$dir"
cd "$dir"
apt-get -qq download libfuse3-3="$version" libfuse3-dev="$version" >apt.log 2>&1 ||
	{ cat apt.log >&2; exit 1; }
for package in *.deb; do
	dpkg-deb -x "$package" root
done
libraries=$(dirname "$(find "$dir/root" -name 'libfuse3.so.3')")
mkdir mount

cat >notices.c <<'END'
#define FUSE_USE_VERSION 314
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic unsigned long newest = 2; /* the file's number: a new one at each look-up */
static _Atomic bool ends;
static struct fuse_session *session;

static struct stat attributes(fuse_ino_t ino)
{
	struct stat st = { .st_ino = ino, .st_nlink = 1, .st_uid = 65534, .st_gid = 65534 };

	st.st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644;
	return st;
}

static void lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = { 0 };

	(void)parent, (void)name;
	entry.ino = ++newest;
	entry.attr = attributes(entry.ino);
	entry.attr_timeout = 3600;
	fuse_reply_entry(req, &entry);
}

static void getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = attributes(ino);

	(void)fi;
	fuse_reply_attr(req, &st, 3600);
}

static void open_file(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fuse_reply_open(req, fi);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = lookup, .getattr = getattr, .open = open_file
};

static void *notify(void *arg)
{
	while (!ends)
		fuse_lowlevel_notify_inval_inode(session, newest, -1, 0);
	return arg;
}

static void *serve(void *arg)
{
	fuse_session_loop(session);
	return arg;
}

/* Not root, to which no mode is a limit. */
static void open_often(const char *path)
{
	long opens = 0, denied = 0;
	time_t end = time(NULL) + 120;

	if (setgid(65534) < 0 || setuid(65534) < 0)
		exit(1);
	while (!denied && time(NULL) < end) {
		int fd = open(path, O_RDONLY);

		opens++;
		denied += fd < 0 && errno == EACCES;
		if (fd >= 0)
			close(fd);
	}
	printf("open(2) for reading, mode 0644: %s\n", denied ? strerror(EACCES) : "never refused");
	fprintf(stderr, "%ld opens\n", opens);
	fflush(stdout);
	exit(denied ? 0 : 1);
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	char path[4096];
	pthread_t thread, loop;
	int status;
	pid_t pid;

	(void)argc;
	fuse_opt_add_arg(&args, argv[0]);
	fuse_opt_add_arg(&args, "-odefault_permissions,allow_other");
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!session || fuse_session_mount(session, argv[1]) < 0)
		return 3;
	pthread_create(&thread, NULL, notify, NULL);
	snprintf(path, sizeof(path), "%s/file", argv[1]);
	pid = fork();
	if (pid == 0)
		open_often(path);
	pthread_create(&loop, NULL, serve, NULL);
	waitpid(pid, &status, 0);
	ends = true;
	pthread_join(thread, NULL);
	fuse_session_unmount(session);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
}
END
cc -O2 -I root/usr/include/fuse3 -I root/usr/include -D_FILE_OFFSET_BITS=64 -o notices notices.c \
	"$libraries/libfuse3.so.3" -lpthread
echo "Linux $(uname -r | cut -d. -f1,2), libfuse $version"
LD_LIBRARY_PATH=$libraries ./notices "$dir/mount"
