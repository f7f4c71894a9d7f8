/* SPDX-License-Identifier: MIT */
#ifndef LIB_NAME_H
#define LIB_NAME_H

/*
 * What a call of the library is about: a session, and a key in it.
 */

#include "backend/base/buf.h"

/* What ends the key of a list's sidecar. */
#define SIDECAR BYTES(":_hash")

struct name {
	struct bytes session;
	struct bytes key;
};

/* For "%.*s" in sentences for people: long names are cut. */
enum { SHOWN_MAX = 100 };
#define SHOWN(bytes) name_shown(bytes), (bytes).data
#define NAMED "session '%.*s', key '%.*s'"
#define SHOWN_NAME(name) SHOWN((name)->session), SHOWN((name)->key)
int name_shown(struct bytes bytes);

/* Check an argument of the caller: 0, or -EINVAL with a sentence.  what: "session", "key". */
int name_take_id(const char *id, const char *what, struct bytes *ret_bytes);
int name_take(const char *session, const char *key, struct name *ret_name);
/* The same before a write: the key must not be a sidecar's, which is written with its list. */
int name_take_state(const char *session, const char *key, struct name *ret_name);

#endif
