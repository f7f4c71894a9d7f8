/* SPDX-License-Identifier: MIT */
#ifndef S3_CREDENTIALS_H
#define S3_CREDENTIALS_H

/*
 * Who asks, and where, as AWS's own tools find it: the environment, else the files in ~/.aws
 * (AWS_PROFILE), else a token of web identity that is exchanged for credentials.
 */

#include <stdint.h>

#include "backend/base/buf.h"

struct credentials {
	char *id, *secret;
	char *token;	 /* NULL: none */
	int64_t expires; /* by time_now(); 0: never */
};

/* A setting of the profile ("region", "endpoint_url"), from $NAME in the environment or ~/.aws,
 * owned by the caller; NULL: none. */
char *profile_get(const char *variable, const char *setting);

/* Exchanges a form for an answer: POST to a URL, unsigned.  0, or -errno and a sentence. */
typedef int credentials_post_fn(void *arg, const char *url, struct bytes form, struct buf *answer,
				char **ret_why);

/* 0, or -EACCES and a sentence that says where they were looked for. */
int credentials_find(struct credentials *credentials, const char *region, credentials_post_fn *post,
		     void *arg, char **ret_why);
/* What is secret is overwritten. */
void credentials_done(struct credentials *credentials);

#endif
