/* SPDX-License-Identifier: MIT */
#ifndef S3_INTERNAL_H
#define S3_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>

#include "backend/s3/s3.h"

enum { CREDENTIAL_ID, CREDENTIAL_SECRET, CREDENTIAL_TOKEN, CREDENTIALS };

struct s3 {
	const char *bucket;
	char *region, *signing, *ca;
	char *place;
	char *start; /* of the URL of a key, without the slash before it */
	bool (*stopped)(void);
	unsigned tries;
	CURL *handles[S3_LANES + 1]; /* with their connections; the last one is for credentials */
	pthread_mutex_t lock;	     /* for: */
	char *credentials[CREDENTIALS]; /* NULL: none */
	int64_t expires;		/* by time_now(); 0: never */
};

/* As struct s3_ops has them. */
int s3_perform(struct s3 *s3, struct s3_request *request);
int s3_list(struct s3 *s3, const char *prefix, s3_object_fn *fn, void *arg);
int s3_sha256(struct bytes data, char ret_text[S3_HASH]);
char *s3_text(struct bytes xml, const char *name);

/* "a=b&c=d", encoded and appended, with something before it. */
int s3_encode_pairs(const struct s3_pair *pairs, const char *before, struct buf *text);
/* From the environment, ~/.aws, or for a token of web identity.  0, or -errno and a sentence. */
int credentials_find(struct s3 *s3, char **ret_why);

#endif
