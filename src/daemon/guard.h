/* SPDX-License-Identifier: MIT */
#ifndef GUARD_H
#define GUARD_H

/*
 * Rights that a daemon gives up, so that a fault in it is worth nothing to an attacker.
 *
 *	guard_begin()           at the start of the process, before anything is opened
 *	guard_plan(&guard, …)   which user to become, and which folder is needed
 *	guard_run(&guard, …)    open the store, in a thread that has given up everything already
 *	                        (mount: needs rights that the main thread still has)
 *	guard_enter(&guard)     in the main thread, before it starts any other
 *
 * Ids, capabilities, Landlock and seccomp belong to a thread and are inherited by those that it
 * starts, so in the end every thread has come through guard_enter().  A store is untrusted input:
 * guard_run() makes sure that no byte of it is read with rights that its owner does not have.
 *
 * A measure that the system does not have is left out, and the log says so.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guard {
	char *store;	  /* absolute; NULL: in memory, or on a server */
	char *folder;	  /* that holds it */
	bool connects;	  /* it is on a server, with this port of TCP, or 0: a socket here; */
	unsigned port;	  /* above 65535: any, which is not known before */
	char *file;	  /* and reads this file to connect, or NULL */
	bool makes_files; /* others than unnamed ones where temporary files are made */
	bool becomes;	  /* another user, the store's owner: */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	size_t n_groups;
	uint64_t kept; /* capabilities, one bit each */
	int rules;     /* of Landlock, with the paths as they were before the mount; 0: none */
};

/* Close this descriptor and all above it. */
void guard_close_from(int fd);

/* Close inherited descriptors, open missing standard ones, no core dumps (unless debug). */
void guard_begin(bool debug);

/* Have TMPDIR lead to a place for temporary files that is not in what is to be mounted on dir: the
 * daemon would wait for itself. */
void guard_choose_temporary(const char *dir);

/* The store is a path from the root, or NULL; it need not exist.  0 or -ENOMEM. */
int guard_plan(struct guard *guard, const char *store, bool read_only);
/* Of a store on a server (struct guard).  Root's daemon becomes the owner of the mount point. */
int guard_plan_server(struct guard *guard, const char *dir, unsigned port, const char *file);
void guard_done(struct guard *guard);

/* Run a function in a guarded thread, to its end; its result, or -errno of making the thread.  When
 * the owner's rights are not enough for the store, some of root's are kept (guard->kept). */
int guard_run(struct guard *guard, int (*run)(void *arg), void *arg);

/* Give up in the calling thread what is not needed.  -errno when rights remain that could be
 * misused; if only a second fence is missing, the log says so. */
int guard_enter(const struct guard *guard);

/* The parts of guard_enter(); each is 0, -ENOSYS when the system does not know it, or -errno. */
int guard_keep_capabilities(uint64_t kept);
int guard_no_new_privileges(void);
int guard_paths(const struct guard *guard);
/* What guard_paths() enters: a descriptor.  Made before there is a mount, as a path may lead into
 * that, where nobody answers yet. */
int guard_rules(const struct guard *guard);
int guard_calls(const struct guard *guard);

#endif
