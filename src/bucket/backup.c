/* SPDX-License-Identifier: MIT */
#include "src/bucket/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/user/progress.h"
#include "src/user/say.h"
#include "src/user/stop.h"

enum {
	SINGLE_MAX = 64 << 20, /* bytes; what is larger is uploaded in parts */
	PART = 8 << 20,
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
	char sha256[S3_HASH];
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
	struct bytes part = { 0 };
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < twin->size; at += part.size) {
		r = stop_wanted() ? -EINTR : twin_map(twin, at, PART, &part);
		if (r < 0)
			break;
		ops->sha256(digest, part, NULL);
		munmap((void *)part.data, part.size);
	}
	ops->sha256(digest, BYTES(""), twin->sha256);
	return r < 0 || *twin->sha256 ? r : say_why("SHA-256 is not available", -EOPNOTSUPP);
}

/* All of the object, of one version, range by range. */
static int twin_read(struct twin *twin, const char *etag,
		     int (*take)(struct twin *twin, uint64_t at, struct bytes range))
{
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < twin->size; at += BUCKET_RANGE) {
		_cleanup_(s3_request_done) struct s3_request request = { 0 };

		r = bucket_range(twin->bucket, twin->key, etag, at, &request);
		if (r < 0)
			return say_why(request.why, r);
		if (request.data.size != MIN(BUCKET_RANGE, twin->size - at))
			return say_why("the server has answered with another range", -EIO);
		r = take(twin, at, buf_bytes(&request.data));
		progress_add(&twin->progress, 0, request.data.size);
	}
	return r;
}

/* ---- Up ---- */

/* The text of an element that is there once, with a NUL. */
static int find_element(struct bytes xml, const char *begin, const char *end, struct buf *text)
{
	const char *from = xml.size ? memmem(xml.data, xml.size, begin, strlen(begin)) : NULL;
	const char *to;

	from = from ? from + strlen(begin) : NULL;
	to = from ? memmem(from, xml.size - (size_t)(from - xml.data), end, strlen(end)) : NULL;
	return to ? buf_printf(text, "%.*s", (int)(to - from), from) : -EIO;
}

/* Sends a part, and adds it to the list of parts. */
static int put_part(struct twin *twin, const char *upload, uint64_t number, struct bytes part,
		    struct buf *list)
{
	_cleanup_(freep) char *query =
		str_printf("partNumber=%llu&%s", (unsigned long long)number, upload);
	_cleanup_(s3_request_done) struct s3_request request = {
		.method = "PUT", .key = twin->key, .query = query, .body = part
	};
	int r = query ? bucket_perform(twin->bucket, &request) : -ENOMEM;

	return r < 0 ? r :
		       buf_printf(list,
				  "<Part><PartNumber>%llu</PartNumber><ETag>\"%s\"</ETag></Part>",
				  (unsigned long long)number, request.etag);
}

static int put_parts(struct twin *twin, const char *upload, const char *condition)
{
	const uint64_t size = (twin->size / PARTS_MAX / PART + 1) * PART;
	_cleanup_(buf_done) struct buf list = { 0 };
	_cleanup_(s3_request_done) struct s3_request end = {
		.method = "POST", .key = twin->key, .query = upload, .headers = { condition }
	};
	struct bytes part = { 0 };
	int r = buf_append_str(&list, "<CompleteMultipartUpload>");

	for (uint64_t at = 0; r == 0 && at < twin->size; at += part.size) {
		r = twin_map(twin, at, size, &part);
		if (r < 0)
			return r;
		r = put_part(twin, upload, at / size + 1, part, &list);
		munmap((void *)part.data, part.size);
		progress_add(&twin->progress, 0, part.size);
	}
	if (r == 0)
		r = buf_append_str(&list, "</CompleteMultipartUpload>");
	end.body = buf_bytes(&list);
	return r < 0 ? r : bucket_perform(twin->bucket, &end);
}

static int put_large(struct twin *twin, const char *sum, const char *condition)
{
	const struct s3_ops *ops = twin->bucket->ops;
	_cleanup_(s3_request_done) struct s3_request begin = {
		.method = "POST", .key = twin->key, .query = "uploads=", .headers = { sum }
	};
	_cleanup_(s3_request_done) struct s3_request abort = { .method = "DELETE",
							       .key = twin->key,
							       .anyway = true };
	_cleanup_(buf_done) struct buf id = { 0 }, query = { 0 };
	int r = bucket_perform(twin->bucket, &begin);

	if (r < 0)
		return r;
	r = find_element(buf_bytes(&begin.data), "<UploadId>", "</UploadId>", &id);
	if (r == 0)
		r = buf_append_str(&query, "uploadId=");
	if (r == 0)
		r = ops->encode(buf_bytes(&id), &query);
	if (r < 0)
		return say_why("the server begins no multipart upload", r);
	r = put_parts(twin, query.data, condition);
	abort.query = query.data;
	if (r < 0)
		ops->perform(twin->bucket->s3, &abort);
	return r;
}

static int put_small(struct twin *twin, const char *sum, const char *condition)
{
	_cleanup_(s3_request_done) struct s3_request request = { .method = "PUT",
								 .key = twin->key,
								 .headers = { sum, condition } };
	int r = twin_map(twin, 0, SINGLE_MAX, &request.body);

	if (r < 0)
		return r;
	r = bucket_perform(twin->bucket, &request);
	munmap((void *)request.body.data, request.body.size);
	return r;
}

static int take_same(struct twin *twin, uint64_t at, struct bytes range)
{
	struct bytes part;
	int r = twin_map(twin, at, BUCKET_RANGE, &part);

	if (r < 0)
		return r;
	r = bytes_equal(part, range) ? 0 : -EBADMSG;
	munmap((void *)part.data, part.size);
	return r;
}

/* Read it all, and compare. */
static int check(struct twin *twin)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD", .key = twin->key };
	_cleanup_(s3_request_done) struct s3_request drop = { .method = "DELETE",
							      .key = twin->key };
	int r = bucket_perform(twin->bucket, &head);

	if (r == 0)
		r = head.size == twin->size ? twin_read(twin, head.etag, take_same) : -EBADMSG;
	if (r != -EBADMSG)
		return r;
	twin->bucket->ops->perform(twin->bucket->s3, &drop);
	log_error("s3://%s/%.*s has other bytes than were sent, so it was deleted",
		  twin->bucket->name, (int)twin->key.size, twin->key.data);
	return -EIO;
}

/* An object beside it tells whether the server keeps one writer from replacing what another has
 * just written. */
static void try_conditions(const struct bucket *bucket, struct bytes key)
{
	_cleanup_(freep) char *name = str_printf("%.*s.sessfs-try", (int)key.size, key.data);
	struct s3_request request = { 0 };
	int r = 0;

	for (int i = 0; name && i < 2 && r == 0; i++) {
		request = (struct s3_request){ .method = "PUT",
					       .key = bytes_str(name),
					       .headers = { "If-None-Match: *" } };
		r = bucket->ops->perform(bucket->s3, &request);
		s3_request_done(&request);
	}
	if (name && r == 0)
		log_notice(
			"%s takes no notice of If-None-Match, so a backup of the same name that is "
			"made at the same time could replace this one",
			bucket->ops->place(bucket->s3));
	request = (struct s3_request){ .method = "DELETE", .key = bytes_str(name ? name : "") };
	if (name)
		bucket->ops->perform(bucket->s3, &request);
	s3_request_done(&request);
}

/* ---- Names ---- */

struct backups {
	struct bytes name;
	char **keys; /* in their order, which is that of time */
	size_t count, room;
};

static int take_backup(void *arg, const struct s3_object *object)
{
	struct backups *backups = arg;
	_cleanup_(freep) char *key = bytes_dup(object->key);

	if (!key || ARRAY_ROOM(backups->keys, backups->count, backups->room) < 0)
		return -ENOMEM;
	if (bytes_starts_with(object->key, backups->name) &&
	    fnmatch(stamp_glob, key + backups->name.size, 0) == 0)
		backups->keys[backups->count++] = steal_ptr(key);
	return 0;
}

static void backups_done(struct backups *backups)
{
	while (backups->count)
		free(backups->keys[--backups->count]);
	free(backups->keys);
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int backups_list(const struct bucket *bucket, struct backups *backups)
{
	int r;

	backups->name = bytes_str(bucket->prefix);
	r = bucket_list(bucket, backups->name, 0, take_backup, backups);
	if (r == 0 && backups->count)
		qsort(backups->keys, backups->count, sizeof(*backups->keys), compare_keys);
	return r;
}

static int drop_older(const struct bucket *bucket, uint64_t keep)
{
	_cleanup_(backups_done) struct backups backups = { 0 };
	int r = backups_list(bucket, &backups);

	for (size_t i = 0; r == 0 && i + keep < backups.count; i++) {
		_cleanup_(s3_request_done) struct s3_request request = {
			.method = "DELETE", .key = bytes_str(backups.keys[i])
		};

		r = bucket_perform(bucket, &request);
	}
	return r;
}

static int judge_name(const struct bucket *bucket)
{
	if (*bucket->prefix && !bytes_ends_with(bytes_str(bucket->prefix), BYTES("/")))
		return 0;
	log_error("%s names no object; a backup is s3://BUCKET/NAME", bucket->url);
	return -EINVAL;
}

/* A folder that only we can enter. */
static int make_folder(char **ret_path, char **ret_file)
{
	const char *folder = getenv("TMPDIR");

	*ret_path = str_printf("%s/sessfs-XXXXXX", folder && *folder ? folder : "/var/tmp");
	if (!*ret_path || !mkdtemp(*ret_path))
		return say_why("cannot make a temporary folder; TMPDIR says where", -EIO);
	*ret_file = str_printf("%s/store.db", *ret_path);
	return *ret_file ? 0 : -ENOMEM;
}

static void drop_folder(char *path, char *file)
{
	if (file)
		unlink(file);
	if (path)
		rmdir(path);
	free(path);
	free(file);
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
	sum = r == 0 ? str_printf("x-amz-meta-sha256: %s", twin->sha256) : NULL;
	if (!sum)
		return r < 0 ? r : -ENOMEM;
	progress_begin(&twin->progress, "upload", NULL);
	progress_set_total(&twin->progress, 0, 2 * twin->size);
	r = twin->size > SINGLE_MAX ? put_large(twin, sum, condition) :
				      put_small(twin, sum, condition);
	if (r == 0)
		r = check(twin);
	progress_end(&twin->progress);
	return r;
}

/* The name must be free. */
static int judge_free(const struct bucket *bucket, const char *name)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD",
							      .key = bytes_str(name) };
	int r = bucket->ops->perform(bucket->s3, &head);

	if (r == 0)
		log_error("s3://%s/%s exists already; --force replaces it", bucket->name, name);
	return r == 0 ? -EEXIST : r == -ENOENT ? 0 : say_why(head.why, r);
}

int backup_put(const struct bucket *bucket, struct copy *copy, uint64_t keep)
{
	const time_t now = time(NULL);
	_cleanup_(freep) char *name = NULL;
	_cleanup_(closep) int fd = -1;
	char stamp[32] = "", *folder = NULL, *file = NULL;
	struct twin twin = { .bucket = bucket };
	struct tm tm;
	int r = judge_name(bucket);

	if (keep)
		strftime(stamp, sizeof(stamp), "-%Y%m%dT%H%M%SZ.db", gmtime_r(&now, &tm));
	name = str_printf("%s%s", bucket->prefix, stamp);
	if (r == 0 && !name)
		r = -ENOMEM;
	if (r == 0 && !copy->replace) {
		r = judge_free(bucket, name);
		if (r == 0)
			try_conditions(bucket, bytes_str(name));
	}
	if (r == 0)
		r = make_folder(&folder, &file);
	copy->to = file;
	if (r == 0)
		r = copy_run(copy);
	if (r == 0)
		twin.fd = fd = open(file, O_RDONLY | O_CLOEXEC);
	drop_folder(folder, file);
	copy->to = bucket->url;
	twin.key = bytes_str(name ? name : "");
	if (r == 0)
		r = fd < 0 ? say_why(NULL, -EIO) : put_file(&twin, copy->replace);
	return r == 0 && keep ? drop_older(bucket, keep) : r;
}

/* ---- Down ---- */

static int find_backup(const struct bucket *bucket, struct s3_request *head, char **ret_name)
{
	_cleanup_(backups_done) struct backups backups = { 0 };
	int r = judge_name(bucket);

	*ret_name = strdup(bucket->prefix);
	head->key = bytes_str(*ret_name ? *ret_name : "");
	if (r == 0)
		r = *ret_name ? bucket->ops->perform(bucket->s3, head) : -ENOMEM;
	if (r != -ENOENT)
		return r < 0 ? say_why(head->why, r) : 0;
	r = backups_list(bucket, &backups);
	if (r == 0 && !backups.count) {
		log_error("there is no backup %s", bucket->url);
		r = -ENOENT;
	}
	if (r < 0)
		return r;
	free(*ret_name);
	*ret_name = steal_ptr(backups.keys[backups.count - 1]);
	head->key = bytes_str(*ret_name);
	return bucket_perform(bucket, head);
}

static int take_down(struct twin *twin, uint64_t at, struct bytes range)
{
	errno = EIO;
	return pwrite(twin->fd, range.data, range.size, (off_t)at) == (ssize_t)range.size ?
		       0 :
		       say_why(NULL, -errno);
}

int backup_get(const struct bucket *bucket, struct copy *copy)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD" };
	_cleanup_(freep) char *name = NULL;
	_cleanup_(closep) int fd = -1;
	char *folder = NULL, *file = NULL;
	int r = find_backup(bucket, &head, &name);
	struct twin twin = { .bucket = bucket, .key = head.key, .size = head.size };

	if (r == 0)
		r = make_folder(&folder, &file);
	if (r == 0) {
		twin.fd = fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		progress_begin(&twin.progress, "download", NULL);
		progress_set_total(&twin.progress, 0, twin.size);
		r = fd < 0 ? say_why(NULL, -errno) : twin_read(&twin, head.etag, take_down);
		progress_end(&twin.progress);
	}
	if (r == 0)
		r = twin_hash(&twin);
	if (r == 0 && !*head.sha256)
		log_warning("s3://%s/%s has no SHA-256 beside it, so it is only checked as a store",
			    bucket->name, name);
	else if (r == 0 && strcmp(twin.sha256, head.sha256) != 0) {
		log_error("s3://%s/%s is not what was put there: its SHA-256 is another one",
			  bucket->name, name);
		r = -EIO;
	}
	copy->from = file;
	if (r == 0)
		r = copy_run(copy);
	copy->from = bucket->url;
	drop_folder(folder, file);
	return r;
}
