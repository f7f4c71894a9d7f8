/* SPDX-License-Identifier: MIT */
#ifndef OPTIONS_H
#define OPTIONS_H

/*
 * The options of a mount, as they stand behind -o: names and values between commas.
 *
 * A zeroed struct options holds the defaults.  options_parse() may be called several times; what is
 * said last counts.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "src/base/buf.h"

struct options {
	bool read_only;
	bool strict;
	bool exact;
	bool allow_other;
	bool auto_unmount;
	bool nonempty;
	bool remount;
	bool debug;
	bool allow_dev; /* unless nodev; likewise allow_suid */
	bool nodev;
	bool allow_suid;
	bool nosuid;
	bool set_uid; /* uid was given; likewise gid, umask */
	bool set_gid;
	bool set_umask;
	uid_t uid;
	gid_t gid;
	mode_t umask;
	bool set_pause;
	unsigned pause;	   /* seconds */
	unsigned threads;  /* 0: not given */
	uint64_t max_size; /* bytes; 0: not given */
	int64_t ttl;	   /* nanoseconds; 0: none */
	bool set_grace;
	int64_t grace;		/* likewise */
	char *table;		/* NULL: not given */
	const char *privileged; /* an option that only root may give, or NULL */
	struct buf extra; /* options that the kernel gets, with a NUL behind them; empty: none */
};

/* 0, or -EINVAL with a sentence for the user in *ret_why (owned by the caller), or -ENOMEM. */
int options_parse(struct options *options, const char *text, char **ret_why);
void options_done(struct options *options);
/* One line an option, for the help. */
void options_print(FILE *out);

#endif
