/* SPDX-License-Identifier: MIT */
#include "src/bucket/bucket.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/plugin.h"
#include "backend/schemes/plugins.h"
#include "src/user/say.h"
#include "src/user/stop.h"

static const char scheme[] = "s3://";

bool bucket_is(const char *operand)
{
	return strncmp(operand, scheme, strlen(scheme)) == 0;
}

int bucket_open(const char *url, const struct s3_options *where, struct bucket *ret_bucket)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	/* A dump of this process would hold the credentials; only 1 suppresses all dumps. */
	const struct rlimit none = { 1, 1 };
	const char *name = url + strlen(scheme);
	const size_t size = strspn(name, letters);
	struct bucket bucket = { .url = url, .prefix = name + size + (name[size] == '/') };
	struct s3_options options = *where;
	_cleanup_(freep) char *why = NULL;
	const struct plugin *plugin;
	int r;

	if (!size || (name[size] && name[size] != '/') || strncmp(name, "..", 2) == 0) {
		log_error("'%s' names no bucket: it is s3://BUCKET or s3://BUCKET/PREFIX", url);
		return -EINVAL;
	}
	setrlimit(RLIMIT_CORE, &none);
	r = plugins_find("s3", &plugin, &why);
	bucket.name = bytes_dup(bytes_make(name, size));
	options.bucket = bucket.name;
	options.stopped = stop_wanted;
	if (r == 0 && !bucket.name)
		r = -ENOMEM;
	if (r == 0) {
		bucket.ops = plugin->s3;
		r = bucket.ops->open(&options, &bucket.s3, &bucket.place, &why);
	}
	if (r < 0) {
		free(bucket.name);
		return say_why(why, r);
	}
	*ret_bucket = bucket;
	return 0;
}

void bucket_done(struct bucket *bucket)
{
	if (bucket->s3)
		bucket->ops->close(bucket->s3);
	free(bucket->name);
	*bucket = (struct bucket){ 0 };
}

int bucket_list(const struct bucket *bucket, const char *prefix, s3_object_fn *fn, void *arg)
{
	_cleanup_(freep) char *why = NULL;
	int r = bucket->ops->list(bucket->s3, prefix, fn, arg, &why);

	return r < 0 && r != -ECANCELED ? say_why(why, r) : r;
}

int bucket_perform(const struct bucket *bucket, struct s3_request *request)
{
	int r = bucket->ops->perform(bucket->s3, request);

	return r < 0 ? say_why(request->why, r) : 0;
}
