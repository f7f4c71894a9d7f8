/* SPDX-License-Identifier: MIT */
#ifndef OPTIONS_H
#define OPTIONS_H

/*
 * The options of a mount, as they stand behind -o: names and values between commas.  A comma in a
 * value has a backslash before it, and so may a backslash.
 *
 * A zeroed struct options holds the defaults.  options_parse() may be called several times; the
 * last value given counts.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fs/api/tree-options.h"
#include "backend/base/buf.h"

struct options {
	bool allow_other;
	bool auto_unmount;
	bool nonempty;
	bool exclusive; /* no other mount may have the store */
	bool durable;	/* refuse a server that may lose commits */
	bool remount;
	bool debug;
	bool allow_dev; /* unless nodev; likewise allow_suid */
	bool nodev;
	bool allow_suid;
	bool nosuid;
	struct tree_options tree;
	unsigned threads;  /* 0: not given */
	bool set_max_size; /* tree.max_size was given, as the next ones */
	bool set_quota;
	bool set_ttl;
	bool set_grace;
	bool set_history;
	bool set_history_size;
	bool set_layout;
	uint64_t layout;	/* a set of layouts: fs/base/layout.h */
	char *table;		/* NULL: not given, as the next one */
	char *view;		/* clauses of a question */
	const char *privileged; /* an option that only root may give, or NULL */
	struct buf extra;	/* options for the kernel, with a NUL behind them; empty: none */
};

/* The kinds of command that take options, and so which options are allowed. */
enum options_user {
	OPTIONS_MOUNT = 1 << 0,	 /* all */
	OPTIONS_WRITER = 1 << 1, /* a command that brings bytes into a store */
	OPTIONS_READER = 1 << 2, /* any other command */
};

/* 0, or -EINVAL with a sentence for the user in *ret_why (owned by the caller), or -ENOMEM. */
int options_parse(struct options *options, enum options_user user, const char *text,
		  char **ret_why);
void options_done(struct options *options);
/* One line an option, for the help, behind an empty one. */
void options_print(void);

#endif
