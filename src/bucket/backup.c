/* SPDX-License-Identifier: MIT */
#include "src/bucket/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
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
	THREADS = 4,
};

static const char stamp_glob[] = "-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T"
				 "[0-9][0-9][0-9][0-9][0-9][0-9]Z.db";

/* ---- Parts, several at a time ---- */

struct transfer_parts {
	const struct bucket *bucket;
	struct bytes key;
	int fd; /* of the copy here */
	uint64_t size, part;
	const char *upload; /* NULL: a download, of the version with: */
	const char *etag;
	char (*etags)[S3_ETAG]; /* of an upload's parts */
	pthread_mutex_t lock;
	uint64_t next, done; /* bytes */
	unsigned running;
	int error;
};

static int part_up(struct transfer_parts *parts, uint64_t at, size_t size)
{
	const uint64_t number = at / parts->part;
	_cleanup_(freep) char *query = str_printf("partNumber=%llu&uploadId=%s",
						  (unsigned long long)number + 1, parts->upload);
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, parts->fd, (off_t)at);
	_cleanup_(s3_request_done) struct s3_request request = {
		.method = "PUT", .key = parts->key, .query = query, .body = { map, size }
	};
	int r = map == MAP_FAILED ? -errno :
		query		  ? bucket_perform(parts->bucket, &request) :
				    -ENOMEM;

	if (map != MAP_FAILED)
		munmap(map, size);
	snprintf(parts->etags[number], S3_ETAG, "%s", request.etag);
	return r;
}

static int part_down(struct transfer_parts *parts, uint64_t at, size_t size)
{
	_cleanup_(s3_request_done) struct s3_request request = { 0 };
	int r = bucket_range(parts->bucket, parts->key, parts->etag, at, &request);

	if (r < 0)
		return say_why(request.why, r);
	if (request.data.size != size)
		return say_why("the server has answered with another part than was asked for",
			       -EIO);
	return pwrite(parts->fd, request.data.data, size, (off_t)at) == (ssize_t)size ?
		       0 :
		       say_why(NULL, errno ? -errno : -EIO);
}

static void *work(void *arg)
{
	struct transfer_parts *parts = arg;
	int r = 0;

	pthread_mutex_lock(&parts->lock);
	while (!parts->error && parts->next < parts->size) {
		const uint64_t at = parts->next;
		const size_t size = (size_t)MIN(parts->part, parts->size - at);

		parts->next += size;
		pthread_mutex_unlock(&parts->lock);
		r = parts->upload ? part_up(parts, at, size) : part_down(parts, at, size);
		pthread_mutex_lock(&parts->lock);
		parts->done += size;
		if (r < 0)
			parts->error = r;
	}
	parts->running--;
	pthread_mutex_unlock(&parts->lock);
	return NULL;
}

static int run_parts(struct transfer_parts *parts, const char *what)
{
	const struct timespec step = { .tv_nsec = 20000000 };
	_cleanup_(progress_end) struct progress progress = { 0 };
	pthread_t threads[THREADS];
	unsigned started = 0, running = 1;

	pthread_mutex_init(&parts->lock, NULL);
	progress_begin(&progress, what, NULL);
	progress_set_total(&progress, 0, parts->size);
	parts->running = THREADS;
	while (started < THREADS && pthread_create(&threads[started], NULL, work, parts) == 0)
		started++;
	for (; started && running; nanosleep(&step, NULL)) {
		pthread_mutex_lock(&parts->lock);
		running = parts->running - (THREADS - started);
		progress_add(&progress, 0, parts->done - progress.bytes);
		pthread_mutex_unlock(&parts->lock);
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&parts->lock);
	return started ? parts->error : say_why(NULL, -EAGAIN);
}

/* ---- Up ---- */

static int hash_file(const struct bucket *bucket, int fd, uint64_t size, char sha256[S3_HASH])
{
	_cleanup_(freep) char *block = malloc(BUCKET_RANGE);
	void *digest = bucket->ops->digest_add(NULL, BYTES(""), NULL);
	ssize_t got = 1;

	for (uint64_t at = 0; block && got > 0 && at < size; at += (uint64_t)got) {
		got = stop_wanted() ? -1 : pread(fd, block, BUCKET_RANGE, (off_t)at);
		if (got > 0)
			bucket->ops->digest_add(digest, bytes_make(block, (size_t)got), NULL);
	}
	bucket->ops->digest_add(digest, BYTES(""), sha256);
	return stop_wanted() ? -EINTR : !block ? -ENOMEM : got > 0 && *sha256 ? 0 : -EIO;
}

/* The text of an element that is there once, appended with a NUL. */
static int element(struct bytes xml, const char *begin, const char *end, struct buf *text)
{
	const char *from = xml.size ? memmem(xml.data, xml.size, begin, strlen(begin)) : NULL;
	const char *to;

	from = from ? from + strlen(begin) : NULL;
	to = from ? memmem(from, xml.size - (size_t)(from - xml.data), end, strlen(end)) : NULL;
	return to ? buf_printf(text, "%.*s", (int)(to - from), from) : -EIO;
}

static int complete(struct transfer_parts *parts, const char *query, const char *condition)
{
	_cleanup_(buf_done) struct buf list = { 0 };
	_cleanup_(s3_request_done) struct s3_request request = {
		.method = "POST", .key = parts->key, .query = query, .headers = { condition }
	};
	int r = buf_printf(&list, "<CompleteMultipartUpload>");

	for (uint64_t i = 0; r == 0 && i * parts->part < parts->size; i++)
		r = buf_printf(&list,
			       "<Part><PartNumber>%llu</PartNumber><ETag>\"%s\"</ETag></Part>",
			       (unsigned long long)i + 1, parts->etags[i]);
	if (r == 0)
		r = buf_append_str(&list, "</CompleteMultipartUpload>");
	request.body = buf_bytes(&list);
	return r < 0 ? r : bucket_perform(parts->bucket, &request);
}

static int put_parts(struct transfer_parts *parts, const char *sum, const char *condition)
{
	_cleanup_(s3_request_done) struct s3_request begin = {
		.method = "POST", .key = parts->key, .query = "uploads=", .headers = { sum }
	};
	_cleanup_(s3_request_done) struct s3_request abort = { .method = "DELETE",
							       .key = parts->key,
							       .anyway = true };
	_cleanup_(buf_done) struct buf id = { 0 }, query = { 0 };
	int r = bucket_perform(parts->bucket, &begin);

	if (r < 0)
		return r;
	r = element(buf_bytes(&begin.data), "<UploadId>", "</UploadId>", &id);
	if (r == 0)
		r = parts->bucket->ops->encode(buf_bytes(&id), &query);
	parts->etags = calloc(PARTS_MAX + 1, sizeof(*parts->etags));
	parts->part = MAX((uint64_t)PART, (parts->size / PARTS_MAX + PART) / PART * PART);
	if (r < 0 || !parts->etags)
		return say_why("the server begins no multipart upload", r < 0 ? r : -ENOMEM);
	parts->upload = query.data;
	r = run_parts(parts, "upload");
	abort.query = str_printf("uploadId=%s", query.data);
	if (r == 0)
		r = abort.query ? complete(parts, abort.query, condition) : -ENOMEM;
	if (r < 0 && abort.query)
		parts->bucket->ops->perform(parts->bucket->s3, &abort);
	free((char *)abort.query);
	free(parts->etags);
	return r;
}

static int put_single(struct transfer_parts *parts, const char *sum, const char *condition)
{
	void *map = mmap(NULL, parts->size, PROT_READ, MAP_SHARED, parts->fd, 0);
	_cleanup_(s3_request_done) struct s3_request request = { .method = "PUT",
								 .key = parts->key,
								 .headers = { sum, condition },
								 .body = { map, parts->size } };
	int r = map == MAP_FAILED ? say_why(NULL, -errno) : bucket_perform(parts->bucket, &request);

	if (map != MAP_FAILED)
		munmap(map, parts->size);
	return r;
}

/* Read it all, and compare. */
static int check(const struct bucket *bucket, struct bytes key, uint64_t size, const char *sha256)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD", .key = key };
	_cleanup_(s3_request_done) struct s3_request drop = { .method = "DELETE", .key = key };
	void *digest = bucket->ops->digest_add(NULL, BYTES(""), NULL);
	char there[S3_HASH] = "";
	int r = bucket_perform(bucket, &head);

	for (uint64_t at = 0; r == 0 && at < head.size; at += BUCKET_RANGE) {
		_cleanup_(s3_request_done) struct s3_request request = { 0 };

		r = bucket_range(bucket, key, head.etag, at, &request);
		if (r < 0)
			say_why(request.why, r);
		bucket->ops->digest_add(digest, buf_bytes(&request.data), NULL);
	}
	bucket->ops->digest_add(digest, BYTES(""), there);
	if (r < 0 || (head.size == size && strcmp(there, sha256) == 0))
		return r;
	bucket->ops->perform(bucket->s3, &drop);
	log_error("s3://%s/%.*s has other bytes than were sent, so it was deleted", bucket->name,
		  (int)key.size, key.data);
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

static int put_file(const struct bucket *bucket, int fd, struct bytes key, bool replace)
{
	struct transfer_parts parts = { .bucket = bucket, .key = key, .fd = fd };
	const char *condition = replace ? NULL : "If-None-Match: *";
	_cleanup_(freep) char *sum = NULL;
	char sha256[S3_HASH];
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;

	parts.size = (uint64_t)st.st_size;
	if (r == 0)
		r = hash_file(bucket, fd, parts.size, sha256);
	sum = r == 0 ? str_printf("x-amz-meta-sha256: %s", sha256) : NULL;
	if (!sum)
		return say_why(NULL, r < 0 ? r : -ENOMEM);
	r = parts.size > SINGLE_MAX ? put_parts(&parts, sum, condition) :
				      put_single(&parts, sum, condition);
	return r < 0 ? r : check(bucket, key, parts.size, sha256);
}

int backup_put(const struct bucket *bucket, struct copy *copy, uint64_t keep)
{
	const time_t now = time(NULL);
	_cleanup_(freep) char *name = NULL;
	_cleanup_(closep) int fd = -1;
	char stamp[32] = "", *folder = NULL, *file = NULL;
	struct s3_request head = { .method = "HEAD" };
	struct tm tm;
	int r = judge_name(bucket);

	if (keep)
		strftime(stamp, sizeof(stamp), "-%Y%m%dT%H%M%SZ.db", gmtime_r(&now, &tm));
	name = str_printf("%s%s", bucket->prefix, stamp);
	if (r < 0 || !name)
		return r < 0 ? r : -ENOMEM;
	head.key = bytes_str(name);
	if (!copy->replace) {
		r = bucket->ops->perform(bucket->s3, &head);
		if (r == 0)
			log_error("s3://%s/%s exists already; --force replaces it", bucket->name,
				  name);
		else if (r != -ENOENT)
			say_why(head.why, r);
		s3_request_done(&head);
		if (r != -ENOENT)
			return r ? r : -EEXIST;
		try_conditions(bucket, bytes_str(name));
	}
	r = make_folder(&folder, &file);
	copy->to = file;
	if (r == 0)
		r = copy_run(copy);
	if (r == 0)
		fd = open(file, O_RDONLY | O_CLOEXEC);
	drop_folder(folder, file);
	copy->to = bucket->url;
	if (r == 0)
		r = fd < 0 ? say_why(NULL, -EIO) :
			     put_file(bucket, fd, bytes_str(name), copy->replace);
	return r == 0 && keep ? drop_older(bucket, keep) : r;
}

static int find_backup(const struct bucket *bucket, struct s3_request *head, char **ret_name)
{
	_cleanup_(backups_done) struct backups backups = { 0 };
	int r = judge_name(bucket);

	if (r < 0)
		return r;
	*ret_name = strdup(bucket->prefix);
	head->key = bytes_str(*ret_name ? *ret_name : "");
	r = *ret_name ? bucket->ops->perform(bucket->s3, head) : -ENOMEM;
	if (r == -ENOENT) {
		r = backups_list(bucket, &backups);
		if (r == 0 && !backups.count) {
			log_error("there is no backup %s", bucket->url);
			return -ENOENT;
		}
		free(*ret_name);
		*ret_name = r == 0 ? strdup(backups.keys[backups.count - 1]) : NULL;
		head->key = bytes_str(*ret_name ? *ret_name : "");
		return r < 0 ? r : *ret_name ? bucket_perform(bucket, head) : -ENOMEM;
	}
	return r < 0 ? say_why(head->why, r) : 0;
}

int backup_get(const struct bucket *bucket, struct copy *copy)
{
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD" };
	_cleanup_(freep) char *name = NULL;
	_cleanup_(closep) int fd = -1;
	char sha256[S3_HASH] = "", *folder = NULL, *file = NULL;
	int r = find_backup(bucket, &head, &name);
	struct transfer_parts parts = { .bucket = bucket,
					.key = head.key,
					.size = head.size,
					.part = BUCKET_RANGE,
					.etag = head.etag };

	if (r == 0)
		r = make_folder(&folder, &file);
	if (r == 0) {
		parts.fd = fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		r = fd < 0 ? say_why(NULL, -errno) : run_parts(&parts, "download");
	}
	if (r == 0)
		r = hash_file(bucket, fd, head.size, sha256);
	if (r == 0 && !*head.sha256)
		log_warning("s3://%s/%s has no SHA-256 beside it, so it is only checked as a store",
			    bucket->name, name);
	else if (r == 0 && strcmp(sha256, head.sha256) != 0) {
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
