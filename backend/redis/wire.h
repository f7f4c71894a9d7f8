/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_REDIS_WIRE_H
#define BACKEND_REDIS_WIRE_H

/*
 * A connection to a server, and the protocol on it: RESP2, whole commands out, whole replies in.
 *
 * A connection is used by one thread at a time.  Each call ends by a moment of tick_ms(); after
 * any error the connection is of no use any more: -ENOTCONN when it was lost or the time was over.
 */

#include <stdint.h>

#include "backend/base/buf.h"
#include "backend/base/tick.h"
#include "backend/url/url.h"

struct wire;

enum reply_type { REPLY_NIL, REPLY_TEXT, REPLY_NUMBER, REPLY_LIST, REPLY_ERROR };

struct reply {
	enum reply_type type;
	int64_t number;
	struct buf text; /* of a text, or of an error */
	struct reply *items;
	size_t count;
};

/* A command, or parts of one: words, each with its length. */
struct words {
	struct buf buf;
	size_t count;
	int error; /* a failed allocation is remembered */
};

/* Load what TLS loads when it is first used. */
int wire_prepare(const struct url *url, char **ret_why);
/* Connect to host, or, if that is NULL, to a socket.  -errno, and a sentence. */
int wire_open(const struct url *url, const char *host, unsigned port, int64_t until,
	      struct wire **ret_wire, char **ret_why);
void wire_free(struct wire *wire); /* NULL is fine */
int wire_fd(const struct wire *wire);
/* Whether a reply, or a part of one, has been read already. */
bool wire_has(const struct wire *wire);

int wire_send(struct wire *wire, struct bytes bytes, int64_t until);
int wire_read(struct wire *wire, int64_t until, struct reply *ret_reply);

/* Several that stand behind each other are a whole command. */
int words_command(const struct words *const *all, size_t count, struct buf *buf);
void words_add(struct words *words, struct bytes word);
void words_str(struct words *words, const char *word);
void words_number(struct words *words, int64_t number);
void words_done(struct words *words);
/* A command of texts, up to NULL. */
int wire_ask_str(struct wire *wire, int64_t until, struct reply *ret_reply, ...)
	__attribute__((sentinel));

void reply_done(struct reply *reply);
/* An item of a list, or one that is nil. */
const struct reply *reply_at(const struct reply *reply, size_t i);
/* The text of one; data NULL if it is none. */
struct bytes reply_bytes(const struct reply *reply);
/* A number, also one that is written as text. */
int64_t reply_number(const struct reply *reply);
bool reply_is(const struct reply *reply, const char *text);

#endif
