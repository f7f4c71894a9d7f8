/* SPDX-License-Identifier: MIT */
#ifndef WALK_H
#define WALK_H

/*
 * A tree of files, of the system or of a store, in the order of the names, each directory before
 * and after what is in it.  No symbolic link is followed; what vanishes meanwhile is left out.
 */

#include <stddef.h>
#include <sys/stat.h>

struct walk_entry {
	const char *path; /* below where the walk began; */
	int dir;	  /* the directory that holds it ... */
	const char *name; /* ... and its name there: for the calls that end in -at */
	struct stat st;
	void *own; /* what look() has found besides, freed by the walk */
};

/* Each function returns 0, or what ends the walk and is its result. */
struct walk {
	/* Before what is in it; 1: leave that out, leave() is not called. */
	int (*enter)(void *arg, const struct walk_entry *dir);
	int (*leave)(void *arg, const struct walk_entry *dir);
	/* All that is no directory. */
	int (*leaf)(void *arg, const struct walk_entry *entry);
	/* It cannot be read, or not be looked at.  This one and leave may be NULL. */
	int (*failed)(void *arg, const char *path, int error);
	void *arg;
};

/* An operand of the command line: what is in a folder, without the folder itself, or one file,
 * which is then a leaf of which the path is its own name. */
int walk_operand(const char *operand, const struct walk *walk);

struct walk_names {
	char **names;
	size_t count;
	size_t room;
};
int walk_names_add(struct walk_names *names, const char *name);
/* Those in a directory, but "." and "..". */
int walk_names_read(int fd, struct walk_names *names);
void walk_names_done(struct walk_names *names);

/* A tree that is none of the system's; both have the argument of the walk. */
struct walk_source {
	/* What is there; 1: that is left out. */
	int (*look)(void *arg, struct walk_entry *entry);
	int (*list)(void *arg, const char *path, struct walk_names *names);
};
/* What has a name at its root, or without one all that is in it. */
int walk_source(const struct walk_source *source, const char *name, const struct walk *walk);

#endif
