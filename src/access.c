/* SPDX-License-Identifier: MIT */
/*
 * How a verb reaches the files of a store.
 *
 *   A store has one writer: who owns it (backend/sqlite/file.c), which is the daemon that has it
 *   mounted for writing.  What the daemon holds back (a save that is not finished, a line without
 *   its end, the times of files) is nowhere else, and it has told the kernel what may be cached.  So
 *   beside a mount there is one right way to change a file: the mount.  The rule is the same for
 *   reading, since only the mount shows what everybody else sees at that moment:
 *
 *     a mount of the store is in reach    plain system calls below its mount point
 *     nobody owns the store               a tree in this process, as the daemon would have it; who
 *                                         writes owns the store meanwhile, so two verbs that write
 *                                         come one after the other, and a mount is refused and told
 *                                         by whom
 *     the owner's mount is out of reach   writing is refused, with a sentence that names the owner;
 *     (another mount namespace, another   reading is by a read-only tree.  It sees what is committed:
 *     user's without allow_other)         rows, pieces and drafts, but no unfinished line, and no
 *                                         write of the last second to an ordinary file
 *
 *   "In reach" is what /proc/self/mountinfo says and a few checks confirm (access-mount.c).
 *
 *   Reading owns nothing while it lasts, so that a long one keeps nobody from mounting.  But in a
 *   store that nobody has mounted others may have changed rows for which there are no files yet.
 *   These are taken in first, by a tree that owns the store for that moment.  That changes tables of
 *   ours alone, and happens only where a mount with -o ro would do it: never in another program's
 *   database that has none of our tables, and never where the store must not be written.
 *
 *   Both ways offer the same few operations (access-way.h); all that is made of them is here.
 *
 *   Replacing a file is to be one transaction, whatever it was before and however long the input
 *   takes.  A save by O_TRUNC is not: a list that was empty is streamed, and when we are killed, the
 *   daemon cannot know that what it has is a half.  So the bytes go into an ordinary file beside it,
 *   with a name that says whose it is, which then is renamed over it, as careful programs save
 *   everywhere.  The rename is one transaction; rows that stay the same keep their times.  A signal
 *   takes the temporary file away, and the directories that were made for it; kill -9 leaves them,
 *   and the previous content as it is.
 */
#include "src/access.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "src/access-way.h"
#include "src/base/cleanup.h"
#include "src/mounts.h"
#include "src/stop.h"
#include "src/trust.h"

enum {
	PATIENCE = 5000, /* milliseconds to wait for another verb to be done with the store */
	PATIENCE_STEP = 20,
	REMOVE_BATCH = 64,
	TEMPORARIES = 100, /* names to try */
};

static int refuse_memory(const char *store, char **ret_why)
{
	if (strcmp(store, "memory:") != 0)
		return 0;
	*ret_why = bytes_dup(BYTES("a store in memory is in its mount and nowhere else; use the "
				   "files there"));
	return -EINVAL;
}

static int store_path(const char *store, unsigned flags, char **ret_path, char **ret_why)
{
	int r = refuse_memory(store, ret_why);

	if (r < 0)
		return r;
	r = flags & ACCESS_WRITE ? trust_path(store, TRUST_STORE, ret_why) : 0;
	if (r < 0)
		return r;
	r = mounts_absolute(store, ret_path);
	if (r < 0 && asprintf(ret_why, "cannot reach the store %s: %s", store, strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

/* The verb before us may be about to end, or the daemon, or the mount may be about to answer. */
static int open_patiently(struct access *access, const char *path, unsigned flags,
			  const struct options *options, char **ret_why)
{
	const struct timespec step = { .tv_nsec = PATIENCE_STEP * 1000000L };
	_cleanup_(freep) char *unfit = NULL;
	int r;

	for (int waited = 0;; waited += PATIENCE_STEP) {
		freep(&unfit);
		freep(ret_why);
		*ret_why = unfit = NULL;
		r = access_mount_open(access, path, flags, &unfit);
		if (r == -ENOENT && !unfit)
			r = access_tree_open(access, path, flags, options, ret_why);
		if (r != -EBUSY || waited >= PATIENCE || stop_wanted())
			break;
		nanosleep(&step, NULL);
	}
	if (unfit)
		*ret_why = steal_ptr(unfit);
	return r;
}

/* To the sentence of the lower room what to do here. */
static void explain_busy(char **why)
{
	char *more;

	if (*why && asprintf(&more,
			     "%s, and that cannot be reached from here; try again later, write "
			     "where it is mounted, or unmount it",
			     *why) >= 0) {
		free(*why);
		*why = more;
	}
}

int access_open(const char *store, unsigned flags, const struct options *options,
		struct access **ret_access, char **ret_why)
{
	_cleanup_(freep) struct access *access = calloc(1, sizeof(*access));
	_cleanup_(freep) char *path = NULL;
	int r;

	*ret_why = NULL;
	if (!access)
		return -ENOMEM;
	r = store_path(store, flags, &path, ret_why);
	if (r == 0)
		r = open_patiently(access, path, flags, options, ret_why);
	if (r == -EBUSY)
		explain_busy(ret_why);
	if (r < 0)
		return r;
	*ret_access = steal_ptr(access);
	return 0;
}

int access_backend(const char *store, const struct options *options, struct backend **ret_backend,
		   char **ret_why)
{
	const struct backend_options wanted = { .read_only = true, .table = options->table };
	int r = refuse_memory(store, ret_why);

	return r < 0 ? r : backend_open(store, &wanted, ret_backend, ret_why);
}

void access_close(struct access *access)
{
	if (!access)
		return;
	access->way->close(access);
	free(access);
}

/* "a//b/./c/" becomes "a/b/c". */
static int clean(const char *path, char **ret_clean)
{
	_cleanup_(buf_done) struct buf cleaned = { 0 };
	int r = buf_reserve(&cleaned, strlen(path) + 1);

	while (r == 0 && *path) {
		size_t size = strcspn(path, "/");
		struct bytes name = bytes_make(path, size);

		path += size + (path[size] == '/');
		if (bytes_equal(name, BYTES("..")))
			return -EXDEV;
		if (size > NAME_MAX)
			return -ENAMETOOLONG;
		if (!size || bytes_equal(name, BYTES(".")))
			continue;
		if (cleaned.size)
			r = buf_append_byte(&cleaned, '/');
		if (r == 0)
			r = buf_append_bytes(&cleaned, name);
	}
	if (r == 0)
		r = buf_append_byte(&cleaned, '\0');
	if (r == 0)
		*ret_clean = steal_ptr(cleaned.data);
	return r;
}

/* A path, cleaned, with its place.  A zeroed one is done with. */
struct target {
	struct access *access;
	char *path;
	struct access_place place;
	bool placed;
};

static void target_done(struct target *target)
{
	if (target->placed)
		target->access->way->done(target->access, &target->place);
	free(target->path);
	*target = (struct target){ 0 };
}

static int target_place(struct target *target)
{
	int r = target->access->way->place(target->access, target->path, &target->place);

	target->placed = r == 0;
	return r;
}

static int target_find(struct access *access, const char *path, struct target *target)
{
	int r = clean(path, &target->path);

	target->access = access;
	return r < 0 ? r : target_place(target);
}

static int target_stat(struct target *target, struct stat *ret_stat)
{
	return target->access->way->stat(target->access, &target->place, ret_stat);
}

int access_stat(struct access *access, const char *path, struct stat *ret_stat)
{
	_cleanup_(target_done) struct target target = { 0 };
	int r = target_find(access, path, &target);

	return r < 0 ? r : target_stat(&target, ret_stat);
}

int access_list(struct access *access, const char *path, bool with_stat, access_entry_fn *fn,
		void *arg)
{
	_cleanup_(target_done) struct target target = { 0 };
	int r = target_find(access, path, &target);

	return r < 0 ? r : access->way->list(access, &target.place, with_stat, fn, arg);
}

/* Removing. */

static int remove_one(struct access *access, const char *path, bool dir)
{
	_cleanup_(target_done) struct target target = { 0 };
	int r = target_find(access, path, &target);

	if (r == 0 && !*target.path)
		r = -EBUSY;
	return r < 0 ? r : access->way->remove(access, &target.place, dir);
}

struct removal {
	struct access *access;
	struct buf path;  /* of the directory that is being emptied, with a NUL */
	struct buf names; /* found in it: the letter f or d, a name, NUL; some at a time */
	size_t count;
};

static void removal_done(struct removal *removal)
{
	buf_done(&removal->path);
	buf_done(&removal->names);
}

static int keep_name(void *arg, const char *name, const struct stat *st)
{
	struct removal *removal = arg;
	int r = buf_append_byte(&removal->names, S_ISDIR(st->st_mode) ? 'd' : 'f');

	if (r == 0)
		r = buf_append(&removal->names, name, strlen(name) + 1);
	return r < 0 ? r : ++removal->count == REMOVE_BATCH;
}

static int path_push(struct buf *path, const char *name)
{
	path->size--;
	return buf_printf(path, "/%s", name) < 0 ? -ENOMEM : buf_append_byte(path, '\0');
}

static void path_pop(struct buf *path)
{
	char *slash = strrchr(path->data, '/');

	*slash = '\0';
	path->size = (size_t)(slash + 1 - path->data);
}

/* Remove the files among the names; *ret_dir is one that is a directory, or NULL. */
static int remove_files(struct removal *removal, const char **ret_dir)
{
	const char *end = removal->names.data + removal->names.size;
	int r = 0;

	for (const char *name = removal->names.data; r == 0 && name < end;
	     name += strlen(name) + 1) {
		if (*name == 'd') {
			*ret_dir = name + 1;
			continue;
		}
		r = stop_wanted() ? -EINTR : path_push(&removal->path, name + 1);
		if (r < 0)
			break;
		r = remove_one(removal->access, removal->path.data, false);
		path_pop(&removal->path);
	}
	return r;
}

/* Remove what the directory holds, or go down into one that is in it; 1 when it is empty. */
static int remove_some(struct removal *removal)
{
	const char *dir = NULL;
	int r;

	buf_clear(&removal->names);
	removal->count = 0;
	r = access_list(removal->access, removal->path.data, false, keep_name, removal);
	if (r < 0 || !removal->count)
		return r < 0 ? r : 1;
	r = remove_files(removal, &dir);
	return r == 0 && dir ? path_push(&removal->path, dir) : r;
}

/* Without recursion: how deep it goes is the store's affair. */
static int remove_all(struct access *access, const char *path)
{
	_cleanup_(removal_done) struct removal removal = { .access = access };
	size_t depth = strlen(path) + 1;
	int r = buf_append(&removal.path, path, depth);

	while (r == 0) {
		r = remove_some(&removal);
		if (r <= 0)
			continue;
		r = remove_one(access, removal.path.data, true);
		if (removal.path.size == depth)
			break;
		path_pop(&removal.path);
	}
	return r;
}

int access_remove(struct access *access, const char *path, bool recursive)
{
	_cleanup_(freep) char *cleaned = NULL;
	struct stat st;
	int r = clean(path, &cleaned);

	if (r == 0)
		r = access_stat(access, cleaned, &st);
	if (r < 0)
		return r;
	if (!*cleaned)
		return -EBUSY;
	if (!S_ISDIR(st.st_mode))
		return remove_one(access, cleaned, false);
	return recursive ? remove_all(access, cleaned) : -EISDIR;
}

/* Files. */

static int only_regular(mode_t mode)
{
	if (S_ISREG(mode))
		return 0;
	return S_ISDIR(mode) ? -EISDIR : S_ISLNK(mode) ? -ELOOP : -EOPNOTSUPP;
}

/* Make the directories on a path that are missing; *made counts them. */
static int make_parents(struct access *access, const char *path, size_t *made)
{
	int r = 0;

	for (const char *slash = strchr(path, '/'); r == 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		_cleanup_(freep) char *dir = bytes_dup(bytes_make(path, (size_t)(slash - path)));
		_cleanup_(target_done) struct target target = { 0 };
		struct stat st;

		r = dir ? target_find(access, dir, &target) : -ENOMEM;
		if (r == 0)
			r = target_stat(&target, &st);
		if (r != -ENOENT)
			continue;
		r = access->way->make_dir(access, &target.place, 0777);
		*made += r == 0;
		r = r == -EEXIST ? 0 : r;
	}
	return r;
}

/* The other way round, as far as nobody has put anything in. */
static void unmake_parents(struct access *access, const char *path, size_t made)
{
	_cleanup_(freep) char *dir = bytes_dup(bytes_str(path));

	for (; dir && made; made--) {
		char *slash = strrchr(dir, '/');

		*slash = '\0';
		if (remove_one(access, dir, true) < 0)
			return;
	}
}

static int open_temporary(struct target *target, struct access_file *file)
{
	struct access_place place = target->place;
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < TEMPORARIES; i++) {
		freep(&file->temporary);
		file->temporary = NULL;
		if (asprintf(&file->temporary, ".sessfs-put-%d-%d", (int)getpid(), i) < 0) {
			file->temporary = NULL;
			return -ENOMEM;
		}
		place.name = file->temporary;
		/* The mode of a new file; an existing one's follows when it is whole. */
		r = target->access->way->open(target->access, &place, O_WRONLY | O_CREAT | O_EXCL,
					      0666, file);
	}
	return r;
}

static int open_target(struct target *target, enum access_how how, struct access_file *file)
{
	const struct access_way *way = target->access->way;
	struct stat st;
	int r = target_stat(target, &st);
	bool exists = r == 0;

	if (exists)
		r = only_regular(st.st_mode);
	else if (r == -ENOENT && how != ACCESS_FILE_READ)
		r = 0;
	if (r < 0)
		return r;
	if (how == ACCESS_FILE_READ)
		return way->open(target->access, &target->place, O_RDONLY, 0, file);
	if (how == ACCESS_FILE_APPEND)
		return way->open(target->access, &target->place, O_WRONLY | O_APPEND | O_CREAT,
				 0666, file);
	if (exists)
		file->like = st;
	r = open_temporary(target, file);
	if (r == 0)
		file->path = steal_ptr(target->path); /* the place's name points into it */
	return r;
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
	_cleanup_(target_done) struct target target = { .access = access };
	struct access_file *file = calloc(1, sizeof(*file));
	int r = file ? clean(path, &target.path) : -ENOMEM;

	if (r < 0)
		goto fail;
	file->access = access;
	file->fd = -1;
	if (!*target.path)
		r = -EISDIR;
	if (r == 0 && how != ACCESS_FILE_READ)
		r = make_parents(access, target.path, &file->made);
	if (r == 0)
		r = target_place(&target);
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

int access_file_write(struct access_file *file, struct bytes data)
{
	while (data.size) {
		ssize_t done = file->access->way->write(file, data);

		if (done == -EINTR && !stop_wanted())
			continue;
		if (done <= 0)
			return done < 0 ? (int)done : -EIO;
		file->offset += (uint64_t)done;
		data = bytes_make(data.data + done, data.size - (size_t)done);
	}
	return 0;
}

/* The file beside that was written, or is not wanted any more. */
static int end_temporary(struct access_file *file, bool takes_place)
{
	const struct access_way *way = file->access->way;
	_cleanup_(target_done) struct target target = { 0 };
	struct access_place temporary;
	int r = target_find(file->access, file->path, &target);

	if (r < 0)
		return r;
	temporary = target.place;
	temporary.name = file->temporary;
	if (takes_place)
		r = way->rename(file->access, &temporary, target.place.name);
	if (!takes_place || r < 0)
		way->remove(file->access, &temporary, false);
	return r;
}

int access_file_save(struct access_file *file)
{
	const struct access_way *way = file->access->way;
	int r = file->like.st_mode ? way->dress(file, &file->like) : 0;
	int error = way->finish(file);

	r = r < 0 ? r : error;
	if (r == 0 && file->path && stop_wanted())
		r = -EINTR;
	if (file->path) {
		error = end_temporary(file, r == 0);
		r = r < 0 ? r : error;
		if (r < 0)
			unmake_parents(file->access, file->path, file->made);
	}
	file_free(file);
	return r;
}

void access_file_drop(struct access_file *file)
{
	if (!file)
		return;
	file->access->way->drop(file);
	if (file->path) {
		end_temporary(file, false);
		unmake_parents(file->access, file->path, file->made);
	}
	file_free(file);
}
