/* SPDX-License-Identifier: MIT */
#ifndef SRC_CMD_PAST_H
#define SRC_CMD_PAST_H

/* What log, undo, fork and forget share. */

#include "fs/api/history.h"
#include "src/cmd/cmd.h"

/* A session, or one key of it. */
struct past_place {
	char *session;
	char *key; /* or NULL */
};

void past_place_done(struct past_place *place);
/* Open a store, to read or to change rows, for what is said of one place in it: SESSION or
 * SESSION/KEY, with the suffix of its file or without.  The place was zeroed.  0, or -errno after a
 * sentence. */
int past_find(char **operands, const struct options *options, bool writes,
	      struct backend **ret_backend, struct past_place *ret_place);
struct bytes past_key(const struct past_place *place);

enum { PAST_TIME = 32 };
/* "2026-11-28T04:00:00.123Z", which @at= and --to= take. */
const char *past_show_time(int64_t time, char text[PAST_TIME]);
/* A time or an age for the tables; nanoseconds since 1970. */
int past_take_time(void *field, const char *value, char **ret_why);
/* Likewise, also before 1970. */
int past_take_since(void *field, const char *value, char **ret_why);
/* A-B, A- or A; struct past_items. */
struct past_items {
	bool given;
	int64_t first;
	int64_t last;
};
int past_take_items(void *field, const char *value, char **ret_why);

#endif
