/* SPDX-License-Identifier: MIT */
#include "src/bucket/bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/mman.h>
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
	int fd;
	uint64_t size;
	char sha256[S3_HASH];
	struct progress progress;
};

/* So much of the file in memory, to be unmapped; NULL and errno. */
static void *twin_map(const struct twin *twin, uint64_t at, size_t size)
{
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, twin->fd, (off_t)at);

	return map == MAP_FAILED ? NULL : map;
}

/* All of the object, of one version, range by range: to the file, or compared with it, -EBADMSG. */
static int twin_read(struct twin *twin, const struct s3_request *head, bool compare)
{
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < head->size; at += BLOCK) {
		const size_t size = (size_t)MIN(BLOCK, head->size - at);
		void *map = compare ? twin_map(twin, at, size) : NULL;
		_cleanup_(s3_request_done) struct s3_request request = { .method = "GET",
									 .key = twin->key,
									 .match = head->etag,
									 .from = at,
									 .length = size };

		r = bucket_perform(twin->bucket, &request);
		errno = EIO;
		if (r == 0 && request.data.size != size)
			r = say_why("the server has answered with another range", -EIO);
		else if (r == 0 && compare)
			r = map && memcmp(map, request.data.data, size) == 0 ? 0 : -EBADMSG;
		else if (r == 0 &&
			 pwrite(twin->fd, request.data.data, size, (off_t)at) != (ssize_t)size)
			r = say_why(NULL, -errno);
		if (map)
			munmap(map, size);
		progress_add(&twin->progress, 0, size);
	}
	return r;
}

/* ---- Up ---- */

/* The request that gives the object its name.  If its answer is lost, the next try fails, and there
 * is an object that is ours. */
static int put_name(struct twin *twin, struct s3_request *put)
{
	const struct bucket *bucket = twin->bucket;
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD", .key = twin->key };
	int r = bucket->ops->perform(bucket->s3, put);

	if ((r == -EEXIST || r == -ENOENT) && put->tries > 1 &&
	    bucket->ops->perform(bucket->s3, &head) == 0 && strcmp(head.sha256, twin->sha256) == 0)
		return 0;
	return r < 0 ? say_why(put->why, r) : 0;
}

/* Sends some of the file, as the object or a part of it. */
static int put_slice(struct twin *twin, uint64_t at, uint64_t most, struct s3_request *put)
{
	const size_t size = (size_t)MIN(most, twin->size - at);
	void *map = twin_map(twin, at, size);
	int r;

	if (!map)
		return say_why(NULL, -errno);
	put->method = "PUT";
	put->key = twin->key;
	put->body = bytes_make(map, size);
	r = put->hash ? put_name(twin, put) : bucket_perform(twin->bucket, put);
	munmap(map, size);
	progress_add(&twin->progress, 0, size);
	return r;
}

/* Sends the parts, and appends what tells the server that they are all. */
static int put_parts(struct twin *twin, const char *upload, struct buf *list)
{
	const uint64_t size = (twin->size / PARTS_MAX / BLOCK + 1) * BLOCK;
	int r = buf_append_str(list, "<CompleteMultipartUpload>");

	for (uint64_t at = 0; r == 0 && at < twin->size; at += size) {
		char number[24];
		_cleanup_(s3_request_done) struct s3_request put = {
			.query = { { "partNumber", number }, { "uploadId", upload } }
		};

		snprintf(number, sizeof(number), "%llu", (unsigned long long)(at / size + 1));
		r = put_slice(twin, at, size, &put);
		if (r == 0)
			r = buf_printf(
				list, "<Part><PartNumber>%s</PartNumber><ETag>\"%s\"</ETag></Part>",
				number, put.etag);
	}
	return r < 0 ? r : buf_append_str(list, "</CompleteMultipartUpload>");
}

static int put_large(struct twin *twin)
{
	const struct bucket *bucket = twin->bucket;
	_cleanup_(buf_done) struct buf list = { 0 };
	_cleanup_(s3_request_done) struct s3_request begin = { .method = "POST",
							       .key = twin->key,
							       .query = { { "uploads", "" } },
							       .hash = twin->sha256 };
	int r = bucket_perform(bucket, &begin);
	_cleanup_(freep) char *upload =
		r == 0 ? bucket->ops->text(buf_bytes(&begin.data), "UploadId") : NULL;
	_cleanup_(s3_request_done) struct s3_request end = { .method = "POST",
							     .key = twin->key,
							     .query = { { "uploadId", upload } } };
	_cleanup_(s3_request_done) struct s3_request undo = { .method = "DELETE",
							      .key = twin->key,
							      .query = { { "uploadId", upload } },
							      .anyway = true };

	if (!upload)
		return r < 0 ? r : say_why("the server begins no multipart upload", -EIO);
	r = put_parts(twin, upload, &list);
	end.body = buf_bytes(&list);
	end.is_new = !twin->replace;
	if (r == 0)
		r = put_name(twin, &end);
	if (r < 0)
		bucket->ops->perform(bucket->s3, &undo);
	return r;
}

static int drop(const struct bucket *bucket, const char *key)
{
	_cleanup_(s3_request_done) struct s3_request request = { .method = "DELETE",
								 .key = key,
								 .anyway = true };

	return bucket_perform(bucket, &request);
}

/* Read it all, and compare.  What is new goes when that was not done. */
static int check(struct twin *twin)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD", .key = twin->key };
	int r = bucket_perform(twin->bucket, &head);

	if (r == 0)
		r = head.size == twin->size ? twin_read(twin, &head, true) : -EBADMSG;
	if (r == -EBADMSG)
		log_error("s3://%s/%s has other bytes than were sent, so it is deleted",
			  twin->bucket->name, twin->key);
	if (r == -EBADMSG || (r < 0 && !twin->replace))
		drop(twin->bucket, twin->key);
	return r;
}

static int take_copy(struct copy *copy, const char *file)
{
	struct twin *twin = copy->arg;
	_cleanup_(closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
	_cleanup_(s3_request_done) struct s3_request put = { .hash = twin->sha256,
							     .is_new = !twin->replace };
	int r = fd < 0 ? -errno : twin->bucket->ops->sha256(BYTES(""), fd, twin->sha256);

	if (r < 0)
		return say_why(NULL, r);
	twin->fd = fd;
	copy->bytes = twin->size = (uint64_t)lseek(fd, 0, SEEK_END);
	progress_begin(&twin->progress, "upload", NULL);
	progress_set_total(&twin->progress, 0, 2 * twin->size);
	r = twin->size > SINGLE_MAX ? put_large(twin) : put_slice(twin, 0, SINGLE_MAX, &put);
	if (r == 0)
		r = check(twin);
	progress_end(&twin->progress);
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
		_cleanup_(s3_request_done) struct s3_request put = { .method = "PUT",
								     .key = beside,
								     .is_new = true };

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
	const char *name = backups->bucket->prefix;

	return strncmp(object->key, name, strlen(name)) == 0 &&
			       fnmatch(stamp_glob, object->key + strlen(name), 0) == 0 ?
		       copier_names_add(backups->keys, object->key) :
		       0;
}

static int list_backups(const struct bucket *bucket, struct copier_names *keys)
{
	struct backups backups = { bucket, keys };
	int r = bucket_list(bucket, bucket->prefix, take_backup, &backups);

	copier_names_sort(keys);
	return r;
}

/* Behind all others, also when a clock was ahead. */
static int make_stamp(const struct bucket *bucket, size_t size, char *stamp)
{
	static const char format[] = "-%Y%m%dT%H%M%SZ.db";
	_cleanup_(copier_names_done) struct copier_names keys = { 0 };
	time_t now = time(NULL);
	struct tm tm = { 0 };
	int r = list_backups(bucket, &keys);

	if (keys.count &&
	    strptime(keys.names[keys.count - 1] + strlen(bucket->prefix), format, &tm))
		now = MAX(now, timegm(&tm) + 1);
	strftime(stamp, size, format, gmtime_r(&now, &tm));
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

static int open_named(const char *url, const struct s3_options *where, struct bucket *bucket)
{
	int r = bucket_open(url, where, bucket);

	if (r < 0 || (*bucket->prefix && bucket->prefix[strlen(bucket->prefix) - 1] != '/'))
		return r;
	log_error("%s names no object; a backup is s3://BUCKET/NAME", url);
	return -EINVAL;
}

int backup_put(struct copy *copy, const struct s3_options *where, uint64_t keep)
{
	_cleanup_(bucket_done) struct bucket opened = { 0 };
	_cleanup_(freep) char *name = NULL;
	const struct bucket *bucket = &opened;
	struct twin twin = { .bucket = bucket, .replace = copy->replace };
	char stamp[32] = "";
	int r = open_named(copy->to, where, &opened);

	if (r == 0 && keep)
		r = make_stamp(bucket, sizeof(stamp), stamp);
	if (r < 0)
		return r;
	twin.key = name = str_printf("%s%s", bucket->prefix, stamp);
	r = !name ? -ENOMEM : copy->replace ? 0 : judge_free(bucket, name);
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
	int r;

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

int backup_get(struct copy *copy, const struct s3_options *where)
{
	_cleanup_(bucket_done) struct bucket opened = { 0 };
	const struct bucket *bucket = &opened;
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD" };
	_cleanup_(freep) char *name = NULL, *file = NULL;
	_cleanup_(closep) int fd = -1;
	int r = open_named(copy->from, where, &opened);

	if (r == 0)
		r = find_backup(bucket, &head, &name);
	if (r == 0)
		r = fd = copy_make_temporary(copy->to, NULL, &file);
	if (r < 0)
		return r;
	struct twin twin = { .bucket = bucket, .key = name, .fd = fd };

	progress_begin(&twin.progress, "download", NULL);
	progress_set_total(&twin.progress, 0, head.size);
	r = twin_read(&twin, &head, false);
	progress_end(&twin.progress);
	if (r == 0 && !*head.sha256)
		log_warning("s3://%s/%s has no SHA-256 beside it, so it is only checked as a store",
			    bucket->name, name);
	else if (r == 0 && (bucket->ops->sha256(BYTES(""), fd, twin.sha256) < 0 ||
			    strcmp(twin.sha256, head.sha256) != 0)) {
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
