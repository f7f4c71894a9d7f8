/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_S3_H
#define BACKEND_S3_H

/*
 * Requests to a bucket, signed by AWS's version 4.  They are in the plugin sessfs-s3
 * (backend/plugin.h), with libcurl and libcrypto; the program itself links neither.
 *
 * Credentials come from the environment, from ~/.aws or for a token of web identity, and are
 * renewed in time; nothing prints them.  A request is tried again, after a growing pause with
 * jitter, when the server is busy (429, 5xx), out of reach, or cuts an answer off.
 *
 * Between opening and closing, several threads at a time may call the others, each with requests of
 * a lane of its own.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"

/* Borrowed while it is opened, but the first until it is closed. */
struct s3_options {
	const char *bucket;
	const char *endpoint;  /* "http[s]://host[:port]"; NULL: the environment's, else AWS's */
	const char *region;    /* NULL: the environment's, else us-east-1 */
	const char *style;     /* "path", "host"; NULL: path at an endpoint that was named */
	bool (*stopped)(void); /* true: requests end with -EINTR */
};

/* S3_LIMIT: bytes that an answer may have. */
enum { S3_PAIRS = 5, S3_ETAG = 96, S3_HASH = 65, S3_LIMIT = 256 << 20, S3_LANES = 32 };

/* Borrowed; value is encoded when it is sent.  Without one, the pair is left out. */
struct s3_pair {
	const char *name; /* NULL: the end */
	const char *value;
};

/* One request.  All else than what is set is zeros before; s3_request_done() releases it, or the
 * end of the block that has declared it: S3_REQUEST(name, .method = "GET", ...). */
struct s3_request {
	const char *method;
	const char *key;		/* borrowed, as it is; NULL: the bucket */
	const char *url;		/* another server's, unsigned; NULL: by key */
	struct s3_pair query[S3_PAIRS]; /* in the order of their names */
	bool is_new;			/* only if there is no object (If-None-Match) */
	const char *match;		/* only if the object has this ETag, unless that is weak */
	const char *hash;		/* SHA-256 of the object, to be kept beside it; or NULL */
	struct bytes body;		/* of a PUT or POST, borrowed */
	bool anyway;			/* also when it is to stop */
	unsigned lane;			/* whose connection it uses */
	uint64_t from, length;		/* only these bytes; length 0: all */
	/* The answer: */
	unsigned tries;	      /* how often it was sent, with a hash or by POST */
	long status;	      /* HTTP's; 0: there was none */
	struct buf data;      /* without the frame that a streamed upload may have left */
	uint64_t size;	      /* of what was sent, or else its Content-Length, of a HEAD, too */
	int64_t modified;     /* by time(2); -1: not known */
	char etag[S3_ETAG];   /* without quotes, as everywhere; "W/..." is a weak one */
	char sha256[S3_HASH]; /* that was kept beside it, or "" */
	char *why;	      /* a sentence when it has failed */
};

/* An object in a listing, borrowed. */
typedef int s3_object_fn(void *arg, const char *key, const char *etag, uint64_t size);

struct s3;
struct s3_ops {
	/* 0, or -errno and a sentence.  Sends nothing.  ret_place: "scheme://host[:port]", which
	 * lives as long. */
	int (*open)(const struct s3_options *options, struct s3 **ret_s3, const char **ret_place,
		    char **ret_why);
	void (*close)(struct s3 **s3); /* a NULL there is fine */
	/* 0, or -errno and request->why: -ENOENT (404), -EEXIST (412: a condition does not hold),
	 * -EPERM (no right), -EACCES (what is wrong with credentials), -EFBIG, -EINTR, -EINVAL
	 * (other 4xx), -EIO (after the last try). */
	int (*perform)(struct s3 *s3, struct s3_request *request);
	/* The objects whose keys begin with a prefix, page by page, in the server's order; fn
	 * returns 0 to go on, and is called between two requests.  0, or what fn has returned, or
	 * -errno after a sentence. */
	int (*list)(struct s3 *s3, const char *prefix, s3_object_fn *fn, void *arg);
	/* The text of the first element of that name in an answer, owned by the caller, or NULL. */
	char *(*text)(struct bytes xml, const char *name);
	/* SHA-256 in hexadecimal digits: 0 or -errno. */
	int (*sha256)(struct bytes data, char ret_text[S3_HASH]);
};
extern const struct s3_ops s3_ops;

static inline void s3_request_done(struct s3_request *request)
{
	buf_done(&request->data);
	free(steal_ptr(request->why));
}
#define S3_REQUEST(name, ...) _cleanup_(s3_request_done) struct s3_request name = { __VA_ARGS__ }

#endif
