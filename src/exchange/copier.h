/* SPDX-License-Identifier: MIT */
#ifndef COPIER_H
#define COPIER_H

/*
 * Copying a tree of files: from a store or a folder to another one, or to a sink, which is not a
 * tree.  import, export and keep use it; a struct copier describes their differences.
 *
 * Both sides are reached through src/store/access.h.  copier.c walks the source in the order of the
 * names; copier-file.c makes each entry of the target like the source, unless it is so already.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "backend/base/log.h"
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
	COPIER_DELETED,
	COPIER_CONFLICTS, /* both sides have changed, and nothing was done */
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
	/* Files that exist only get the bytes that the source has behind their end; -ESTALE if they
	 * differ before that. */
	COPIER_GROW = 1 << 5,
	COPIER_VERIFY = 1 << 6, /* read back what was written; -EBUSY if it differs */
	/* The first error ends the whole; each name becomes a file of its own. */
	COPIER_STRICT = 1 << 7,
};

enum { COPIER_NAMED = 3 };

/* One thing to copy. */
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

/* The functions that write to a target.  They return 0 or -errno, which the caller reports. */
struct copier_sink {
	/* A directory, before and after its content; enter() returns 1, after a sentence, when the
	 * target cannot hold it.  Both may be NULL. */
	int (*enter)(struct copier *copier, struct copier_entry *entry);
	int (*leave)(struct copier *copier, struct copier_entry *entry);
	/* A regular file, without entry->first. */
	int (*file)(struct copier *copier, struct copier_entry *entry);
	/* A file with entry->first, a symbolic link, a FIFO, a socket; 1: the target has no links
	 * to files, so copy the content. */
	int (*other)(struct copier *copier, struct copier_entry *entry);
	/* Called for anything but a directory, before its attributes are read; NULL: copier_leaf().
	 */
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
	/* 1, after a sentence, when an entry is left out; 0 or -errno.  May be NULL. */
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
	bool stopped; /* the rest is not copied, for a reason that was reported */
	struct linked linked;
};

/* A folder, or with a file's name the folder that it is in and the name, or NULL. */
int copier_open(const char *operand, struct access **ret_access, const char **ret_name);
/* Copy all, or copier->only.  -errno: going on would be useless, and a sentence has said why. */
int copier_run(struct copier *copier);
/* The same as a count: adds the files and bytes that will come to the totals of the progress. */
int copier_count(struct copier *copier);
void copier_done(struct copier *copier);

int copier_leaf(struct copier *copier, struct copier_entry *entry);
/* As a sink's, of the target. */
int copier_enter(struct copier *copier, struct copier_entry *entry);
int copier_leave(struct copier *copier, struct copier_entry *entry);
int copier_file(struct copier *copier, struct copier_entry *entry);
int copier_other(struct copier *copier, struct copier_entry *entry);

/* Read on in a source, until block holds so many bytes, or to the end. */
int copier_read(struct copier_entry *entry, size_t size, struct buf *block);
/* Give an existing entry, whose content is right, its attributes; 1 when it had others, 0, or
 * -errno.  there may be NULL: not known. */
int copier_settle(struct copier *copier, struct copier_entry *entry, const struct stat *there);
/* Extended attributes alone, of what is there, or is being written. */
int copier_settle_xattrs(struct copier *copier, struct copier_entry *entry,
			 struct access_file *out);
/* True for attributes that other programs have set, and for those of ours that users set. */
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
/* The entry at this path in the target: 0, or -ENOENT, also without a target. */
int copier_stat(struct copier *copier, const char *path, struct stat *ret_stat);

/* Report and count an entry that cannot be copied.  0, or -errno when going on would be useless. */
int copier_fail(struct copier *copier, const struct copier_entry *entry, int error);
/* The same with a sentence: 0. */
#define copier_refuse(copier, ...)                                                                 \
	({                                                                                         \
		log_error(__VA_ARGS__);                                                            \
		(copier)->failed++;                                                                \
		0;                                                                                 \
	})
/* Print what would be done with something: a line, or an item of the list. */
void copier_print(struct copier *copier, const char *action, const char *what, const char *name);
/* True for an error that ends the whole. */
bool copier_is_fatal(int error);

struct copier_names {
	char **names;
	size_t count;
	size_t room;
};
int copier_names_add(struct copier_names *names, const char *name);
void copier_names_sort(struct copier_names *names);
void copier_names_done(struct copier_names *names);

#endif
