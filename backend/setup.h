/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SETUP_H
#define BACKEND_SETUP_H

#include <stdbool.h>

/*
 * Make a store on a server for users of the server without that right: its tables, and the
 * triggers that notify mounts of other programs.  Existing tables stay.  Each statement is handed
 * over as it stands in a script for the server's own client, with dry_run instead of being run;
 * the last ones, of which rights is set, are those by which a user USER gets the rights that a
 * mount needs, and are never run.  -EOPNOTSUPP: the store is not on a server.  Otherwise as
 * backend_open().
 */
struct backend_setup {
	bool dry_run;
	void (*statement)(void *arg, const char *statement, bool rights);
	void *arg;
};
int backend_set_up(const char *store, const struct backend_setup *setup, char **ret_why);

#endif
