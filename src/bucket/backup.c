/* SPDX-License-Identifier: MIT */
#include "src/bucket/bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "backend/base/log.h"

enum {
	SINGLE_MAX = 64 << 20, /* bytes; what is larger is uploaded in parts */
	BLOCK = 8 << 20,       /* a part, and what one request reads */
	PARTS_MAX = 10000,
};

static const char stamp_format[] = "-%Y%m%dT%H%M%SZ.db";
static const char stamp_glob[] = "-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T"
				 "[0-9][0-9][0-9][0-9][0-9][0-9]Z.db";

/* A copy of a store, here as a file and there as an object. */
struct backup {
	struct bucket bucket;
	struct copier_names names; /* of those with the time in it, in its order */
	const char *key;	   /* borrowed */
	bool replace;
	struct bytes file; /* its content, mapped */
	char sha256[S3_HASH];
	struct progress progress;
};

static void backup_done(struct backup *backup)
{
	if (backup->file.size)
		munmap((void *)backup->file.data, backup->file.size);
	copier_names_done(&backup->names);
	bucket_done(&backup->bucket);
}

static int backup_open(struct backup *backup, const char *url, const struct s3_options *where)
{
	int r = bucket_open(url, where, &backup->bucket);

	if (r < 0 || (*backup->bucket.prefix &&
		      !bytes_ends_with(bytes_str(backup->bucket.prefix), BYTES("/"))))
		return r;
	return log_fail(-EINVAL, "%s names no object; a backup is s3://BUCKET/NAME", url);
}

static int backup_map(struct backup *backup, int fd)
{
	const off_t size = lseek(fd, 0, SEEK_END);
	int r;
	void *map = size ? mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0) : NULL;

	if (map == MAP_FAILED)
		return say_why(NULL, -errno);
	backup->file = bytes_make(map, (size_t)size);
	r = backup->bucket.ops->sha256(backup->file, backup->sha256);
	return r < 0 ? say_why(NULL, r) : 0;
}

static int take_name(void *arg, const char *key, const char *etag, uint64_t size)
{
	struct backup *backup = arg;
	const size_t begin = strlen(backup->bucket.prefix);

	(void)etag, (void)size;
	if (strncmp(key, backup->bucket.prefix, begin) != 0 || fnmatch(stamp_glob, key + begin, 0))
		return 0;
	return copier_names_add(&backup->names, key);
}

static int find_names(struct backup *backup)
{
	const struct bucket *bucket = &backup->bucket;
	int r = bucket->ops->list(bucket->s3, bucket->prefix, take_name, backup);

	copier_names_sort(&backup->names);
	return r;
}

/* All of the object, of one version, range by range: to a file, or (-1) compared with the one that
 * was sent, -EBADMSG. */
static int backup_read(struct backup *backup, const struct s3_request *head, int fd)
{
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < head->size; at += BLOCK) {
		const size_t size = (size_t)MIN(BLOCK, head->size - at);
		S3_REQUEST(get, .method = "GET", .key = backup->key, .match = head->etag,
			   .from = at, .length = size);

		r = bucket_perform(&backup->bucket, &get);
		if (r == 0 && get.data.size != size)
			r = say_why("the server has answered with another range", -EIO);
		else if (r == 0 && fd < 0)
			r = memcmp(backup->file.data + at, get.data.data, size) ? -EBADMSG : 0;
		else if (r == 0 && pwrite(fd, get.data.data, size, (off_t)at) != (ssize_t)size)
			r = say_why(NULL, -errno);
		progress_add(&backup->progress, 0, size);
	}
	return r;
}

/* ---- Up ---- */

/* The request that gives the object its name.  If its answer is lost, the next try fails, and there
 * is an object that is ours. */
static int put_name(struct backup *backup, struct s3_request *put)
{
	const struct bucket *bucket = &backup->bucket;
	S3_REQUEST(head, .method = "HEAD", .key = backup->key);
	int r = bucket->ops->perform(bucket->s3, put);

	if ((r == -EEXIST || r == -ENOENT) && put->tries > 1 &&
	    bucket->ops->perform(bucket->s3, &head) == 0 &&
	    strcmp(head.sha256, backup->sha256) == 0)
		return 0;
	return r < 0 ? say_why(put->why, r) : 0;
}

/* In parts, behind which stands a list of them: with that, the object gets its name. */
static int put_large(struct backup *backup)
{
	const struct bucket *bucket = &backup->bucket;
	const uint64_t most = (backup->file.size / PARTS_MAX / BLOCK + 1) * BLOCK;
	_cleanup_(buf_done) struct buf list = { 0 };
	S3_REQUEST(begin, .method = "POST", .key = backup->key, .query = { { "uploads", "" } },
		   .hash = backup->sha256);
	int r = bucket_perform(bucket, &begin);
	_cleanup_(freep) char *upload =
		r == 0 ? bucket->ops->text(buf_bytes(&begin.data), "UploadId") : NULL;
	S3_REQUEST(end, .method = "POST", .key = backup->key, .query = { { "uploadId", upload } },
		   .is_new = !backup->replace);
	S3_REQUEST(undo, .method = "DELETE", .key = backup->key,
		   .query = { { "uploadId", upload } }, .anyway = true);

	if (!upload)
		return r < 0 ? r : say_why("the server begins no multipart upload", -EIO);
	r = buf_append_str(&list, "<CompleteMultipartUpload>");
	for (uint64_t at = 0; r == 0 && at < backup->file.size; at += most) {
		const size_t size = (size_t)MIN(most, backup->file.size - at);
		char number[24];
		S3_REQUEST(put, .method = "PUT", .key = backup->key,
			   .query = { { "partNumber", number }, { "uploadId", upload } },
			   .body = bytes_make(backup->file.data + at, size));

		snprintf(number, sizeof(number), "%" PRIu64, at / most + 1);
		r = bucket_perform(bucket, &put);
		progress_add(&backup->progress, 0, size);
		if (r == 0)
			r = buf_printf(
				&list,
				"<Part><PartNumber>%s</PartNumber><ETag>\"%s\"</ETag></Part>",
				number, put.etag);
	}
	if (r == 0)
		r = buf_append_str(&list, "</CompleteMultipartUpload>");
	end.body = buf_bytes(&list);
	if (r == 0)
		r = put_name(backup, &end);
	if (r < 0)
		bucket->ops->perform(bucket->s3, &undo);
	return r;
}

static int drop(const struct bucket *bucket, const char *key)
{
	S3_REQUEST(request, .method = "DELETE", .key = key, .anyway = true);

	return bucket_perform(bucket, &request);
}

/* Up, and read all again.  What is new goes when that was not done. */
static int take_copy(struct copy *copy, const char *file)
{
	struct backup *backup = copy->arg;
	S3_REQUEST(head, .method = "HEAD", .key = backup->key);
	_cleanup_(closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? say_why(NULL, -errno) : backup_map(backup, fd);

	if (r < 0)
		return r;
	S3_REQUEST(put, .method = "PUT", .key = backup->key, .body = backup->file,
		   .hash = backup->sha256, .is_new = !backup->replace);

	copy->bytes = backup->file.size;
	progress_begin(&backup->progress, "upload", NULL);
	progress_set_total(&backup->progress, 0, 2 * copy->bytes);
	r = copy->bytes > SINGLE_MAX ? put_large(backup) : put_name(backup, &put);
	progress_add(&backup->progress, 0, put.status ? copy->bytes : 0);
	if (r == 0) {
		r = bucket_perform(&backup->bucket, &head);
		if (r == 0)
			r = head.size == copy->bytes ? backup_read(backup, &head, -1) : -EBADMSG;
		if (r == -EBADMSG)
			log_error("s3://%s/%s has other bytes than were sent, so it is deleted",
				  backup->bucket.name, backup->key);
		if (r == -EBADMSG || (r < 0 && !backup->replace))
			drop(&backup->bucket, backup->key);
	}
	progress_end(&backup->progress);
	return r;
}

/* The name must be free.  An object beside it tells whether the server keeps one writer from
 * replacing what another has just written. */
static int judge_free(const struct backup *backup)
{
	const struct bucket *bucket = &backup->bucket;
	_cleanup_(freep) char *beside = str_printf("%s.sessfs-try", backup->key);
	S3_REQUEST(head, .method = "HEAD", .key = backup->key);
	S3_REQUEST(put, .method = "PUT", .key = beside, .is_new = true);
	int r = beside ? bucket->ops->perform(bucket->s3, &head) : -ENOMEM;

	if (r == 0)
		log_error("s3://%s/%s exists already; --force replaces it", bucket->name,
			  backup->key);
	if (r != -ENOENT)
		return r < 0 ? say_why(head.why, r) : -EEXIST;
	if (bucket->ops->perform(bucket->s3, &put) == 0 &&
	    bucket->ops->perform(bucket->s3, &put) == 0)
		log_notice(
			"%s takes no notice of If-None-Match, so a backup of the same name that is "
			"made at the same time could replace this one",
			bucket->place);
	drop(bucket, beside);
	return 0;
}

int backup_put(struct copy *copy, const struct s3_options *where, uint64_t keep)
{
	_cleanup_(backup_done) struct backup backup = { .replace = copy->replace };
	struct copier_names *names = &backup.names;
	_cleanup_(freep) char *key = NULL;
	time_t now = time(NULL);
	struct tm tm = { 0 };
	char stamp[32] = "";
	int r = backup_open(&backup, copy->to, where);

	if (r == 0 && keep)
		r = find_names(&backup);
	if (r < 0)
		return r;
	/* Behind all others, also when a clock was ahead. */
	if (names->count && strptime(names->names[names->count - 1] + strlen(backup.bucket.prefix),
				     stamp_format, &tm))
		now = MAX(now, timegm(&tm) + 1);
	if (keep)
		strftime(stamp, sizeof(stamp), stamp_format, gmtime_r(&now, &tm));
	backup.key = key = str_printf("%s%s", backup.bucket.prefix, stamp);
	r = !key ? -ENOMEM : copy->replace ? 0 : judge_free(&backup);
	copy->to = NULL;
	copy->take = take_copy;
	copy->arg = &backup;
	if (r == 0)
		r = copy_run(copy);
	copy->to = backup.bucket.url;
	/* Of the older ones and this one so many are to stay. */
	for (size_t i = 0; r == 0 && keep && i + keep <= names->count; i++)
		r = drop(&backup.bucket, names->names[i]);
	return r;
}

/* ---- Down ---- */

/* The object of this name, or the latest backup of it. */
int backup_get(struct copy *copy, const struct s3_options *where)
{
	_cleanup_(backup_done) struct backup backup = { 0 };
	const struct bucket *bucket = &backup.bucket;
	S3_REQUEST(head, .method = "HEAD");
	_cleanup_(freep) char *file = NULL;
	_cleanup_(closep) int fd = -1;
	int r = backup_open(&backup, copy->from, where);

	if (r < 0)
		return r;
	backup.key = head.key = bucket->prefix;
	r = bucket->ops->perform(bucket->s3, &head);
	if (r == -ENOENT) {
		r = find_names(&backup);
		if (r < 0 || !backup.names.count)
			return r < 0 ? r : say_why("there is no backup of this name", -ENOENT);
		backup.key = head.key = backup.names.names[backup.names.count - 1];
		r = bucket->ops->perform(bucket->s3, &head);
	}
	if (r < 0)
		return say_why(head.why, r);
	r = fd = copy_make_temporary(copy->to, NULL, &file);
	if (r < 0)
		return r;
	progress_begin(&backup.progress, "download", NULL);
	progress_set_total(&backup.progress, 0, head.size);
	r = backup_read(&backup, &head, fd);
	progress_end(&backup.progress);
	if (r == 0)
		r = backup_map(&backup, fd);
	if (r == 0 && !*head.sha256)
		log_warning("s3://%s/%s has no SHA-256 beside it, so it is only checked as a store",
			    bucket->name, backup.key);
	else if (r == 0 && strcmp(backup.sha256, head.sha256) != 0)
		r = say_why("the backup is not what was put there: its SHA-256 is another one",
			    -EIO);
	copy->from = file;
	if (r == 0)
		r = copy_run(copy);
	copy->from = bucket->url;
	backend_discard(file);
	return r;
}
