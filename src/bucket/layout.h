/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_LAYOUT_H
#define BUCKET_LAYOUT_H

/*
 * Layouts of a bucket: which object is which file of the store.
 *
 *	strands            session_ID/agents/agent_A/messages/message_N.json
 *	                   the same path
 *	strands-snapshots  ID/scopes/agent/A/snapshots/snapshot_latest.json
 *	                   the same path
 *	claude-parts       PROJECT/ID[/SUB]/part-MILLISECONDS-HEX.jsonl
 *	                   lines of PROJECT/ID[/SUB].jsonl
 *	agentscope         USER/ID/KEY.list.json, KEY.list.hash, KEY.json
 *	                   USER/ID/KEY.jsonl, KEY.hash, KEY.json
 *
 * Keys are relative to the base, which is what stands before all of them: the prefix of the URL and
 * a slash, or without a prefix what the layout's own client uses then.
 */

#include <stdint.h>

#include "backend/base/buf.h"

enum bucket_form {
	FORM_DOCUMENT, /* JSON, byte for byte */
	FORM_TEXT,     /* any bytes */
	FORM_LIST,     /* a JSON array, of which each element is a line of the file */
	FORM_PARTS,    /* some of the file's lines; the objects follow one another by their keys */
};

struct bucket_layout {
	const char *name;
	const char *help;
	const char *base;  /* without a prefix */
	const char *other; /* what else a base may be: without a prefix, or behind one; or NULL */
	bool joined;	   /* a slash stands behind any prefix, as its client writes it */
	/* The part of a key that is the session, from 0, and what stands before its id. */
	unsigned part;
	const char *before;
};

enum { BUCKET_LAYOUTS = 4 };
extern const struct bucket_layout bucket_layouts[BUCKET_LAYOUTS];

/* The base, or the other one, with a NUL that does not count; -ENOENT: there is no other. */
int layout_base(const struct bucket_layout *layout, const char *prefix, bool other,
		struct buf *base);

/* Where files of such a layout begin in a store with those layouts (fs/base/layout.h): "", or a
 * path with a slash at its end. */
const char *layout_root(const struct bucket_layout *layout, uint64_t store);

/* The path of an object, with a NUL that does not count: 1; 0: it is none of this layout; -EINVAL:
 * it would be, but has a name that no file can have; -ENOMEM. */
int layout_path_of(const struct bucket_layout *layout, const char *root, struct bytes key,
		   struct buf *path, enum bucket_form *ret_form);
/* The key of a file, as above; with FORM_PARTS, what the keys of its parts begin with. */
int layout_key_of(const struct bucket_layout *layout, const char *root, struct bytes path,
		  struct buf *key, enum bucket_form *ret_form);
/* Whether the session of such a key fits a pattern of the shell; NULL: all. */
bool layout_is_asked(const struct bucket_layout *layout, struct bytes key, const char *glob);

#endif
