/* SPDX-License-Identifier: MIT */
#ifndef HOLDERS_H
#define HOLDERS_H

/* Which processes use or serve a mount, as /proc says; the mount itself is not asked.  Root sees
 * all processes, other users see their own; the others are left out. */

#include "backend/base/buf.h"
#include "src/mounts/mounts.h"

/* The daemon that serves it; 0 when it has ended, or cannot be seen. */
long holders_daemon(const struct mount_entry *entry);

/* The URL of a store on a server as the daemon was given it, owned by the caller: the kernel shows
 * neither a password nor the way to the server.  NULL: it cannot be seen. */
char *holders_url(const struct mount_entry *entry);

/* A daemon that has a store for writing. */
struct holders_owner {
	long pid;
	unsigned device; /* of its mount, as in struct mount_entry; 0: the kernel does not say */
	const char *store;
	dev_t dev; /* of the store's file, and its number there */
	ino_t ino;
};
/* All of them, with or without a mount.  fn returns 0 to go on; any other value is the result. */
typedef int holders_fn(void *arg, const struct holders_owner *owner);
int holders_each(holders_fn *fn, void *arg);

/* The first number that /proc has about a descriptor of a process in lines of this format, or if
 * wanted is not negative, the one that equals it; -1: none. */
long long holders_number(const char *pid, const char *fd, const char *format, long long wanted);

/* The command name of a process, or "a process". */
enum { HOLDERS_NAME = 32 };
const char *holders_name(long pid, char name[HOLDERS_NAME]);

/* The processes that keep it from being unmounted, in words: "bash (812) works in it, python3 (900)
 * has a file of it open".  Nothing is appended when none can be seen. */
int holders_tell(const struct mount_entry *entry, struct buf *words);

/* The same for files that are open below a directory of any filesystem.  The directory is the path
 * that the kernel shows.  "codex (812) has /home/me/x.jsonl open" */
int holders_tell_below(const char *path, struct buf *words);

#endif
