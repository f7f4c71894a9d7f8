/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_LAYOUTS_H
#define FS_BASE_LAYOUTS_H

/*
 * The clients whose paths are known: one row each, in layouts.c.  layout.h tells what patterns mean
 * and what is done with them.
 *
 * A new client is a row here, a folder tests/layouts/NAME with its paths and a transcript
 * (tests/layouts/README.md), and its records in fs/views/question/records.c if they differ from
 * those of others.
 */

enum { LAYOUT_PATTERNS = 3, LAYOUT_FOLDERS = 2 };

struct pattern {
	const char *path;
	const char *session;
	const char *key; /* of a file; NULL: the path is that of a directory */
	bool packed;	 /* the client may compress the file: it has ".zst" behind its name then */
};

struct layout {
	const char *name;
	unsigned bit; /* in the set that is written to stores: it never changes */
	struct pattern patterns[LAYOUT_PATTERNS];
	/* So many bytes at the end of a session's id are what its client knows it by, and writes
	 * into its records; 0: all that is behind the last ':' or '/'. */
	size_t own_id;
	/* What a path begins with if the documents in it each have a part of what was said,
	 * also if they have no numbers; or NULL. */
	const char *parts;
	/* Where the client has its folders, as its documentation says; no folders: it has none that
	 * are its own. */
	struct {
		const char *variable; /* the folder that it names has them; otherwise */
		const char *home;     /* this one in the home directory */
		const char *below;    /* a folder below either, or NULL */
		const char *folders[LAYOUT_FOLDERS];
	} client;
};

enum { LAYOUT_COUNT = 12 };
/* In the order in which their patterns are tried. */
extern const struct layout layouts[LAYOUT_COUNT];

#endif
