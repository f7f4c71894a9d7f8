/* SPDX-License-Identifier: MIT */
#ifndef SETTINGS_H
#define SETTINGS_H

/*
 * What a store says for all its mounts, as people type and read it: with the words of a mount's
 * options.
 */

#include "fs/api/settings.h"
#include "src/user/options.h"

/* The number of a text; strict and exact are "yes" or "no".  -EINVAL with a sentence in *ret_why,
 * owned by the caller. */
int setting_parse(enum setting setting, const char *text, uint64_t *ret_value, char **ret_why);
/* A number in words that setting_parse() understands. */
enum { SETTING_TEXT = 128 };
const char *setting_show(enum setting setting, uint64_t value, char text[SETTING_TEXT]);
/* The value that counts where neither the store nor an option says one. */
uint64_t setting_default(enum setting setting);
/* The ttl or grace in nanoseconds that counts for a caller without options. */
int64_t setting_time(const struct settings *settings, enum setting setting);

/* Whether the options that were given may be obeyed: -EINVAL when the store says something else,
 * with a sentence in *ret_why, or another -errno when that cannot be found out. */
int settings_agree(struct backend *backend, const struct options *options, char **ret_why);

/* What a mount goes by where neither the store nor an option says how long something is kept. */
void settings_assume(const struct options *options, struct tree_options *tree);

#endif
