/* SPDX-License-Identifier: MIT */
#ifndef FS_API_SETTINGS_H
#define FS_API_SETTINGS_H

/*
 * What a store says for all its mounts, and for the commands that work on it: as numbers, which are
 * stored as decimal text (BACKEND_SETTING).
 *
 * A tree that writes obeys a setting before its own option; whether the option may differ is
 * checked where options are read (src/user/settings.h).  A tree reads strict and exact, which
 * decide what bytes mean, when it is opened; the others also while it is open.  Which path is which
 * session (layout) is a setting of the store alone: every tree obeys it, and a tree has no option
 * for it.
 */

#include <stdbool.h>
#include <stdint.h>

struct backend;

enum setting {
	SETTING_STRICT, /* 0 or 1, as the next */
	SETTING_EXACT,
	SETTING_MAX_SIZE,     /* bytes; 0: no quota */
	SETTING_QUOTA,	      /* bytes of each session; 0: none */
	SETTING_TTL,	      /* seconds; 0: for ever */
	SETTING_GRACE,	      /* seconds; 0: none */
	SETTING_HISTORY,      /* seconds; 0: nothing is kept */
	SETTING_HISTORY_SIZE, /* bytes of it at the most; 0: a quarter of the store */
	SETTING_PAUSE,	      /* seconds; 0: at close only */
	SETTING_LAYOUT,	      /* a set of layouts (fs/base/layout.h); 0: none */
	SETTINGS,
};

struct settings {
	bool set[SETTINGS];
	uint64_t value[SETTINGS];
	bool unadopted;	 /* BACKEND_UNADOPTED */
	bool listed;	 /* BACKEND_UNADOPTED_KEYS */
	bool quotas;	 /* some session may have a quota of its own */
	bool incomplete; /* a copy that is just being made, or was given up in the middle */
	bool moving;	 /* the layout is another one now, and not all files are placed by it yet */
};

/* What it is called, in the store and as an option of a mount. */
const char *setting_name(enum setting setting);
extern const char setting_moving[];
extern const char setting_incomplete[];
/* All that are set, and the name of the rows' table if ret_table is not NULL; *ret_table may become
 * NULL.  -EINVAL when one is not understood; then *ret_why is a sentence.  The caller owns both. */
int settings_read(struct backend *backend, struct settings *ret_settings, char **ret_table,
		  char **ret_why);

#endif
