/* SPDX-License-Identifier: MIT */

/*
 * Files of ours beside the store.
 *
 * They begin with a sentence that says what they are.  A file of such a name which does not is
 * somebody else's and is left alone.
 *
 * Memory that outlives the process is the file STORE-held, mapped: what is written into it is in
 * the kernel's page cache at once, so that it is there after a kill, at no cost for each write.
 * After the loss of power the file may hold any mixture of old and new, so its head names the boot
 * of the machine in which it is good.  All its blocks are allocated beforehand, since a mapping
 * cannot be told of a full disk but by a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/internal.h"
#include "backend/sqlite/sqlite.h"
#include "src/base/cleanup.h"

static bool make_name(const char *path, const char *ending, char name[PATH_MAX])
{
	return snprintf(name, PATH_MAX, "%s%s", path, ending) < PATH_MAX;
}

int sqlite_beside_open(const char *path, const char *ending, const char *sentence, int flags)
{
	const size_t size = strlen(sentence);
	char name[PATH_MAX], begin[256];
	_cleanup_(closep) int fd = -1;
	struct stat st, store;
	ssize_t got;

	if (!make_name(path, ending, name) || stat(path, &store) < 0 || size > sizeof(begin))
		return -ENAMETOOLONG;
	fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, store.st_mode & 0666);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return -EEXIST;
	got = pread(fd, begin, size, 0);
	if (got != 0 && (got != (ssize_t)size || memcmp(begin, sentence, size) != 0))
		return -EEXIST;
	/* As SQLite does with its own files beside the store. */
	if (geteuid() == 0 && (st.st_uid != store.st_uid || st.st_gid != store.st_gid) &&
	    fchown(fd, store.st_uid, store.st_gid) < 0)
		return -errno;
	got = fd;
	fd = -1;
	return (int)got;
}

static bool begins_with(const char *name, const char *sentence)
{
	_cleanup_(closep) int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const size_t size = strlen(sentence);
	char begin[256];

	return fd >= 0 && size <= sizeof(begin) && pread(fd, begin, size, 0) == (ssize_t)size &&
	       memcmp(begin, sentence, size) == 0;
}

/* ---- memory that outlives the process ---- */

static const char held_ending[] = "-held";
static const char held_sentence[] =
	"What sessfs was about to put into the store of this name.  The file goes when the store "
	"is unmounted; when sessfs was killed, the next mount takes it in.\n";

enum { HEAD_SIZE = 4096, BOOT_SIZE = 64, BOOT_AT = 1024 };

struct kept {
	char sentence[BOOT_AT];
	char boot[BOOT_SIZE];
	char rest[HEAD_SIZE - BOOT_AT - BOOT_SIZE];
	char memory[];
};

/* The name of this boot of the machine. */
static int boot_name(char name[BOOT_SIZE])
{
	_cleanup_(closep) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	memset(name, 0, BOOT_SIZE);
	got = fd < 0 ? -1 : read(fd, name, BOOT_SIZE - 1);
	return got > 0 ? 0 : -EOPNOTSUPP;
}

static int keep_map(int fd, size_t size, struct kept **ret_kept)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	*ret_kept = memory;
	return 0;
}

static int keep_open(struct sqlite *store, bool make, size_t size)
{
	_cleanup_(closep) int fd = -1;
	char boot[BOOT_SIZE];
	struct stat st;
	int r = boot_name(boot);

	if (r < 0)
		return r;
	fd = sqlite_beside_open(store->place.path, held_ending, held_sentence, make ? O_CREAT : 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || (st.st_size != (off_t)size && ftruncate(fd, 0) < 0) ||
	    pwrite(fd, held_sentence, sizeof(held_sentence) - 1, 0) < 0 ||
	    fallocate(fd, 0, 0, (off_t)size) < 0)
		return -errno;
	r = keep_map(fd, size, &store->keep.memory);
	if (r < 0)
		return r;
	store->keep.size = size;
	if (memcmp(store->keep.memory->boot, boot, sizeof(boot)) == 0)
		return 0;
	memset(store->keep.memory, 0, size);
	memcpy(store->keep.memory->sentence, held_sentence, sizeof(held_sentence) - 1);
	memcpy(store->keep.memory->boot, boot, sizeof(boot));
	return 0;
}

int sqlite_keep(struct backend *backend, bool make, size_t size, void **ret_memory)
{
	struct sqlite *store = sqlite_of(backend);
	int r = 0;

	if (store->mode != MODE_WHOLE || !store->owner)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&store->keep.lock);
	if (!store->keep.memory)
		r = keep_open(store, make, HEAD_SIZE + size);
	if (r == 0)
		*ret_memory = store->keep.memory->memory;
	pthread_mutex_unlock(&store->keep.lock);
	return r;
}

static bool is_zero(const char *bytes, size_t size)
{
	return !size || (!bytes[0] && memcmp(bytes, bytes + 1, size - 1) == 0);
}

void sqlite_keep_close(struct sqlite *store)
{
	struct kept *kept = store->keep.memory;
	char name[PATH_MAX];
	bool empty;

	pthread_mutex_destroy(&store->keep.lock);
	if (!kept)
		return;
	empty = is_zero(kept->memory, store->keep.size - HEAD_SIZE);
	munmap(kept, store->keep.size);
	if (empty && make_name(store->place.path, held_ending, name))
		unlink(name);
}

bool sqlite_backend_has_kept(const char *path)
{
	char name[PATH_MAX];

	return make_name(path, held_ending, name) && begins_with(name, held_sentence);
}

/* ---- all of them ---- */

void sqlite_beside_remove(const char *path)
{
	char name[PATH_MAX];

	if (make_name(path, held_ending, name) && begins_with(name, held_sentence))
		unlink(name);
	if (make_name(path, sqlite_reserve_ending, name) &&
	    begins_with(name, sqlite_reserve_sentence))
		unlink(name);
}
