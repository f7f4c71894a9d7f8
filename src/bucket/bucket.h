/* SPDX-License-Identifier: MIT */
#ifndef BUCKET_H
#define BUCKET_H

/* A bucket as a user names it: s3://BUCKET[/PREFIX]. */

#include "backend/s3/s3.h"

/* As options of a command. */
struct bucket_where {
	const char *endpoint;
	const char *region;
	enum s3_style style;
};

struct bucket {
	const char *url; /* borrowed */
	char *name;
	const char *prefix; /* behind BUCKET/, as it was given; "" without one */
	const struct s3_ops *ops;
	struct s3 *s3;
};

bool bucket_is(const char *operand);
/* Loads the plugin.  0, or -errno after a sentence. */
int bucket_open(const char *url, const struct bucket_where *where, struct bucket *ret_bucket);
void bucket_done(struct bucket *bucket);

/* As the plugin has it, but a failure is said. */
int bucket_list(const struct bucket *bucket, struct bytes prefix, unsigned most, s3_object_fn *fn,
		void *arg);
int bucket_perform(const struct bucket *bucket, struct s3_request *request);

/* An object that is larger than one request brings comes in ranges of this size. */
enum { BUCKET_RANGE = 4 << 20 };
/* The bytes of an object from an offset on, of the version with this ETag, in request->data, which
 * are at most BUCKET_RANGE.  As perform(). */
int bucket_range(const struct bucket *bucket, struct bytes key, const char *etag, uint64_t offset,
		 struct s3_request *request);

#endif
