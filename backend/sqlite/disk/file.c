/* SPDX-License-Identifier: MIT */
/*
 * The store's file: where it is, whether it looks like a database, and its owner.
 *
 * Owning is an OFD lock on one byte far behind those that SQLite locks (0x40000000 to 0x400001ff).
 * The kernel drops it with the process, so a dead owner never stands in the way.  It lives on a
 * descriptor of our own, and here is the trap: SQLite uses the older POSIX locks, and closing *any*
 * descriptor of a file drops all POSIX locks that the process has on it.  So the descriptor is
 * opened once for each file and process, counted, and closed only when the last store on that
 * file has closed its connections.
 *
 * For the same reason the file is never opened as a standard stream, to be moved from there: first
 * these are filled (backend/base/descriptor.h), here and where SQLite opens it, which does not use
 * them either but closes and opens again what it gets.
 *
 * A store is opened for rows only by a library in some program (src/lib/), and that program may
 * have connections of its own to the file, which are not counted here.  So there the descriptor
 * stays open until the process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/sqlite.h"
#include "backend/sqlite/owner/owner.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"

struct sqlite_file {
	struct sqlite_file *next;
	dev_t device;
	ino_t inode;
	unsigned users;
	int fd;
	int write_error;	   /* why it could not be opened for writing; 0: it could */
	struct sqlite_owner owner; /* the stores of this process that own it */
	bool kept;		   /* the descriptor is never closed */
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sqlite_file *files;

static struct sqlite_file *file_find(const struct stat *st)
{
	for (struct sqlite_file *file = files; file; file = file->next)
		if (file->device == st->st_dev && file->inode == st->st_ino)
			return file;
	return NULL;
}

/* Takes the descriptor over. */
static int file_add(int fd, int write_error, struct sqlite_file **ret_file)
{
	struct sqlite_file *file;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	*file = (struct sqlite_file){ .next = files,
				      .device = st.st_dev,
				      .inode = st.st_ino,
				      .users = 1,
				      .fd = fd,
				      .write_error = write_error };
	files = file;
	*ret_file = file;
	return 0;
}

/* What may be done with a file that was kept may have changed.  The old descriptor is not closed
 * either. */
static void file_renew(struct sqlite_file *file, const char *path)
{
	int fd;

	file->write_error = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0 ? -errno : 0;
	if (file->write_error || (fcntl(file->fd, F_GETFL) & O_ACCMODE) == O_RDWR)
		return;
	fd = descriptor_open(path, O_RDWR | O_NOFOLLOW, 0);
	if (fd >= 0)
		file->fd = fd;
	else
		file->write_error = -errno;
}

static int file_open(const char *path, struct sqlite_file **ret_file)
{
	_cleanup_(closep) int fd = -1;
	int write_error = 0;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EMEDIUMTYPE;
	*ret_file = file_find(&st);
	if (*ret_file) {
		if ((*ret_file)->users++ == 0)
			file_renew(*ret_file, path);
		return 0;
	}
	fd = descriptor_open(path, O_RDWR | O_NOFOLLOW, 0);
	if (fd < 0) {
		write_error = -errno;
		fd = descriptor_open(path, O_RDONLY | O_NOFOLLOW, 0);
	}
	if (fd < 0)
		return -errno;
	r = file_add(fd, write_error, ret_file);
	if (r == 0)
		fd = -1;
	return r;
}

static int file_create(const char *path, struct sqlite_file **ret_file)
{
	_cleanup_(closep) int fd =
		descriptor_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = file_add(fd, 0, ret_file);
	if (r == 0)
		fd = -1;
	return r;
}

static void file_release(struct sqlite_file *file)
{
	struct sqlite_file **link = &files;

	if (!file || --file->users > 0 || file->kept)
		return;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	close(file->fd);
	free(file);
}

/* Where the last name of a path begins, which is absolute. */
static size_t base_of(const char *path)
{
	return (size_t)(strrchr(path, '/') + 1 - path);
}

static int own(struct sqlite_file *file, bool shared, off_t name)
{
	/* The descriptor is shared in this process, and so would be the lock. */
	return file->write_error && !file->owner.count ?
		       file->write_error :
		       sqlite_owner_take(&file->owner, file->fd, shared, name);
}

int sqlite_place_own(const struct sqlite_place *place, bool shared)
{
	const char *name = place->path + base_of(place->path);
	off_t byte = shared && sqlite_owner_is_local(place->file->fd) ?
			     sqlite_owner_name(place->dir, name) :
			     0;
	WITH_MUTEX(&files_lock);

	return own(place->file, byte != 0, byte);
}

void sqlite_file_disown(struct sqlite_file *file)
{
	WITH_MUTEX(&files_lock);

	sqlite_owner_give(&file->owner, file->fd);
}

bool sqlite_file_shared(struct sqlite_file *file)
{
	WITH_MUTEX(&files_lock);

	return file->owner.count && file->owner.shared;
}

void sqlite_file_tell(struct sqlite_file *file, const char *called)
{
	WITH_MUTEX(&files_lock);

	sqlite_owner_tell(&file->owner, file->fd, called);
}

bool sqlite_file_told(struct sqlite_file *file, const char *called)
{
	WITH_MUTEX(&files_lock);

	return sqlite_owner_told(&file->owner, file->fd, called);
}

bool sqlite_file_owned(struct sqlite_file *file)
{
	bool owned;

	pthread_mutex_lock(&files_lock);
	owned = file->owner.count;
	pthread_mutex_unlock(&files_lock);
	/* Unsure counts as owned: the owner then looks at its rows once more than needed. */
	return owned || sqlite_owner_there(file->fd);
}

bool sqlite_file_owned_elsewhere(struct sqlite_file *file)
{
	return sqlite_owner_there(file->fd);
}

int sqlite_file_allocate(struct sqlite_file *file, uint64_t size)
{
	return fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) < 0 ? -errno : 0;
}

int sqlite_file_take(const char *path, struct sqlite_file **ret_file)
{
	struct sqlite_file *file = NULL;
	int r;

	pthread_mutex_lock(&files_lock);
	r = file_open(path, &file);
	if (r == 0)
		r = own(file, false, 0);
	if (r < 0)
		file_release(file);
	pthread_mutex_unlock(&files_lock);
	if (r == 0)
		*ret_file = file;
	return r;
}

void sqlite_file_leave(struct sqlite_file *file)
{
	sqlite_file_disown(file);
	WITH_MUTEX(&files_lock);
	file_release(file);
}

static uint64_t big_endian(const unsigned char *bytes)
{
	return (uint64_t)bytes[0] << 24 | (uint64_t)bytes[1] << 16 | (uint64_t)bytes[2] << 8 |
	       bytes[3];
}

enum { HEADER = 100 };

#define RESCUE "; 'sessfs check --repair' rescues what is left"

/* What SQLite would only tell as "malformed" or "not a database", some time later. */
static int check_header(const char *path, int fd, char **ret_why)
{
	static const char magic[16] = "SQLite format 3";
	unsigned char header[HEADER];
	uint64_t page, size;
	struct stat st;
	ssize_t got;

	/* The power failed while the journal was needed: SQLite is going to take it back first. */
	if (sqlite_beside_size(path, "-journal"))
		return 0;
	got = pread(fd, header, sizeof(header), 0);

	if (got < 0 || fstat(fd, &st) < 0)
		return str_explain(ret_why, -errno, "cannot read %s: %s", path, strerror(errno));
	if (got == 0)
		return 0;
	if (memcmp(header, magic, MIN((size_t)got, sizeof(magic))) != 0)
		return str_explain(ret_why, -EMEDIUMTYPE,
				   "%s is not a SQLite database, so it is not a store (if it was "
				   "one, 'sessfs check --repair' rescues what is left)",
				   path);
	if (got < HEADER)
		return str_explain(ret_why, -EIO,
				   "%s is damaged: the file ends after %zd bytes, within its "
				   "header" RESCUE,
				   path, got);
	page = (uint64_t)header[16] << 8 | header[17];
	if (page != 1 && (page < 512 || (page & (page - 1))))
		return str_explain(ret_why, -EIO,
				   "%s is damaged: its header has no valid page size" RESCUE, path);
	size = (page == 1 ? 65536 : page) * big_endian(header + 28);
	/* The size in the header counts when it was written by the last writer; and pages that a
	 * crash left in the WAL only are not missing. */
	if (big_endian(header + 24) == big_endian(header + 92) && (uint64_t)st.st_size < size &&
	    !sqlite_beside_size(path, "-wal"))
		return str_explain(ret_why, -EIO,
				   "%s is damaged: the file ends after %lld of %llu bytes" RESCUE,
				   path, (long long)st.st_size, (unsigned long long)size);
	return 0;
}

/* The directory of a path that does not exist, without symbolic links, and the last name. */
static int resolve_new(const char *path, char **ret_path)
{
	_cleanup_(freep) char *copy = strdup(path);
	_cleanup_(freep) char *directory = NULL;
	const char *name;
	char *slash, *joined;

	if (!copy)
		return -ENOMEM;
	slash = strrchr(copy, '/');
	name = slash ? slash + 1 : copy;
	if (!*name)
		return -EISDIR;
	if (slash)
		*slash = '\0';
	directory = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
	if (!directory)
		return -errno;
	if (asprintf(&joined, "%s/%s", strcmp(directory, "/") == 0 ? "" : directory, name) < 0)
		return -ENOMEM;
	*ret_path = joined;
	return 0;
}

static int find_existing(const char *path, struct sqlite_place *place, char **ret_why)
{
	int r;

	place->path = realpath(path, NULL);
	r = place->path ? file_open(place->path, &place->file) : -errno;
	switch (r) {
	case 0:
		return 0;
	case -ENOENT: /* perhaps to be created */
		return r;
	case -EISDIR:
		return str_explain(ret_why, r, "%s is a directory, not a store", path);
	case -EMEDIUMTYPE:
		return str_explain(ret_why, r, "%s is not a regular file, so it is not a store",
				   path);
	default:
		return str_explain(ret_why, r, "cannot open %s: %s", path, strerror(-r));
	}
}

static int make_new(const char *path, struct sqlite_place *place, char **ret_why)
{
	int r = resolve_new(path, &place->path);

	if (r == -ENOENT || r == -ENOTDIR)
		return str_explain(ret_why, r,
				   "cannot make %s: its directory does not exist; make it first",
				   path);
	if (r == 0)
		r = file_create(place->path, &place->file);
	if (r == -EEXIST)
		return r;
	if (r < 0)
		return str_explain(ret_why, r, "cannot make %s: %s", path, strerror(-r));
	place->created = true;
	return 0;
}

static int find_or_make(const char *path, const struct backend_options *options,
			struct sqlite_place *place, char **ret_why)
{
	int r = find_existing(path, place, ret_why);

	if (r != -ENOENT)
		return r;
	if (!options->create || options->read_only)
		return str_explain(ret_why, -ENOENT, "there is no store at %s", path);
	r = make_new(path, place, ret_why);
	if (r != -EEXIST)
		return r;
	/* Another process was faster; or it cannot be made at all. */
	freep(&place->path);
	place->path = NULL;
	r = find_existing(path, place, ret_why);
	if (r != -ENOENT)
		return r;
	return str_explain(ret_why, -EEXIST,
			   "cannot make %s: it is a symbolic link that leads nowhere", path);
}

/* 0: it cannot be had. */
static int open_directory(const char *path)
{
	_cleanup_(freep) char *name = bytes_dup(bytes_make(path, base_of(path)));
	int fd = name ? descriptor_open(name, O_PATH | O_DIRECTORY, 0) : -1;

	return MAX(fd, 0);
}

int sqlite_place_find(const char *path, const struct backend_options *options,
		      struct sqlite_place *ret_place, char **ret_why)
{
	struct sqlite_place place = { 0 };
	int r = descriptor_fill();

	if (r < 0)
		return str_explain(ret_why, r, "cannot open %s: %s", path, strerror(-r));
	pthread_mutex_lock(&files_lock);
	r = find_or_make(path, options, &place, ret_why);
	if (r == 0)
		place.file->kept |= options->rows_only;
	pthread_mutex_unlock(&files_lock);
	if (r == 0)
		place.dir = open_directory(place.path);
	if (r == 0)
		r = check_header(path, place.file->fd, ret_why);
	if (r == 0 && place.file->write_error && !options->read_only)
		r = str_explain(ret_why, place.file->write_error, "cannot write to %s: %s", path,
				strerror(-place.file->write_error));
	if (r < 0) {
		sqlite_place_done(&place);
		return r;
	}
	place.writable = !place.file->write_error;
	*ret_place = place;
	return 0;
}

bool sqlite_backend_is_owned(const char *path)
{
	struct backend_options options = { .read_only = true };
	struct sqlite_place place;
	bool owned;

	if (sqlite_place_find(path, &options, &place, NULL) < 0)
		return false;
	owned = sqlite_file_owned(place.file);
	sqlite_place_done(&place);
	return owned;
}

bool sqlite_place_stands(const struct sqlite_place *place)
{
	struct stat st;

	if (stat(place->path, &st) == 0)
		return st.st_dev == place->file->device && st.st_ino == place->file->inode;
	if (errno == ENOENT || errno == ENOTDIR)
		return false;
	/* A directory that cannot be searched says nothing about the path. */
	return fstat(place->file->fd, &st) < 0 || st.st_nlink > 0;
}

/* Whether what is there under a name of the store is the file of this descriptor. */
static bool is_found(const struct sqlite_place *place, const char *ending, int fd, dev_t device,
		     ino_t inode)
{
	const char *base = place->path + (place->dir ? base_of(place->path) : 0);
	char name[BESIDE_NAME];
	struct stat st;

	if (*ending)
		base = sqlite_beside_name(name, base, ending);
	if (fstatat(place->dir ? place->dir : AT_FDCWD, base, &st, 0) == 0)
		return st.st_dev == device && st.st_ino == inode;
	/* A directory that cannot be searched says nothing about what is in it. */
	return errno != ENOENT && errno != ENOTDIR && (fstat(fd, &st) < 0 || st.st_nlink > 0);
}

int sqlite_file_there(struct sqlite *store)
{
	const struct sqlite_file *file = store->place.file;

	if (is_found(&store->place, "", file->fd, file->device, file->inode)) {
		atomic_store(&store->gone, false);
		return 0;
	}
	if (!atomic_exchange(&store->gone, true) || !store->owner)
		log_error(
			"%s was removed, moved or replaced while it was open: nothing can be saved "
			"in it; open the store again where it is now",
			store->place.path);
	return -EIO;
}

int sqlite_file_durable(struct sqlite *store)
{
	int r = sqlite_file_there(store), fd = atomic_load(&store->keeper.wal);

	/* Without the log that is found by the store's name, the database lacks what is in ours. */
	if (r < 0 || fd < 0 ||
	    is_found(&store->place, "-wal", fd, store->keeper.wal_device,
		     store->keeper.wal_inode)) {
		atomic_store(&store->log_gone, false);
		return r;
	}
	if (!atomic_exchange(&store->log_gone, true))
		log_error("%s-wal was removed, moved or replaced while it was open: what you write "
			  "may be lost; copy what the mount shows, then unmount it",
			  store->place.path);
	return -EIO;
}

void sqlite_place_done(struct sqlite_place *place)
{
	pthread_mutex_lock(&files_lock);
	file_release(place->file);
	pthread_mutex_unlock(&files_lock);
	if (place->dir)
		close(place->dir);
	free(place->path);
	*place = (struct sqlite_place){ 0 };
}
