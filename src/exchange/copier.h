/* SPDX-License-Identifier: MIT */
#ifndef COPIER_H
#define COPIER_H

/*
 * Copying a tree of files: from a store or a folder to another, or to what is no tree (a sink).
 * import, export and keep are this; what they want differently is data.
 *
 * Both sides are reached by src/store/access.h.  copier.c goes through the source, in the order of
 * the names; copier-file.c has each thing in the target as it is in the source, and leaves alone
 * what is the same already.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "src/exchange/linked.h"
#include "src/store/access.h"
#include "src/user/progress.h"
#include "src/user/say.h"

enum copier_did {
	COPIER_UNCHANGED,
	COPIER_CREATED,
	COPIER_REPLACED,
	COPIER_APPENDED,
	COPIER_DRESSED, /* only attributes have changed */
	COPIER_DIDS,
};

enum copier_flags {
	COPIER_DRY = 1 << 0,	  /* change nothing, and print what would be done */
	COPIER_CHECKSUM = 1 << 1, /* size and time do not tell that a file is the same */
	COPIER_OWNER = 1 << 2,
	COPIER_SETID = 1 << 3, /* set-id bits, too */
	/* The target is a store: lists get what is new in them, rows have the times of their
	 * records, and attributes that the source lacks go. */
	COPIER_ROWS = 1 << 4,
	/* What is there stays, and gets what the source has behind its end; -ESTALE for what
	 * differs before that. */
	COPIER_GROW = 1 << 5,
	COPIER_VERIFY = 1 << 6, /* read back what was written; -EBUSY if it differs */
	/* Anything that cannot be copied ends the whole; each name becomes a file of its own. */
	COPIER_STRICT = 1 << 7,
};

enum { COPIER_NAMED = 3 };

/* What is to be in the target. */
struct copier_entry {
	const char *from;   /* its path in the source; NULL: it has none */
	const char *path;   /* in the target */
	const char *name;   /* of the source, for sentences */
	struct stat st;	    /* type, size, and attributes: */
	unsigned set;	    /* those that count; enum access_set */
	const char *target; /* of a symbolic link */
	const char *first;  /* of a file with several names: the first that was copied, or NULL */
	struct access_file *file; /* a regular file's bytes; NULL: */
	struct bytes data;
	bool broken; /* set when the source cannot be read */
};

struct copier;

/* What is done with each thing.  The functions return 0 or -errno, which the caller says. */
struct copier_sink {
	/* A directory, before and after what is in it; enter() returns 1 when it has no place,
	 * which was said.  leave() may be NULL. */
	int (*enter)(struct copier *copier, struct copier_entry *entry);
	int (*leave)(struct copier *copier, struct copier_entry *entry);
	/* A regular file, without entry->first. */
	int (*file)(struct copier *copier, struct copier_entry *entry);
	/* One with entry->first, a symbolic link, a FIFO, a socket; 1: a file cannot have another
	 * name there, it is to be copied. */
	int (*other)(struct copier *copier, struct copier_entry *entry);
	/* All that is no directory, before it is looked at; NULL: copier_leaf(). */
	int (*leaf)(struct copier *copier, struct copier_entry *entry);
};
extern const struct copier_sink copier_target; /* copier->to */

struct copier {
	const char *store;   /* that is copied from or to, for sentences */
	const char *operand; /* the folder that is the source, likewise; NULL: the store is */
	const char *below;   /* a path in the target, or NULL */
	struct access *from;
	struct access *to; /* NULL: there is nothing, and nothing is to be made */
	unsigned flags;	   /* enum copier_flags */
	const struct copier_sink *sink;
	void *arg; /* the sink's own */
	/* Whether an entry is left out: 1, what was said; 0 or -errno.  May be NULL. */
	int (*judge)(struct copier *copier, const struct copier_entry *entry);
	const char *only; /* a path that alone is copied, and must be there; NULL: all */

	struct progress progress;
	struct say_list list; /* of what would be done */
	uint64_t did[COPIER_DIDS];
	uint64_t bytes;	  /* that were copied */
	uint64_t failed;  /* not copied */
	uint64_t left;	  /* left out, since there is no place for them */
	uint64_t invalid; /* files that hold bytes that are not JSON; COPIER_NAMED of them: */
	struct buf invalid_names;
	bool stopped; /* nothing more is copied, and why was said */
	struct linked linked;
};

/* A folder, or with a file's name the folder that it is in and the name, or NULL. */
int copier_open(const char *operand, struct access **ret_access, const char **ret_name);
/* All, or what is at copier->only.  -errno: it was of no use to go on, and that was said. */
int copier_run(struct copier *copier);
/* The same with nothing done: the files and bytes that will come are added to the totals of the
 * progress. */
int copier_count(struct copier *copier);
void copier_done(struct copier *copier);

int copier_leaf(struct copier *copier, struct copier_entry *entry);
/* As a sink's, of the target. */
int copier_enter(struct copier *copier, struct copier_entry *entry);
int copier_leave(struct copier *copier, struct copier_entry *entry);
int copier_file(struct copier *copier, struct copier_entry *entry);
int copier_other(struct copier *copier, struct copier_entry *entry);

/* What comes next of a source, until block holds so many bytes, or the end. */
int copier_read(struct copier_entry *entry, size_t size, struct buf *block);
/* What is there has the right content, and is to have the attributes; 1 when it had others, 0, or
 * -errno.  there may be NULL: not known. */
int copier_settle(struct copier *copier, struct copier_entry *entry, const struct stat *there);
/* Extended attributes alone, of what is there, or is being written. */
int copier_settle_xattrs(struct copier *copier, struct copier_entry *entry,
			 struct access_file *out);
/* What programs have written for themselves, and of ours what people set. */
bool copier_takes_xattr(const char *name);
mode_t copier_mode(const struct copier *copier, const struct copier_entry *entry);
static inline bool copier_is_dry(const struct copier *copier)
{
	return copier->flags & COPIER_DRY;
}
static inline bool copier_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}
/* What has this path in the target: 0, or -ENOENT, also where there is none. */
int copier_stat(struct copier *copier, const char *path, struct stat *ret_stat);

/* Something cannot be copied: says and counts it.  0, or -errno when it is of no use to go on. */
int copier_fail(struct copier *copier, const struct copier_entry *entry, int error);
/* The same with a sentence. */
int copier_refuse(struct copier *copier, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Whether an error ends the whole. */
bool copier_is_fatal(int error);

struct copier_names {
	char **names;
	size_t count;
	size_t room;
};
int copier_names_add(struct copier_names *names, const char *name);
void copier_names_done(struct copier_names *names);

#endif
