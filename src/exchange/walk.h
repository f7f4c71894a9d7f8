/* SPDX-License-Identifier: MIT */
#ifndef WALK_H
#define WALK_H

/*
 * A tree of files, in the order of the names, each directory before and after what is in it, but
 * not the one where the walk begins.
 */

#include <stddef.h>
#include <sys/stat.h>

struct walk_entry {
	const char *path; /* below where the walk began */
	struct stat st;
};

/* Each function returns 0, or what ends the walk and is its result. */
struct walk {
	/* Before what is in it; 1: leave that out, leave() is not called. */
	int (*enter)(void *arg, const struct walk_entry *dir);
	int (*leave)(void *arg, const struct walk_entry *dir);
	/* All that is no directory. */
	int (*leaf)(void *arg, const struct walk_entry *entry);
	/* It cannot be listed, or not be looked at. */
	int (*failed)(void *arg, const char *path, int error);
	void *arg;
};

struct walk_names {
	char **names;
	size_t count;
	size_t room;
};
int walk_names_add(struct walk_names *names, const char *name);
void walk_names_done(struct walk_names *names);

/* Of what it goes through; both have the argument of the walk. */
struct walk_source {
	int (*look)(void *arg, struct walk_entry *entry);
	int (*list)(void *arg, const char *path, struct walk_names *names);
};
int walk_source(const struct walk_source *source, const struct walk *walk);

#endif
