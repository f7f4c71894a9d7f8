/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_LAYOUT_H
#define FS_BASE_LAYOUT_H

/*
 * Layouts: which path is which session.  The clients that are known are in layouts.h.
 *
 * A store without a layout has its sessions at the root: what is below the directory S is session
 * S, and its keys are the paths below it.  AgentScope works so, and needs no pattern here.  A
 * layout is a list of patterns instead, each with three texts:
 *
 *   path                         session          key
 *   {user}/{session}/{key}       {user}:{session}
 *   pi/sessions/{project}/{session}.jsonl
 *                                pi:{project}:{session}   transcript
 *
 *   - A path that ends in "/{key}" is that of a *directory*: it is the session, and what lies below
 *     it has keys as below a session at the root.  Any other path is that of one *file*, whose key
 *     is the third text.
 *   - A part of a path, between two slashes, has at most one variable, and text before and behind
 *     it.  A variable stands for one byte or more.  For "{name|safe}" the client writes a value
 *     with other bytes than A-Z a-z 0-9 _ - . in base64url (RFC 4648) without padding; text that
 *     has less than eight letters, or cannot have been written so, is the value itself.
 *     "{name|uuid}" fits only what looks like a UUID, and "{name|bare}" only what does not begin
 *     with "session_".
 *   - At last every layout has the pattern "/{session}/{key}", with the empty name, which is shown
 *     as "%" (names.h): it has the sessions of all other ids.
 *
 * Names are encoded as ever (names.h), a part of the path as one component; so a component that
 * cannot be a name is escaped or cut.
 *
 * The rule: a path is of the first pattern that fits it, and what this says of it holds if that
 * leads back.  I.e. the id (and key) is turned into a path by the first pattern that fits the id,
 * and that must be the path again.  So (session, key) and path are in a bijection, but for names
 * that several components have (names.h), for which the tree finds a key of its own as ever.  A
 * path that is neither a session or state nor above one is ordinary, with any name, and so is all
 * below it.
 *
 * All functions are pure; 0, -ENOMEM or what is said.  A set of layouts is a number with a bit for
 * each, as it is written to the store; 0 is none.
 */

#include <stdint.h>

#include "backend/backend.h"
#include "backend/base/buf.h"

enum layout_is {
	LAYOUT_ABOVE,	/* a directory: sessions may lie below it */
	LAYOUT_SESSION, /* a directory */
	LAYOUT_STATE,	/* a file */
	LAYOUT_NONE,	/* anything else */
};

enum { LAYOUTS_ALL = 0xfff };
/* Names with '+' between them; -EINVAL. */
int layouts_parse(const char *text, uint64_t *ret_set);
/* The same backwards; "agentscope" is that there is none.  text has room for any. */
enum { LAYOUTS_TEXT = 128 };
const char *layouts_show(uint64_t set, char text[LAYOUTS_TEXT]);

/* What a path is: names with '/' between them, from the root on.  For a session or a state, the
 * buffers get the session and the key. */
int layout_judge(uint64_t set, struct bytes path, bool is_dir, enum layout_is *ret_is,
		 struct buf *session, struct buf *key);
/* Append the path of a session's directory: an id that fits no pattern of a directory has that of
 * the last pattern. */
int layout_session(uint64_t set, struct bytes session, struct buf *path);
/* The path of a state that has one of its own; -ENOENT: it lies in its session's directory. */
int layout_state(uint64_t set, struct bytes session, struct bytes key, uint32_t kind,
		 struct buf *path);

/* How many bytes at the end of an id the client knows the session by (own_id in layouts.h). */
size_t layout_own_id(uint64_t set, struct bytes session);

/* Whether the documents of a directory each have a part of what was said, also if they have no
 * numbers: the parts of a client in layouts.h. */
bool layout_has_parts(struct bytes path);

/* For a directory that sessions may lie below (LAYOUT_ABOVE): 1 and the text that the ids of these
 * sessions begin with, by the pattern of this number; 0: the pattern has no sessions below it;
 * -ENOENT: there is no such pattern. */
int layout_above(uint64_t set, struct bytes path, size_t pattern, struct buf *start);

/* A text that those keys of a session begin with that have paths of their own; false: it has
 * none. */
bool layout_keys_outside(uint64_t set, struct bytes session, struct bytes *ret_start);

#endif
