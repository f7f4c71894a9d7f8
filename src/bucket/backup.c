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
	struct bytes key;
	int fd;
	uint64_t size;
	char sha256[S3_HASH]; /* of the file */
	struct progress progress;
};

/* Some of its bytes, mapped: munmap() them. */
static int twin_map(const struct twin *twin, uint64_t at, uint64_t most, struct bytes *ret_bytes)
{
	const size_t size = (size_t)MIN(most, twin->size - at);
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, twin->fd, (off_t)at);

	*ret_bytes = bytes_make(map, size);
	return map == MAP_FAILED ? say_why(NULL, -errno) : 0;
}

static int twin_hash(struct twin *twin)
{
	const struct s3_ops *ops = twin->bucket->ops;
	void *digest = ops->sha256(NULL, BYTES(""), NULL);
	struct bytes part;
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < twin->size; at += BLOCK) {
		r = twin_map(twin, at, BLOCK, &part);
		if (r < 0)
			break;
		ops->sha256(digest, part, NULL);
		munmap((void *)part.data, part.size);
	}
	ops->sha256(digest, BYTES(""), twin->sha256);
	return r < 0 || *twin->sha256 ? r : say_why("SHA-256 is not available", -EOPNOTSUPP);
}

/* All of the object, of one version, range by range: its SHA-256, and its bytes to a descriptor,
 * unless that is -1. */
static int twin_read(struct twin *twin, const char *etag, int fd, char ret_sha256[S3_HASH])
{
	const struct s3_ops *ops = twin->bucket->ops;
	_cleanup_(freep) char *match = str_printf("If-Match: \"%s\"", etag);
	void *digest = ops->sha256(NULL, BYTES(""), NULL);
	int r = match ? 0 : -ENOMEM;

	for (uint64_t at = 0; r == 0 && at < twin->size; at += BLOCK) {
		_cleanup_(freep) char *range =
			str_printf("Range: bytes=%llu-%llu", (unsigned long long)at,
				   (unsigned long long)at + BLOCK - 1);
		_cleanup_(s3_request_done) struct s3_request request = {
			.method = "GET", .key = twin->key, .headers = { range, match }
		};

		r = range ? bucket_perform(twin->bucket, &request) : -ENOMEM;
		if (r == 0 && request.data.size != MIN(BLOCK, twin->size - at))
			r = say_why("the server has answered with another range", -EIO);
		errno = EIO;
		if (r == 0 && fd >= 0 &&
		    pwrite(fd, request.data.data, request.data.size, (off_t)at) !=
			    (ssize_t)request.data.size)
			r = say_why(NULL, -errno);
		ops->sha256(digest, buf_bytes(&request.data), NULL);
		progress_add(&twin->progress, 0, request.data.size);
	}
	ops->sha256(digest, BYTES(""), ret_sha256);
	return r;
}

/* ---- Up ---- */

/* Sends some of the file, as the object or a part of it. */
static int put_bytes(struct twin *twin, uint64_t at, uint64_t most, struct s3_request *put)
{
	int r = twin_map(twin, at, most, &put->body);

	if (r < 0)
		return r;
	put->method = "PUT";
	put->key = twin->key;
	r = bucket_perform(twin->bucket, put);
	munmap((void *)put->body.data, put->body.size);
	progress_add(&twin->progress, 0, put->body.size);
	return r;
}

static int put_parts(struct twin *twin, struct bytes upload, const char *condition)
{
	const uint64_t size = (twin->size / PARTS_MAX / BLOCK + 1) * BLOCK;
	_cleanup_(buf_done) struct buf list = { 0 };
	_cleanup_(s3_request_done) struct s3_request end = { .method = "POST",
							     .key = twin->key,
							     .query = { { "uploadId", upload } },
							     .headers = { condition } };
	int r = buf_append_str(&list, "<CompleteMultipartUpload>");

	for (uint64_t at = 0; r == 0 && at < twin->size; at += size) {
		_cleanup_(freep) char *number =
			str_printf("%llu", (unsigned long long)(at / size + 1));
		_cleanup_(s3_request_done) struct s3_request put = {
			.query = { { "partNumber", bytes_str(number ? number : "") },
				   { "uploadId", upload } }
		};

		r = number ? put_bytes(twin, at, size, &put) : -ENOMEM;
		if (r == 0)
			r = buf_printf(
				&list,
				"<Part><PartNumber>%s</PartNumber><ETag>\"%s\"</ETag></Part>",
				number, put.etag);
	}
	if (r == 0)
		r = buf_append_str(&list, "</CompleteMultipartUpload>");
	end.body = buf_bytes(&list);
	return r < 0 ? r : bucket_perform(twin->bucket, &end);
}

static int put_large(struct twin *twin, const char *sum, const char *condition)
{
	const struct s3_ops *ops = twin->bucket->ops;
	_cleanup_(buf_done) struct buf upload = { 0 };
	_cleanup_(s3_request_done) struct s3_request begin = {
		.method = "POST", .key = twin->key, .query = { { "uploads" } }, .headers = { sum }
	};
	int r = bucket_perform(twin->bucket, &begin);

	if (r < 0)
		return r;
	r = ops->text(buf_bytes(&begin.data), "UploadId", &upload);
	if (r < 0)
		return say_why("the server begins no multipart upload", -EIO);
	r = put_parts(twin, buf_bytes(&upload), condition);
	_cleanup_(s3_request_done) struct s3_request abort = { .method = "DELETE",
							       .key = twin->key,
							       .query = { { "uploadId",
									    buf_bytes(&upload) } },
							       .anyway = true };
	if (r < 0)
		ops->perform(twin->bucket->s3, &abort);
	return r;
}

static int drop(const struct bucket *bucket, struct bytes key)
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

	if (r == 0 && head.size == twin->size)
		r = twin_read(twin, head.etag, -1, sha256);
	if (r < 0 || strcmp(sha256, twin->sha256) == 0)
		return r;
	drop(twin->bucket, twin->key);
	log_error("s3://%s/%.*s has other bytes than were sent, so it was deleted",
		  twin->bucket->name, (int)twin->key.size, twin->key.data);
	return -EIO;
}

static int put_file(struct twin *twin, bool replace)
{
	const char *condition = replace ? NULL : "If-None-Match: *";
	_cleanup_(freep) char *sum = NULL;
	struct stat st;
	int r = fstat(twin->fd, &st) < 0 ? say_why(NULL, -errno) : 0;

	twin->size = (uint64_t)st.st_size;
	if (r == 0)
		r = twin_hash(twin);
	if (r == 0)
		sum = str_printf("x-amz-meta-sha256: %s", twin->sha256);
	if (!sum)
		return r < 0 ? r : -ENOMEM;
	_cleanup_(s3_request_done) struct s3_request put = { .headers = { sum, condition } };
	progress_begin(&twin->progress, "upload", NULL);
	progress_set_total(&twin->progress, 0, 2 * twin->size);
	r = twin->size > SINGLE_MAX ? put_large(twin, sum, condition) :
				      put_bytes(twin, 0, SINGLE_MAX, &put);
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
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD",
							      .key = bytes_str(name) };
	int r = bucket->ops->perform(bucket->s3, &head);

	if (r == 0)
		log_error("s3://%s/%s exists already; --force replaces it", bucket->name, name);
	if (r != -ENOENT || !beside)
		return r == 0 ? -EEXIST : r == -ENOENT ? -ENOMEM : say_why(head.why, r);
	r = 0;
	for (int i = 0; i < 2 && r == 0; i++) {
		_cleanup_(s3_request_done) struct s3_request put = {
			.method = "PUT", .key = bytes_str(beside), .headers = { "If-None-Match: *" }
		};

		r = bucket->ops->perform(bucket->s3, &put);
	}
	if (r == 0)
		log_notice(
			"%s takes no notice of If-None-Match, so a backup of the same name that is "
			"made at the same time could replace this one",
			bucket->ops->place(bucket->s3));
	drop(bucket, bytes_str(beside));
	return 0;
}

/* ---- Backups of a name ---- */

struct backups {
	struct bytes name;
	struct copier_names keys; /* in their order, which is that of time */
};

static int take_backup(void *arg, const struct s3_object *object)
{
	struct backups *backups = arg;
	_cleanup_(freep) char *key = bytes_dup(object->key);

	if (!key)
		return -ENOMEM;
	return fnmatch(stamp_glob, key + backups->name.size, 0) == 0 ?
		       copier_names_add(&backups->keys, key) :
		       0;
}

static int list_backups(const struct bucket *bucket, struct copier_names *keys)
{
	struct backups backups = { .name = bytes_str(bucket->prefix) };
	int r = bucket_list(bucket, backups.name, take_backup, &backups);

	*keys = backups.keys;
	copier_names_sort(keys);
	return r;
}

static int drop_older(const struct bucket *bucket, uint64_t keep)
{
	_cleanup_(copier_names_done) struct copier_names keys = { 0 };
	int r = list_backups(bucket, &keys);

	for (size_t i = 0; r == 0 && i + keep < keys.count; i++)
		r = drop(bucket, bytes_str(keys.names[i]));
	return r;
}

static int judge_name(const struct bucket *bucket)
{
	if (*bucket->prefix && !bytes_ends_with(bytes_str(bucket->prefix), BYTES("/")))
		return 0;
	log_error("%s names no object; a backup is s3://BUCKET/NAME", bucket->url);
	return -EINVAL;
}

/* A file that only we can enter the folder of; -errno after a sentence. */
static int make_file(char **ret_folder, char **ret_file)
{
	const char *folder = getenv("TMPDIR");

	*ret_folder = str_printf("%s/sessfs-XXXXXX", folder && *folder ? folder : "/var/tmp");
	if (!*ret_folder || !mkdtemp(*ret_folder))
		return say_why("cannot make a temporary folder; TMPDIR says where", -EIO);
	*ret_file = str_printf("%s/store.db", *ret_folder);
	return *ret_file ? 0 : -ENOMEM;
}

static void drop_file(char *folder, char *file)
{
	if (file)
		unlink(file);
	if (folder)
		rmdir(folder);
	free(folder);
	free(file);
}

int backup_put(const struct bucket *bucket, struct copy *copy, uint64_t keep)
{
	const time_t now = time(NULL);
	_cleanup_(freep) char *name = NULL;
	_cleanup_(closep) int fd = -1;
	char stamp[32] = "", *folder = NULL, *file = NULL;
	struct tm tm;
	int r = judge_name(bucket);

	if (keep)
		strftime(stamp, sizeof(stamp), "-%Y%m%dT%H%M%SZ.db", gmtime_r(&now, &tm));
	name = str_printf("%s%s", bucket->prefix, stamp);
	if (r == 0 && !name)
		r = -ENOMEM;
	if (r == 0 && !copy->replace)
		r = judge_free(bucket, name);
	if (r == 0)
		r = make_file(&folder, &file);
	copy->to = file;
	if (r == 0)
		r = copy_run(copy);
	if (r == 0)
		fd = open(file, O_RDONLY | O_CLOEXEC);
	drop_file(folder, file);
	copy->to = bucket->url;
	if (r < 0)
		return r;
	struct twin twin = { .bucket = bucket, .key = bytes_str(name), .fd = fd };
	r = put_file(&twin, copy->replace);
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
	head->key = bytes_str(bucket->prefix);
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
	head->key = bytes_str(*ret_name);
	return bucket_perform(bucket, head);
}

static int get_file(struct twin *twin, const struct s3_request *head, const char *file)
{
	_cleanup_(closep) int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char sha256[S3_HASH];
	int r;

	progress_begin(&twin->progress, "download", NULL);
	progress_set_total(&twin->progress, 0, twin->size);
	r = fd < 0 ? say_why(NULL, -errno) : twin_read(twin, head->etag, fd, sha256);
	progress_end(&twin->progress);
	if (r == 0 && !*head->sha256)
		log_warning(
			"s3://%s/%.*s has no SHA-256 beside it, so it is only checked as a store",
			twin->bucket->name, (int)twin->key.size, twin->key.data);
	if (r < 0 || !*head->sha256 || strcmp(sha256, head->sha256) == 0)
		return r;
	log_error("s3://%s/%.*s is not what was put there: its SHA-256 is another one",
		  twin->bucket->name, (int)twin->key.size, twin->key.data);
	return -EIO;
}

int backup_get(const struct bucket *bucket, struct copy *copy)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD" };
	_cleanup_(freep) char *name = NULL;
	char *folder = NULL, *file = NULL;
	int r = find_backup(bucket, &head, &name);
	struct twin twin = { .bucket = bucket, .key = head.key, .size = head.size };

	if (r == 0)
		r = make_file(&folder, &file);
	if (r == 0)
		r = get_file(&twin, &head, file);
	copy->from = file;
	if (r == 0)
		r = copy_run(copy);
	copy->from = bucket->url;
	drop_file(folder, file);
	return r;
}
