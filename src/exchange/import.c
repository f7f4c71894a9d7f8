/* SPDX-License-Identifier: MIT */
/*
 * What happens to a file.
 *
 * It is there with the same size and the same time: it counts as the same, as rsync has it, and its
 * bytes are not read (unless import->checksum).  So a second run, or one after an interruption, is
 * as quick as the names can be looked up.
 *
 * Otherwise the bytes are compared up to the first difference.  A list that has grown gets what is
 * new: in one append, which is one transaction, when that is not much.  All else is replaced: the
 * bytes go into a file beside it, with all the attributes, which is then renamed over it
 * (src/store/file.c).  That is one transaction, too, and changes only those rows that differ.  So
 * nothing is ever half there, however this process ends, and what has been done is skipped by the
 * next run.
 *
 * Attributes are compared in any case.  Nothing is synced before the end: what power loss takes
 * away is taken in again by the next run.
 */
#include "src/exchange/import.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/base/names.h"
#include "src/store/way.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/exchange/import-attr.h"
#include "src/user/stop.h"
#include "src/store/store.h"

enum {
	BLOCK = 256 * 1024,
	APPEND_MAX = 1 << 20, /* bytes that one write brings through a mount */
};

bool import_is_fatal(int error)
{
	static const int fatal[] = { -EINTR, -ENOSPC, -EDQUOT, -EROFS, -EIO, -ENOTCONN, -ENOMEM };

	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
		if (fatal[i] == error)
			return true;
	return false;
}

int import_fail(struct import *import, const char *path, int error)
{
	store_say(import->store, path, error);
	import->failed += error != -EINTR; /* it is taken in by the next run */
	return import_is_fatal(error) ? error : 0;
}

int import_refuse(struct import *import, const char *format, ...)
{
	_cleanup_(freep) char *sentence = NULL;
	va_list args;
	int size;

	va_start(args, format);
	size = vasprintf(&sentence, format, args);
	va_end(args);
	if (size < 0) {
		sentence = NULL;
		return -ENOMEM;
	}
	log_error("%s", sentence);
	import->failed++;
	return 0;
}

static int fail_file(struct import *import, const struct import_file *file, int error)
{
	if (!file->broken || (error == -EINTR && stop_wanted()))
		return import_fail(import, file->path, error);
	return import_refuse(import, "cannot read %s: %s", file->name, strerror(-error));
}

static void tell(struct import *import, const char *path, enum import_did did)
{
	static const char *const words[] = { "unchanged", "create", "replace", "append",
					     "attributes" };
	WITH_PROGRESS_HELD;

	if (!import->list.json) {
		printf("%-10s  ", words[did]);
		say_name(path, "\n");
		return;
	}
	say_item(&import->list, json_pack("{ss so}", "action", words[did], "path",
					  say_json_name(path, strlen(path))));
}

/* What was done, or would be. */
static void done(struct import *import, const char *path, enum import_did did)
{
	import->did[did]++;
	if (import->dry)
		tell(import, path, did);
}

static int settle_and_count(struct import *import, const struct import_file *file,
			    enum import_did did, const struct stat *there)
{
	int r = import->dry && did != IMPORT_UNCHANGED ? 0 : import_settle(import, file, there);

	if (r < 0)
		return r;
	done(import, file->path, r && did == IMPORT_UNCHANGED ? IMPORT_DRESSED : did);
	return 0;
}

/* Regular files */

/* At most size bytes at an offset, put into an empty buffer. */
static int read_source(struct import_file *file, uint64_t offset, size_t size, struct buf *block)
{
	ssize_t read;
	int r = buf_reserve(block, size);

	if (r < 0)
		return r;
	if (file->fd < 0) {
		size_t start = MIN(offset, file->data.size);
		size_t rest = MIN(size, file->data.size - start);

		return buf_append(block, file->data.data + start, rest);
	}
	while (block->size < size) {
		read = stop_wanted() ? 0 :
				       pread(file->fd, block->data + block->size,
					     size - block->size, (off_t)(offset + block->size));
		if (stop_wanted())
			return -EINTR;
		if (read < 0 && errno != EINTR) {
			file->broken = true;
			return -errno;
		}
		if (read == 0)
			break;
		block->size += (size_t)MAX(read, 0);
	}
	return 0;
}

static int read_there(struct access_file *there, size_t size, struct buf *block)
{
	size_t before;
	int r;

	do {
		before = block->size;
		r = stop_wanted() ? -EINTR : access_file_read(there, size - before, block);
	} while (r == 0 && block->size > before && block->size < size);
	return r;
}

struct plan {
	enum import_did did;
	uint64_t from; /* what is to be appended begins there */
	struct stat there;
};

static size_t common(const struct buf *a, const struct buf *b)
{
	const size_t size = MIN(a->size, b->size);
	size_t same = 0;

	if (size && memcmp(a->data, b->data, size) == 0)
		return size;
	while (same < size && a->data[same] == b->data[same])
		same++;
	return same;
}

/* How long the two are the same, and which of them ends there. */
struct comparison {
	uint64_t same;
	char last; /* byte before the end */
	bool source_ends, there_ends;
};

static int compare(struct import *import, struct import_file *file, struct comparison *comparison)
{
	_cleanup_(access_file_dropp) struct access_file *there = NULL;
	_cleanup_(buf_done) struct buf ours = { 0 }, theirs = { 0 };
	size_t same;
	int r = access_file_open(import->access, file->path, ACCESS_FILE_READ, &there);

	do {
		buf_clear(&ours);
		buf_clear(&theirs);
		if (r == 0)
			r = read_source(file, comparison->same, BLOCK, &ours);
		if (r == 0)
			r = read_there(there, BLOCK, &theirs);
		if (r < 0)
			return r;
		same = common(&ours, &theirs);
		comparison->same += same;
		if (same)
			comparison->last = ours.data[same - 1];
		comparison->source_ends = same == ours.size && ours.size < BLOCK;
		comparison->there_ends = same == theirs.size && theirs.size < BLOCK;
	} while (same == BLOCK);
	return 0;
}

/* What a name in the store is: a state's, or ordinary. */
static uint32_t kind_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? names_split(bytes_str(slash + 1)).kind : BACKEND_ORDINARY;
}

static int plan_file(struct import *import, struct import_file *file, struct plan *plan)
{
	struct comparison comparison = { 0 };
	struct stat *there = &plan->there;
	int r = import_stat(import, file->path, there);

	plan->did = r == -ENOENT ? IMPORT_CREATED : IMPORT_REPLACED;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (S_ISDIR(there->st_mode))
		return -EISDIR;
	if (!S_ISREG(there->st_mode))
		return 0;
	if (there->st_size == file->st.st_size && (file->set & ACCESS_SET_TIMES) &&
	    import_same_time(&there->st_mtim, &file->st.st_mtim) && !import->checksum) {
		plan->did = IMPORT_UNCHANGED;
		return 0;
	}
	r = compare(import, file, &comparison);
	if (r == 0 && comparison.there_ends && comparison.source_ends)
		plan->did = IMPORT_UNCHANGED;
	else if (r == 0 && comparison.there_ends && comparison.same && comparison.last == '\n' &&
		 kind_of(file->path) == BACKEND_LIST)
		*plan = (struct plan){ IMPORT_APPENDED, comparison.same, *there };
	return r;
}

/* So many zeros at an offset are a hole; a filesystem that knows none has none. */
static uint64_t hole_size(const struct import_file *file, uint64_t offset)
{
	const uint64_t size = (uint64_t)file->st.st_size;
	off_t data = file->fd < 0 || offset >= size ? (off_t)offset :
						      lseek(file->fd, (off_t)offset, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? size - offset : 0;
	return MIN((uint64_t)data, MAX(size, offset)) - offset;
}

/* Where a hole begins that is longer than any row can be, there is no newline in it. */
static bool is_never_rows(const struct import_file *file)
{
	off_t hole = 0;

	if (file->fd < 0 || kind_of(file->path) == BACKEND_ORDINARY)
		return false;
	if (kind_of(file->path) != BACKEND_LIST)
		return file->st.st_size > INT32_MAX;
	while (hole < file->st.st_size && (hole = lseek(file->fd, hole, SEEK_HOLE)) >= 0) {
		const uint64_t size = hole_size(file, (uint64_t)hole);

		if (size > INT32_MAX)
			return true;
		if (!size)
			break;
		hole += (off_t)size;
	}
	return false;
}

static int copy(struct import *import, struct import_file *file, uint64_t offset, size_t size,
		struct access_file *out)
{
	const bool sparse = kind_of(file->path) == BACKEND_ORDINARY;
	_cleanup_(buf_done) struct buf block = { 0 };
	int r;

	do {
		const uint64_t hole = sparse ? hole_size(file, offset) : 0;

		if (hole)
			access_file_skip(out, hole);
		offset += hole;
		progress_add(&import->progress, 0, hole);
		buf_clear(&block);
		r = read_source(file, offset, size, &block);
		if (r == 0)
			r = access_file_write(out, buf_bytes(&block));
		offset += block.size;
		import->bytes += block.size;
		progress_add(&import->progress, 0, block.size);
	} while (r == 0 && block.size == size);
	return r;
}

static int write_file(struct import *import, struct import_file *file, const struct plan *plan)
{
	const bool much = (uint64_t)file->st.st_size - plan->from > APPEND_MAX;
	const bool appends = plan->did == IMPORT_APPENDED && !much;
	struct access_file *out = NULL;
	int r = access_file_open(import->access, file->path,
				 appends ? ACCESS_FILE_APPEND : ACCESS_FILE_REPLACE, &out);

	if (r < 0)
		return r;
	access_file_sync_later(out);
	access_file_dress(out, &file->st, file->set);
	if (appends)
		progress_add(&import->progress, 0, plan->from);
	if (file->set & ACCESS_SET_TIMES && kind_of(file->path) != BACKEND_ORDINARY)
		r = access_file_date(out, &file->st.st_mtim);
	if (r == 0)
		r = copy(import, file, appends ? plan->from : 0, appends ? 2 * APPEND_MAX : BLOCK,
			 out);
	if (r == 0)
		return access_file_save(out);
	access_file_drop(out);
	return r;
}

/* What is no regular file gives way to one. */
static int clear_way(struct import *import, const struct import_file *file)
{
	struct stat there;
	int r = import_stat(import, file->path, &there);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return S_ISREG(there.st_mode) ? 0 : access_remove(import->access, file->path, false);
}

/* The store keeps such bytes beside its rows, and says so; this tells who has brought them. */
static int count_invalid(struct import *import, const struct import_file *file)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = access_get_xattr(import->access, file->path, "user.sessfs.invalid", &value);

	if (r < 0)
		return import_is_fatal(r) ? r : 0;
	return ++import->invalid > IMPORT_NAMED ?
		       0 :
		       buf_printf(&import->invalid_names, "%s%s", import->invalid > 1 ? ", " : "",
				  file->path);
}

int import_regular(struct import *import, struct import_file *file, bool *ret_taken)
{
	const uint64_t begun = import->progress.bytes;
	struct plan plan = { 0 };
	int r = is_never_rows(file) ? -EFBIG : plan_file(import, file, &plan);
	uint64_t passed;

	if (r == 0 && plan.did == IMPORT_REPLACED && !import->dry)
		r = clear_way(import, file);
	if (r == 0 && plan.did != IMPORT_UNCHANGED && !import->dry)
		r = write_file(import, file, &plan);
	if (r == 0 && plan.did != IMPORT_UNCHANGED && !import->dry &&
	    kind_of(file->path) != BACKEND_ORDINARY)
		r = count_invalid(import, file);
	if (r == 0)
		r = settle_and_count(import, file, plan.did,
				     plan.did == IMPORT_UNCHANGED ? &plan.there : NULL);
	passed = import->progress.bytes - begun;
	progress_add(&import->progress, 1,
		     (uint64_t)file->st.st_size > passed ? (uint64_t)file->st.st_size - passed : 0);
	if (ret_taken)
		*ret_taken = r == 0;
	return r < 0 ? fail_file(import, file, r) : 0;
}

/* Links and special files */

static int same_target(struct import *import, const char *path, const char *target)
{
	_cleanup_(buf_done) struct buf there = { 0 };
	int r = access_read_link(import->access, path, &there);

	return r < 0 ? r : bytes_equal(buf_bytes(&there), bytes_str(target));
}

/* 1: what is there is the same. */
static int is_there(struct import *import, const struct import_file *file, const char *target,
		    enum import_did *did)
{
	struct stat there;
	int r = import_stat(import, file->path, &there);

	*did = r == -ENOENT ? IMPORT_CREATED : IMPORT_REPLACED;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (S_ISDIR(there.st_mode))
		return -EISDIR;
	if ((there.st_mode ^ file->st.st_mode) & S_IFMT)
		return 0;
	return S_ISLNK(there.st_mode) ? same_target(import, file->path, target) : 1;
}

int import_special(struct import *import, struct import_file *file, const char *target)
{
	const struct access_new what = { .mode = file->st.st_mode, .target = target };
	enum import_did did;
	int r = is_there(import, file, target, &did);

	if (r > 0)
		did = IMPORT_UNCHANGED;
	else if (r == 0 && !import->dry)
		r = access_make(import->access, file->path, &what, true);
	if (r >= 0)
		r = settle_and_count(import, file, did, NULL);
	progress_add(&import->progress, 1, 0);
	return r < 0 ? fail_file(import, file, r) : 0;
}

int import_link(struct import *import, struct import_file *file, const char *first)
{
	struct stat one, other;
	enum import_did did;
	int r;

	if (kind_of(file->path) != BACKEND_ORDINARY || kind_of(first) != BACKEND_ORDINARY)
		return 1;
	r = import_stat(import, file->path, &other);
	did = r == -ENOENT ? IMPORT_CREATED : IMPORT_REPLACED;
	if (r == 0 && import_stat(import, first, &one) == 0 && one.st_ino == other.st_ino)
		did = IMPORT_UNCHANGED;
	else if (!import->dry)
		r = access_link(import->access, first, file->path, true);
	if (r == -EPERM)
		return 1;
	progress_add(&import->progress, 1, (uint64_t)file->st.st_size);
	if (r < 0 && !(r == -ENOENT && import->dry))
		return import_fail(import, file->path, r);
	done(import, file->path, did);
	return 0;
}

/* Directories */

int import_enter(struct import *import, struct import_file *dir)
{
	const struct access_new what = { .mode = dir->st.st_mode | 0700 };
	struct stat there;
	int r = import_stat(import, dir->path, &there);

	if (r == 0 && S_ISDIR(there.st_mode))
		return 0;
	if (r == 0) {
		r = import_refuse(import,
				  "%s: %s: a file has the name of this directory, which is skipped "
				  "with everything in it",
				  import->store, dir->path);
		return r < 0 ? r : 1;
	}
	if (r == -ENOENT)
		r = import->dry ? 0 : access_make(import->access, dir->path, &what, false);
	if (r == 0)
		return 0;
	r = import_fail(import, dir->path, r);
	return r < 0 ? r : 1;
}

int import_leave(struct import *import, struct import_file *dir)
{
	int r = import_settle(import, dir, NULL);

	return r < 0 ? fail_file(import, dir, r) : 0;
}

int import_parents(struct import *import, const char *path)
{
	size_t made = 0;

	return import->dry ? 0 : access_make_parents(import->access, path, &made);
}
