/* SPDX-License-Identifier: MIT */
#include "src/bucket/bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/copier.h"
#include "src/user/progress.h"
#include "src/user/say.h"

enum {
	SINGLE_MAX = 64 << 20, /* bytes; what is larger is uploaded in parts */
	BLOCK = 8 << 20,       /* a part, and what one request reads */
	PARTS_MAX = 10000,
};

static const char stamp_glob[] = "-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T"
				 "[0-9][0-9][0-9][0-9][0-9][0-9]Z.db";

/* A copy of a store, here as a file and there as an object. */
struct twin {
	const struct bucket *bucket;
	const char *key;
	bool replace;
	struct bytes file; /* mapped */
	char sha256[S3_HASH];
	struct progress progress;
};

static struct bytes twin_slice(const struct twin *twin, uint64_t at, uint64_t most)
{
	return bytes_make(twin->file.data + at, (size_t)MIN(most, twin->file.size - at));
}

/* Its pages are not needed in memory any longer. */
static void twin_pass(struct twin *twin, struct bytes slice)
{
	madvise((void *)slice.data, slice.size, MADV_DONTNEED);
	progress_add(&twin->progress, 0, slice.size);
}

/* All of the object, of one version, range by range: its SHA-256, and its bytes to a descriptor,
 * unless that is -1. */
static int twin_read(struct twin *twin, const struct s3_request *head, int fd,
		     char ret_sha256[S3_HASH])
{
	const struct s3_ops *ops = twin->bucket->ops;
	_cleanup_(freep) char *match = str_printf("If-Match: \"%s\"", head->etag);
	void *digest = ops->sha256(NULL, BYTES(""), NULL);
	int r = match ? 0 : -ENOMEM;

	for (uint64_t at = 0; r == 0 && at < head->size; at += BLOCK) {
		_cleanup_(freep) char *range =
			str_printf("Range: bytes=%llu-%llu", (unsigned long long)at,
				   (unsigned long long)at + BLOCK - 1);
		_cleanup_(s3_request_done) struct s3_request request = {
			.method = "GET", .key = twin->key, .headers = { range, match }
		};
		const struct buf *data = &request.data;

		r = range ? bucket_perform(twin->bucket, &request) : -ENOMEM;
		if (r == 0 && data->size != MIN(BLOCK, head->size - at))
			r = say_why("the server has answered with another range", -EIO);
		errno = EIO;
		if (r == 0 && fd >= 0 &&
		    pwrite(fd, data->data, data->size, (off_t)at) != (ssize_t)data->size)
			r = say_why(NULL, -errno);
		ops->sha256(digest, buf_bytes(data), NULL);
		progress_add(&twin->progress, 0, data->size);
	}
	ops->sha256(digest, BYTES(""), ret_sha256);
	return r;
}

/* ---- Up ---- */

/* Sends some of the file, as the object or a part of it. */
static int put_slice(struct twin *twin, uint64_t at, uint64_t most, struct s3_request *put)
{
	int r;

	put->method = "PUT";
	put->key = twin->key;
	put->body = twin_slice(twin, at, most);
	r = bucket_perform(twin->bucket, put);
	twin_pass(twin, put->body);
	return r;
}

/* Sends the parts, and appends what tells the server that they are all. */
static int put_parts(struct twin *twin, struct bytes upload, struct buf *list)
{
	const uint64_t size = (twin->file.size / PARTS_MAX / BLOCK + 1) * BLOCK;
	int r = buf_append_str(list, "<CompleteMultipartUpload>");

	for (uint64_t at = 0; r == 0 && at < twin->file.size; at += size) {
		char number[24];
		_cleanup_(s3_request_done) struct s3_request put = {
			.query = { { "partNumber", { number, 0 } }, { "uploadId", upload } }
		};

		snprintf(number, sizeof(number), "%llu", (unsigned long long)(at / size + 1));
		put.query[0].value.size = strlen(number);
		r = put_slice(twin, at, size, &put);
		if (r == 0)
			r = buf_printf(
				list, "<Part><PartNumber>%s</PartNumber><ETag>\"%s\"</ETag></Part>",
				number, put.etag);
	}
	return r < 0 ? r : buf_append_str(list, "</CompleteMultipartUpload>");
}

static int put_large(struct twin *twin, const char *sum, const char *condition)
{
	const struct bucket *bucket = twin->bucket;
	_cleanup_(buf_done) struct buf upload = { 0 }, list = { 0 };
	_cleanup_(s3_request_done) struct s3_request begin = {
		.method = "POST", .key = twin->key, .query = { { "uploads" } }, .headers = { sum }
	};
	int r = bucket_perform(bucket, &begin);

	if (r == 0 && bucket->ops->text(buf_bytes(&begin.data), "UploadId", &upload) < 0)
		r = say_why("the server begins no multipart upload", -EIO);
	if (r < 0)
		return r;
	_cleanup_(s3_request_done) struct s3_request end = { .method = "POST",
							     .key = twin->key,
							     .query = { { "uploadId",
									  buf_bytes(&upload) } },
							     .headers = { condition } };
	r = put_parts(twin, buf_bytes(&upload), &list);
	end.body = buf_bytes(&list);
	if (r == 0)
		r = bucket_perform(bucket, &end);
	if (r == 0)
		return 0;
	end.method = "DELETE";
	end.headers[0] = NULL;
	end.body = bytes_make(NULL, 0);
	end.anyway = true;
	bucket->ops->perform(bucket->s3, &end);
	return r;
}

static int drop(const struct bucket *bucket, const char *key)
{
	_cleanup_(s3_request_done) struct s3_request request = { .method = "DELETE", .key = key };

	return bucket_perform(bucket, &request);
}

/* Read it all, and compare. */
static int check(struct twin *twin)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD", .key = twin->key };
	char sha256[S3_HASH] = "";
	int r = bucket_perform(twin->bucket, &head);

	if (r == 0)
		r = twin_read(twin, &head, -1, sha256);
	if (r < 0 || strcmp(sha256, twin->sha256) == 0)
		return r;
	drop(twin->bucket, twin->key);
	log_error("s3://%s/%s has other bytes than were sent, so it was deleted",
		  twin->bucket->name, twin->key);
	return -EIO;
}

static int put_twin(struct twin *twin)
{
	const char *condition = twin->replace ? NULL : "If-None-Match: *";
	const struct s3_ops *ops = twin->bucket->ops;
	void *digest = ops->sha256(NULL, BYTES(""), NULL);
	_cleanup_(freep) char *sum = NULL;
	int r;

	progress_begin(&twin->progress, "upload", NULL);
	progress_set_total(&twin->progress, 0, 3 * twin->file.size);
	for (uint64_t at = 0; at < twin->file.size; at += BLOCK) {
		ops->sha256(digest, twin_slice(twin, at, BLOCK), NULL);
		twin_pass(twin, twin_slice(twin, at, BLOCK));
	}
	ops->sha256(digest, BYTES(""), twin->sha256);
	sum = str_printf("x-amz-meta-sha256: %s", twin->sha256);
	_cleanup_(s3_request_done) struct s3_request put = { .headers = { sum, condition } };
	r = !sum			 ? -ENOMEM :
	    !*twin->sha256		 ? say_why("SHA-256 is not available", -EOPNOTSUPP) :
	    twin->file.size > SINGLE_MAX ? put_large(twin, sum, condition) :
					   put_slice(twin, 0, SINGLE_MAX, &put);
	if (r == 0)
		r = check(twin);
	progress_end(&twin->progress);
	return r;
}

static int take_copy(struct copy *copy, const char *file)
{
	struct twin *twin = copy->arg;
	_cleanup_(closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map = MAP_FAILED;
	int r;

	if (fd >= 0 && fstat(fd, &st) == 0)
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return say_why(NULL, -errno);
	copy->bytes = (uint64_t)st.st_size;
	twin->file = bytes_make(map, copy->bytes);
	r = put_twin(twin);
	munmap(map, copy->bytes);
	return r;
}

/* The name must be free.  An object beside it tells whether the server keeps one writer from
 * replacing what another has just written. */
static int judge_free(const struct bucket *bucket, const char *name)
{
	_cleanup_(freep) char *beside = str_printf("%s.sessfs-try", name);
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD", .key = name };
	int r = bucket->ops->perform(bucket->s3, &head);

	if (r == 0)
		log_error("s3://%s/%s exists already; --force replaces it", bucket->name, name);
	if (r != -ENOENT || !beside)
		return r == 0 ? -EEXIST : r == -ENOENT ? -ENOMEM : say_why(head.why, r);
	r = 0;
	for (int i = 0; i < 2 && r == 0; i++) {
		_cleanup_(s3_request_done) struct s3_request put = {
			.method = "PUT", .key = beside, .headers = { "If-None-Match: *" }
		};

		r = bucket->ops->perform(bucket->s3, &put);
	}
	if (r == 0)
		log_notice(
			"%s takes no notice of If-None-Match, so a backup of the same name that is "
			"made at the same time could replace this one",
			bucket->place);
	drop(bucket, beside);
	return 0;
}

/* ---- Backups of a name ---- */

struct backups {
	const struct bucket *bucket;
	struct copier_names *keys; /* in their order, which is that of time */
};

static int take_backup(void *arg, const struct s3_object *object)
{
	const struct backups *backups = arg;
	const struct bytes name = bytes_str(backups->bucket->prefix);
	_cleanup_(freep) char *key = bytes_dup(object->key);

	if (!key)
		return -ENOMEM;
	return bytes_starts_with(object->key, name) &&
			       fnmatch(stamp_glob, key + name.size, 0) == 0 ?
		       copier_names_add(backups->keys, key) :
		       0;
}

static int list_backups(const struct bucket *bucket, struct copier_names *keys)
{
	struct backups backups = { bucket, keys };
	int r = bucket_list(bucket, bytes_str(bucket->prefix), take_backup, &backups);

	copier_names_sort(keys);
	return r;
}

static int drop_older(const struct bucket *bucket, uint64_t keep)
{
	_cleanup_(copier_names_done) struct copier_names keys = { 0 };
	int r = list_backups(bucket, &keys);

	for (size_t i = 0; r == 0 && i + keep < keys.count; i++)
		r = drop(bucket, keys.names[i]);
	return r;
}

static int judge_name(const struct bucket *bucket)
{
	if (*bucket->prefix && !bytes_ends_with(bytes_str(bucket->prefix), BYTES("/")))
		return 0;
	log_error("%s names no object; a backup is s3://BUCKET/NAME", bucket->url);
	return -EINVAL;
}

int backup_put(const struct bucket *bucket, struct copy *copy, uint64_t keep)
{
	const time_t now = time(NULL);
	_cleanup_(freep) char *name = NULL;
	struct twin twin = { .bucket = bucket, .replace = copy->replace };
	char stamp[32] = "";
	struct tm tm;
	int r = judge_name(bucket);

	if (keep)
		strftime(stamp, sizeof(stamp), "-%Y%m%dT%H%M%SZ.db", gmtime_r(&now, &tm));
	twin.key = name = str_printf("%s%s", bucket->prefix, stamp);
	if (r == 0 && !name)
		r = -ENOMEM;
	if (r == 0 && !copy->replace)
		r = judge_free(bucket, name);
	copy->to = NULL;
	copy->take = take_copy;
	copy->arg = &twin;
	if (r == 0)
		r = copy_run(copy);
	copy->to = bucket->url;
	return r == 0 && keep ? drop_older(bucket, keep) : r;
}

/* ---- Down ---- */

/* The object of this name, or the latest backup of it; its name belongs to the caller. */
static int find_backup(const struct bucket *bucket, struct s3_request *head, char **ret_name)
{
	_cleanup_(copier_names_done) struct copier_names keys = { 0 };
	int r = judge_name(bucket);

	if (r < 0)
		return r;
	head->key = bucket->prefix;
	r = bucket->ops->perform(bucket->s3, head);
	if (r != -ENOENT)
		return r < 0				    ? say_why(head->why, r) :
		       (*ret_name = strdup(bucket->prefix)) ? 0 :
							      -ENOMEM;
	r = list_backups(bucket, &keys);
	if (r == 0 && !keys.count)
		log_error("there is no backup %s", bucket->url);
	if (r < 0 || !keys.count)
		return r < 0 ? r : -ENOENT;
	*ret_name = steal_ptr(keys.names[keys.count - 1]);
	head->key = *ret_name;
	return bucket_perform(bucket, head);
}

int backup_get(const struct bucket *bucket, struct copy *copy)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD" };
	_cleanup_(freep) char *name = NULL, *file = NULL;
	_cleanup_(closep) int fd = -1;
	int r = find_backup(bucket, &head, &name);
	struct twin twin = { .bucket = bucket, .key = name };

	if (r == 0)
		r = fd = copy_make_temporary(copy->to, NULL, &file);
	if (r < 0)
		return r;
	progress_begin(&twin.progress, "download", NULL);
	progress_set_total(&twin.progress, 0, head.size);
	r = twin_read(&twin, &head, fd, twin.sha256);
	progress_end(&twin.progress);
	if (r == 0 && !*head.sha256)
		log_warning("s3://%s/%s has no SHA-256 beside it, so it is only checked as a store",
			    bucket->name, name);
	if (r == 0 && *head.sha256 && strcmp(twin.sha256, head.sha256) != 0) {
		log_error("s3://%s/%s is not what was put there: its SHA-256 is another one",
			  bucket->name, name);
		r = -EIO;
	}
	copy->from = file;
	if (r == 0)
		r = copy_run(copy);
	copy->from = bucket->url;
	backend_discard(file);
	return r;
}
