/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_H
#define BUCKET_H

/* A bucket as a user names it, s3://BUCKET[/PREFIX], backups in it, and its layouts. */

#include "backend/s3/s3.h"
#include "src/exchange/copy.h"

struct bucket {
	const char *url; /* borrowed */
	char *name;
	const char *prefix; /* behind BUCKET/, as it was given; "" without one */
	const struct s3_ops *ops;
	struct s3 *s3;
	const char *place; /* "scheme://host[:port]" */
};

bool bucket_is(const char *operand);
/* Loads the plugin; where has what a command was told.  0, or -errno after a sentence. */
int bucket_open(const char *url, const struct s3_options *where, struct bucket *ret_bucket);
void bucket_done(struct bucket *bucket);

/* As the plugin has it, but a failure is said, unless fn has ended it with -ECANCELED. */
int bucket_list(const struct bucket *bucket, const char *prefix, s3_object_fn *fn, void *arg);
int bucket_perform(const struct bucket *bucket, struct s3_request *request);

/* A store's copy as one object.  It gets its name when it is whole, with its SHA-256 beside it, and
 * is read back.  An object that exists stays, unless it is to be replaced.  keep: 0, or of how many
 * backups of this name the latest stay; then each has the time in its name.  0, or -errno after a
 * sentence. */
int backup_put(struct copy *copy, const struct s3_options *where, uint64_t keep);
/* The object of that name, or the latest backup that was made with keep. */
int backup_get(struct copy *copy, const struct s3_options *where);

/*
 * A layout says which object is which file of the store, by templates (fs/base/template.h).  Keys
 * are relative to the base, which is what stands before all of them: the prefix of the URL and a
 * slash, or without a prefix what the layout's own client uses then.
 */
enum bucket_form {
	FORM_DOCUMENT, /* JSON, byte for byte */
	FORM_TEXT,     /* any bytes */
	FORM_LIST,     /* a JSON array, of which each element is a line of the file */
	FORM_PARTS,    /* some of the file's lines; the objects follow one another by their keys */
};

enum { BUCKET_CLAUDE = 2, BUCKET_LAYOUTS = 4, BUCKET_KINDS = 4 };
struct bucket_layout {
	const char *name, *help;
	const char *base;  /* without a prefix */
	const char *other; /* what else a base may be: without a prefix, or behind one; or NULL */
	bool joined;	   /* a slash stands behind any prefix, as its client writes it */
	/* The variable s or S is the session.  Only those with capital letters may have slashes; n
	 * is a number. */
	struct {
		const char *key, *path;
		enum bucket_form form;
	} kinds[BUCKET_KINDS];
};
/* Behind the last one, BUCKET_CLAUDE in a store that has the layout claude (fs/base/layout.h). */
extern const struct bucket_layout bucket_layouts[BUCKET_LAYOUTS + 1];

/* Finds out by the first objects which layout (NULL: any) and which base a bucket has, or may have.
 * 0, or -errno after a sentence. */
int layout_find(const struct bucket *bucket, const struct bucket_layout **layout, struct buf *base);
/* The path of an object, or the key of a file (with FORM_PARTS, what the keys of its parts begin
 * with), with a NUL that does not count: 1; 0: it is none of this layout, or the session does not
 * fit the pattern of the shell (NULL: all); -EINVAL: it would be, but has a name that the other
 * side cannot have; -ENOMEM. */
int layout_turn(const struct bucket_layout *layout, struct bytes from, bool to_path,
		const char *glob, struct buf *to, enum bucket_form *ret_form);

#endif
