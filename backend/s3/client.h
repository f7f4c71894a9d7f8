/* SPDX-License-Identifier: MIT */
#ifndef S3_CLIENT_H
#define S3_CLIENT_H

#include <curl/curl.h>
#include <pthread.h>

#include "backend/s3/credentials.h"
#include "backend/s3/s3.h"

enum { S3_HANDLES = 64 };

struct s3 {
	char *bucket, *region, *signing;
	char *scheme, *host; /* of the endpoint, with its port */
	char *place;
	bool by_path;
	bool (*stopped)(void);
	char *ca; /* AWS_CA_BUNDLE, or NULL */
	unsigned tries;
	pthread_mutex_t lock; /* for what follows */
	struct credentials credentials;
	bool has_credentials;
	CURL *idle[S3_HANDLES]; /* with their connections */
	size_t idle_count;
	unsigned seed;
};

/* Appended; '/' stays where keep_slash is set. */
int s3_encode(struct bytes text, bool keep_slash, struct buf *url);
/* Once: no credentials are sent but those in the body. */
int s3_post(struct s3 *s3, const char *url, struct bytes form, struct buf *answer, char **ret_why);
/* As struct s3_ops has them. */
int s3_perform(struct s3 *s3, struct s3_request *request);
void s3_digest(enum s3_digest kind, struct bytes data, char ret_text[S3_HASH]);
/* A body that a streamed upload has framed, as its content; it stays as it is when it is none.  0
 * or -ENOMEM. */
int s3_unframe(struct buf *body);

#endif
