/* SPDX-License-Identifier: MIT */
#ifndef S3_INTERNAL_H
#define S3_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>

#include "backend/s3/s3.h"

enum { S3_HANDLES = 64 };

/* An identity, as AWS's own tools find it. */
struct credentials {
	char *id, *secret;
	char *token;	 /* NULL: none */
	int64_t expires; /* by time_now(); 0: never */
};

struct s3 {
	char *bucket, *region, *signing, *ca;
	char *place, *host; /* "scheme://host:port", and where the host begins in it */
	bool by_path;
	bool (*stopped)(void);
	unsigned tries;
	pthread_mutex_t lock; /* for what follows; its thread may take it again */
	struct credentials credentials;
	CURL *idle[S3_HANDLES]; /* with their connections */
	size_t idle_count;
	unsigned seed;
};

/* As struct s3_ops has it. */
int s3_perform(struct s3 *s3, struct s3_request *request);
/* In a query or a form, appended. */
int s3_encode(struct bytes text, struct buf *query);
/* A body that a streamed upload has framed, as its content; any other stays.  0 or -ENOMEM. */
int s3_unframe(struct buf *body);

/* A setting of the profile, from $variable or ~/.aws, owned by the caller; NULL: none. */
char *profile_get(const char *variable, const char *setting);
/* From the environment, ~/.aws, or for a token of web identity.  0, or -errno and a sentence. */
int credentials_find(struct s3 *s3, struct credentials *credentials, char **ret_why);
/* What is secret is overwritten. */
void credentials_done(struct credentials *credentials);

/* An element that has ended, and the text in it; 0 to go on. */
typedef int xml_fn(void *arg, const char *name, struct bytes text);
/* 0, what fn returns, or -EBADMSG: it is not XML, or declares entities, which could grow. */
int xml_read(struct bytes document, xml_fn *fn, void *arg);

#endif
