/* SPDX-License-Identifier: MIT */

/*
 * The temporary file
 *
 *   What is spooled lies in extents: the first has EXTENT bytes, and each further one as many as
 *   all before it.  They are places in a sparse file and take room on the disk only where they are
 *   written.  A file hands out its places once, one behind the other; places that are not needed
 *   any more are punched out, or go with the file when it has no user.  When the places of a file
 *   are used up, the next extents are in a new one.
 */

#include "fs/base/spool.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	MEMORY_SHARE = 8, /* of what is free, that one stage may have */
	EXTENT = 1 << 20, /* bytes */
	EXTENTS = 22,	  /* of one struct spooled, at most */
	ZEROS = 1 << 16,  /* written at a time */
};

/* Places of one file; every filesystem that has temporary files can hold such a file. */
static const uint64_t FILE_PLACES = UINT64_C(1) << 40;

struct spool_file {
	int fd;
	unsigned users; /* extents */
	uint64_t end;	/* of the places that were handed out */
};

struct extent {
	struct spool_file *file; /* NULL: there is none yet */
	uint64_t place;
	uint64_t used; /* bytes that may take room on the disk */
};

struct spooled {
	struct extent extent[EXTENTS];
};

static _Atomic size_t memory_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spool_file *newest; /* lock: that hands out places */

bool spool_take_memory(size_t has, size_t more)
{
	size_t used = memory_used;

	do {
		size_t left = SPOOL_MEMORY - MIN(used, (size_t)SPOOL_MEMORY) + has;

		if (more > left || has + more > left / MEMORY_SHARE)
			return false;
	} while (!atomic_compare_exchange_weak(&memory_used, &used, used + more));
	return true;
}

void spool_give_memory(size_t size)
{
	memory_used -= size;
}

/* What errno says. */
static int failed(void)
{
	int error = errno;

	log_error("the temporary file for unsaved data (in $TMPDIR or /var/tmp): %s",
		  strerror(error));
	return -error;
}

static int open_temporary(void)
{
	const char *named = getenv("TMPDIR");
	const char *const folders[] = { named, "/var/tmp", "/tmp" };

	errno = ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		int fd;

		if (!folders[i] || !*folders[i])
			continue;
		fd = descriptor_open(folders[i], O_TMPFILE | O_RDWR, 0600);
		if (fd >= 0)
			return fd;
	}
	return failed();
}

/* Up to here a file may be written by this process. */
static uint64_t file_places(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return FILE_PLACES;
	return MIN(FILE_PLACES, (uint64_t)limit.rlim_cur);
}

/* The file that the next extent of that size is in; with the lock held. */
static int file_for(uint64_t size, struct spool_file **ret_file)
{
	struct spool_file *file = newest;

	if (!file || (file->end && file->end + size > file_places())) {
		file = calloc(1, sizeof(*file));
		if (!file)
			return -ENOMEM;
		file->fd = open_temporary();
		if (file->fd < 0) {
			int r = file->fd;

			free(file);
			return r;
		}
		newest = file;
	}
	*ret_file = file;
	return 0;
}

static uint64_t extent_size(unsigned i)
{
	return (uint64_t)EXTENT << (i ? i - 1 : 0);
}

/* One user of a file less. */
static void file_drop(struct spool_file *file)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = --file->users == 0;
	if (last && file == newest)
		newest = NULL;
	pthread_mutex_unlock(&lock);
	if (last) {
		close(file->fd);
		free(file);
	}
}

static int extent_need(struct extent *extent, uint64_t size)
{
	struct spool_file *file;
	int r;

	if (extent->file)
		return 0;
	WITH_MUTEX(&lock);
	r = file_for(size, &file);
	if (r == 0) {
		*extent = (struct extent){ .file = file, .place = file->end };
		file->end += size;
		file->users++;
	}
	return r;
}

/* Where the filesystem cannot do that, the room comes back with the end of the file. */
static void extent_cut(struct extent *extent, uint64_t from)
{
	if (from >= extent->used)
		return;
	fallocate(extent->file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(extent->place + from), (off_t)(extent->used - from));
	extent->used = from;
}

static void extent_drop(struct extent *extent)
{
	bool alone;

	if (!extent->file)
		return;
	pthread_mutex_lock(&lock);
	alone = extent->file->users == 1;
	pthread_mutex_unlock(&lock);
	/* With its last user the file goes as a whole. */
	if (!alone)
		extent_cut(extent, 0);
	file_drop(extent->file);
	extent->file = NULL;
}

int spooled_new(struct spooled **ret_spooled)
{
	struct spooled *spooled = calloc(1, sizeof(*spooled));

	if (!spooled)
		return -ENOMEM;
	*ret_spooled = spooled;
	return 0;
}

void spooled_free(struct spooled *spooled)
{
	if (!spooled)
		return;
	for (unsigned i = 0; i < EXTENTS; i++)
		extent_drop(&spooled->extent[i]);
	free(spooled);
}

/* A part of what is spooled that lies in one extent. */
struct part {
	struct extent *extent;
	uint64_t at; /* in the extent */
	size_t size;
};

/* The part at an offset, of at most size bytes.  need: it gets a place if it has none. */
static int part_at(struct spooled *spooled, uint64_t offset, uint64_t size, bool need,
		   struct part *part)
{
	uint64_t blocks = offset / EXTENT;
	unsigned i = blocks ? 64 - (unsigned)__builtin_clzll(blocks) : 0;
	uint64_t length;

	part->size = 0;
	if (i >= EXTENTS)
		return -EFBIG;
	length = extent_size(i);
	part->extent = &spooled->extent[i];
	part->at = i ? offset - length : offset;
	part->size = MIN(size, length - part->at);
	return need ? extent_need(part->extent, length) : 0;
}

static int write_part(const struct part *part, const char *data)
{
	struct extent *extent = part->extent;
	size_t done = 0;

	extent->used = MAX(extent->used, part->at + part->size);
	while (done < part->size) {
		ssize_t n = pwrite(extent->file->fd, data + done, part->size - done,
				   (off_t)(extent->place + part->at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed();
		done += (size_t)n;
	}
	return 0;
}

int spooled_write(struct spooled *spooled, uint64_t offset, struct bytes data)
{
	struct part part;
	int r = 0;

	while (r == 0 && data.size) {
		r = part_at(spooled, offset, data.size, true, &part);
		if (r == 0)
			r = write_part(&part, data.data);
		if (r < 0)
			break;
		offset += part.size;
		data = bytes_make(data.data + part.size, data.size - part.size);
	}
	return r;
}

int spooled_read(struct spooled *spooled, uint64_t offset, void *data, size_t size)
{
	char *to = data;

	while (size) {
		struct part part;
		int r = part_at(spooled, offset, size, false, &part);
		ssize_t n;

		if (r < 0)
			return r;
		n = pread(part.extent->file->fd, to, part.size,
			  (off_t)(part.extent->place + part.at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed();
		if (n == 0)
			return -EIO;
		offset += (uint64_t)n;
		to += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Write zeros where the filesystem cannot make them. */
static int write_zeros(const struct part *part)
{
	static const char zeros[ZEROS];
	struct part step = *part;

	for (uint64_t done = 0; done < part->size; done += step.size) {
		int r;

		step.at = part->at + done;
		step.size = MIN(sizeof(zeros), part->size - done);
		r = write_part(&step, zeros);
		if (r < 0)
			return r;
	}
	return 0;
}

/* First the old content goes. */
static int fill_part(const struct part *part)
{
	struct extent *extent = part->extent;
	off_t place = (off_t)(extent->place + part->at);
	int r;

	extent->used = MAX(extent->used, part->at + part->size);
	do {
		r = fallocate(extent->file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place,
			      (off_t)part->size);
		if (r == 0)
			r = fallocate(extent->file->fd, 0, place, (off_t)part->size);
	} while (r < 0 && errno == EINTR);
	if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		return write_zeros(part);
	return r < 0 ? failed() : 0;
}

int spooled_fill(struct spooled *spooled, uint64_t from, uint64_t to)
{
	uint64_t start = from;
	struct part part;
	int r = 0;

	for (; r == 0 && from < to; from += part.size) {
		r = part_at(spooled, from, to - from, true, &part);
		if (r == 0)
			r = fill_part(&part);
	}
	if (r < 0)
		spooled_cut(spooled, start);
	return r;
}

void spooled_cut(struct spooled *spooled, uint64_t from)
{
	uint64_t start = 0;

	for (unsigned i = 0; i < EXTENTS; i++) {
		struct extent *extent = &spooled->extent[i];

		if (extent->file && from <= start)
			extent_drop(extent);
		else if (extent->file)
			extent_cut(extent, from - start);
		start += extent_size(i);
	}
}

int spooled_map(struct spooled *spooled, size_t size, void **ret_map)
{
	/* The extents lie side by side in addresses that are theirs alone. */
	char *map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct part part;

	if (map == MAP_FAILED)
		return failed();
	for (uint64_t at = 0; at < size; at += part.size) {
		int r = part_at(spooled, at, size - at, false, &part);

		if (r == 0 && mmap(map + at, part.size, PROT_READ, MAP_SHARED | MAP_FIXED,
				   part.extent->file->fd, (off_t)part.extent->place) == MAP_FAILED)
			r = failed();
		if (r < 0) {
			munmap(map, size);
			return r;
		}
	}
	madvise(map, size, MADV_SEQUENTIAL);
	*ret_map = map;
	return 0;
}
