/* SPDX-License-Identifier: MIT */
/*
 * Replacing a file is one transaction, however long the input takes.  A save by O_TRUNC is not one:
 * a list that was empty is streamed, and when we are killed, the daemon cannot know that it has
 * only a half.  So the bytes go into an ordinary file of their own, which then takes the name, as
 * careful programs save everywhere.  That is one transaction, and rows that stay the same keep
 * their times.
 *
 * In a tree the file has no name until then.  The kernel needs one: the file lies beside the other
 * one, and the process that writes it holds its lock until it is renamed.  After a signal we remove
 * it, and the directories that were made for it.  kill -9 leaves these, and the previous content as
 * it is; the next process that writes in the directory removes a file that is not locked.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/dates.h"
#include "src/store/way.h"
#include "backend/base/moment.h"
#include "src/user/stop.h"

int access_make_parents(struct access *access, const char *path, size_t *made)
{
	const struct access_new what = { .mode = S_IFDIR | 0777 };
	int r = 0;

	for (const char *slash = strchr(path, '/'); r == 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		_cleanup_(freep) char *dir = bytes_dup(bytes_make(path, (size_t)(slash - path)));
		_cleanup_(access_target_done) struct access_target target = { 0 };
		struct stat st;

		r = dir ? access_target_find(access, dir, &target) : -ENOMEM;
		if (r == 0)
			r = access_target_stat(&target, &st);
		if (r != -ENOENT)
			continue;
		r = access->way->make(&target.place, &what);
		*made += r == 0;
		r = r == -EEXIST ? 0 : r;
	}
	return r;
}

/* Remove the directories again, as long as they are empty. */
static void unmake_parents(struct access *access, const char *path, size_t made)
{
	_cleanup_(freep) char *dir = bytes_dup(bytes_str(path));

	for (; dir && made; made--) {
		char *slash = strrchr(dir, '/');

		*slash = '\0';
		if (access_remove_one(access, dir, true) < 0)
			return;
	}
}

/* If we are killed, the close publishes the bytes that are there by then.  A compaction that begins
 * with a blank line is refused, so the first byte is written last. */
static int open_compacting(struct access_target *target, struct access_file *file)
{
	const struct access_way *way = target->access->way;
	int r = way->open(&target->place, O_WRONLY, 0, file);
	ssize_t done;

	if (r < 0)
		return r;
	file->compacts = true;
	done = way->write(file, BYTES("\n"));
	if (done == 1)
		return 0;
	way->drop(file);
	return done < 0 ? (int)done : -EIO;
}

static int open_target(struct access_target *target, enum access_how how, struct access_file *file)
{
	const struct access_way *way = target->access->way;
	struct stat st;
	int r = access_target_stat(target, &st);
	bool exists = r == 0;

	if (exists)
		r = S_ISREG(st.st_mode) ? 0 :
		    S_ISDIR(st.st_mode) ? -EISDIR :
		    S_ISLNK(st.st_mode) ? -ELOOP :
					  -EOPNOTSUPP;
	else if (r == -ENOENT && how != ACCESS_FILE_READ && how != ACCESS_FILE_COMPACT)
		r = target->is_dir ? -EISDIR : 0;
	if (r < 0)
		return r;
	if (how == ACCESS_FILE_READ)
		return way->open(&target->place, O_RDONLY, 0, file);
	if (how == ACCESS_FILE_COMPACT)
		return exists ? open_compacting(target, file) : -ENOENT;
	if (how == ACCESS_FILE_APPEND)
		return way->open(&target->place, O_WRONLY | O_APPEND | O_CREAT, 0666, file);
	if (exists)
		access_file_dress(file, &st, ACCESS_SET_MODE | ACCESS_SET_OWNER);
	/* An existing file's mode is set when all bytes are there; until then the file is private.
	 */
	file->path = steal_ptr(target->path); /* the place's name points into it */
	r = way->begin(&target->place, exists ? 0600 : 0666, file);
	if (r < 0)
		target->path = steal_ptr(file->path);
	return r;
}

static bool is_beside(const struct access_file *file)
{
	const struct access *access = file->access;
	const char *slash = strrchr(file->path, '/');
	const size_t above = *access->below ? strlen(access->below) + 1 : 0;
	const size_t size = slash ? (size_t)(slash + 1 - file->path) : 0;
	_cleanup_(freep) char *path = NULL;
	struct stat st;

	if (size < above)
		return false;
	path = str_printf("%.*s%s", (int)(size - above), file->path + above, file->temporary);
	return !path || access_stat(access->beside, path, &st) != -ENOENT;
}

void access_beside(struct access *access, struct access *from, const char *path)
{
	access->beside = from;
	access->below = path;
	access->is_beside = is_beside;
}

static void file_free(struct access_file *file)
{
	free(file->path);
	free(file->temporary);
	free(file);
}

int access_file_open(struct access *access, const char *path, enum access_how how,
		     struct access_file **ret_file)
{
	_cleanup_(access_target_done) struct access_target target = { 0 };
	struct access_file *file = calloc(1, sizeof(*file));
	int r = file ? access_target_name(access, path, &target) : -ENOMEM;

	if (r < 0)
		goto fail;
	file->access = access;
	file->fd = -1;
	if (!*target.path)
		r = -EISDIR;
	if (r == 0)
		r = access_target_place(&target);
	if (r == -ENOENT && how != ACCESS_FILE_READ && how != ACCESS_FILE_COMPACT) {
		r = access_make_parents(access, target.path, &file->made);
		if (r == 0)
			r = access_target_place(&target);
	}
	if (r == 0)
		r = open_target(&target, how, file);
	if (r == 0) {
		*ret_file = file;
		return 0;
	}
	unmake_parents(access, target.path, file->made);
fail:
	if (file)
		file_free(file);
	return r;
}

void access_file_sync_later(struct access_file *file)
{
	file->later = true;
}

void access_file_dress(struct access_file *file, const struct stat *like, unsigned mask)
{
	if (mask & ACCESS_SET_MODE)
		file->like.st_mode = like->st_mode;
	if (mask & ACCESS_SET_OWNER) {
		file->like.st_uid = like->st_uid;
		file->like.st_gid = like->st_gid;
	}
	if (mask & ACCESS_SET_TIMES) {
		file->like.st_atim = like->st_atim;
		file->like.st_mtim = like->st_mtim;
	}
	file->set |= mask;
}

/* For calls about attributes. */
static struct access_place opened(struct access_file *file)
{
	return (struct access_place){
		.access = file->access, .name = "", .fd = file->fd, .file = file
	};
}

static int mark(struct access_file *file, const char *name, const struct bytes *value)
{
	const struct access_place place = opened(file);

	return file->access->way->set_xattr(&place, name, value);
}

int access_file_date(struct access_file *file, const struct timespec *other)
{
	const int64_t time = time_join(*other);
	struct bytes value;
	char text[24];

	if (time <= 0) /* without a time: the clock is better */
		return 0;
	snprintf(text, sizeof(text), "%" PRId64, time);
	file->dated = true;
	value = bytes_str(text);
	return mark(file, DATES_ATTRIBUTE, &value);
}

/* Other programs may go on writing to a file that was appended to: take the mark off.  A file that
 * replaces another one keeps it until it has done so. */
static void undate(struct access_file *file)
{
	if (file->dated && !file->path)
		mark(file, DATES_ATTRIBUTE, NULL);
}

int access_file_read(struct access_file *file, size_t size, struct buf *data)
{
	ssize_t done;
	int r = buf_reserve(data, size);

	if (r < 0)
		return r;
	do
		done = file->access->way->read(file, data->data + data->size, size);
	while (done == -EINTR && !stop_wanted());
	if (done < 0)
		return (int)done;
	data->size += (size_t)done;
	file->offset += (uint64_t)done;
	return 0;
}

int access_file_fill(struct access_file *file, size_t size, struct buf *data)
{
	enum { BLOCK = 256 * 1024 };
	size_t before;
	int r;

	do {
		before = data->size;
		r = stop_wanted() ? -EINTR :
				    access_file_read(file, MIN(size - before, (size_t)BLOCK), data);
	} while (r == 0 && data->size > before && data->size < size);
	return r;
}

int access_file_next(struct access_file *file, struct buf *data)
{
	enum {
		BLOCK = 64 * 1024,
		WAIT = 250, /* milliseconds between two checks that the output still has a reader */
	};
	int r = file->access->way->next(file, BLOCK, WAIT, data);

	return r == -EINTR && !stop_wanted() ? 0 : r;
}

void access_file_seek(struct access_file *file, uint64_t offset)
{
	file->offset = offset;
}

off_t access_file_extent(struct access_file *file, uint64_t offset, int whence)
{
	off_t found = file->fd < 0 ? -1 : lseek(file->fd, (off_t)offset, whence);

	return found < 0 ? -ENXIO : found;
}

int access_file_set_xattr(struct access_file *file, const char *name, struct bytes value)
{
	return mark(file, name, &value);
}

void access_file_skip(struct access_file *file, uint64_t size)
{
	file->offset += size;
	file->hole = true;
}

int access_file_write(struct access_file *file, struct bytes data)
{
	if (file->compacts && !file->offset && data.size) {
		file->first = *data.data;
		file->offset = 1;
		data = bytes_make(data.data + 1, data.size - 1);
	}
	while (data.size) {
		ssize_t done = file->access->way->write(file, data);

		if (done == -EINTR && !stop_wanted())
			continue;
		if (done <= 0)
			return done < 0 ? (int)done : -EIO;
		file->hole = false;
		file->offset += (uint64_t)done;
		data = bytes_make(data.data + done, data.size - (size_t)done);
	}
	return 0;
}

/* Let the new file take its place, or drop it; close it in both cases. */
static int end_replacing(struct access_file *file, bool takes_place)
{
	const struct access_way *way = file->access->way;
	_cleanup_(access_target_done) struct access_target target = { 0 };
	int r = access_target_find(file->access, file->path, &target);

	if (r == 0 && takes_place)
		r = way->take_place(file, &target.place);
	if (file->temporary && target.dir && (!takes_place || r < 0)) {
		struct access_place temporary = target.place;

		temporary.name = file->temporary;
		way->remove(&temporary, false);
	}
	way->drop(file);
	return r;
}

int access_file_save(struct access_file *file)
{
	const struct access_way *way = file->access->way;
	const struct access_place place = opened(file);
	int r = file->hole ? way->resize(file, file->offset) : 0;
	int error;

	if (r == 0 && file->set)
		r = way->set_attr(&place, &file->like, file->set);
	undate(file);
	error = file->path ? way->settle(file, !file->later) : way->finish(file, !file->later);
	r = r < 0 ? r : error;
	if (r == 0 && file->path && stop_wanted())
		r = -EINTR;
	if (file->path) {
		error = end_replacing(file, r == 0);
		r = r < 0 ? r : error;
		if (r < 0)
			unmake_parents(file->access, file->path, file->made);
	}
	file_free(file);
	return r;
}

int access_file_compact(struct access_file *file, struct buf *version)
{
	const struct access_way *way = file->access->way;
	const struct access_place place = opened(file);
	uint64_t size = file->offset;
	int r = stop_wanted() ? -EINTR : way->resize(file, size);
	ssize_t done;

	file->offset = 0;
	if (r == 0 && size) {
		done = way->write(file, bytes_make(&file->first, 1));
		r = done == 1 ? 0 : done < 0 ? (int)done : -EIO;
	}
	if (r == 0)
		r = way->settle(file, true);
	if (r == 0)
		r = way->get_xattr(&place, "user.sessfs.version", version);
	way->drop(file);
	file_free(file);
	return r;
}

void access_file_drop(struct access_file *file)
{
	if (!file)
		return;
	undate(file);
	if (!file->path) {
		file->access->way->drop(file);
	} else {
		end_replacing(file, false);
		unmake_parents(file->access, file->path, file->made);
	}
	file_free(file);
}
