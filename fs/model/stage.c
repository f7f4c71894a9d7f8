/* SPDX-License-Identifier: MIT */
#include "fs/model/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"

static void stage_unmap(struct stage *stage)
{
	if (stage->map)
		munmap(stage->map, stage->map_size);
	stage->map = NULL;
	stage->map_size = 0;
}

/* What errno says. */
static int failed(void)
{
	int error = errno;

	log_error("the temporary file of a large save: %s", strerror(error));
	return -error;
}

static int write_all(int fd, struct bytes data, uint64_t offset)
{
	while (data.size) {
		ssize_t n = pwrite(fd, data.data, data.size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed();
		data = bytes_make(data.data + n, data.size - (size_t)n);
		offset += (uint64_t)n;
	}
	return 0;
}

static int open_temporary(void)
{
	const char *named = getenv("TMPDIR");
	const char *const places[] = { named, "/var/tmp", "/tmp" };

	errno = ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int fd;

		if (!places[i] || !*places[i])
			continue;
		fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
	}
	return failed();
}

/* Move the content from memory to a temporary file. */
static int stage_spill(struct stage *stage)
{
	int fd = open_temporary();
	int r;

	if (fd < 0)
		return fd;
	r = write_all(fd, buf_bytes(&stage->memory), 0);
	if (r < 0) {
		close(fd);
		return r;
	}
	buf_done(&stage->memory);
	stage->fd = fd;
	stage->spilled = true;
	return 0;
}

static int memory_resize(struct buf *memory, size_t size)
{
	if (size <= memory->size) {
		memory->size = size;
		return 0;
	}
	return buf_append_zeros(memory, size - memory->size);
}

int stage_write(struct stage *stage, uint64_t offset, struct bytes data)
{
	uint64_t end = offset + data.size;
	int r = 0;

	if (end < offset || end > INT64_MAX)
		return -EFBIG;
	stage_unmap(stage);
	if (!stage->spilled && end > STAGE_MEMORY)
		r = stage_spill(stage);
	if (r < 0)
		return r;
	if (stage->spilled) {
		r = write_all(stage->fd, data, offset);
		if (r < 0) {
			/* What fitted of it is not part of the content. */
			if (ftruncate(stage->fd, (off_t)stage->size) < 0)
				log_warning("a temporary file could not be cut: %s",
					    strerror(errno));
			return r;
		}
	} else {
		if (end > stage->memory.size)
			r = memory_resize(&stage->memory, end);
		if (r < 0)
			return r;
		if (data.size)
			memcpy(stage->memory.data + offset, data.data, data.size);
	}
	stage->size = MAX(stage->size, end);
	return 0;
}

int stage_read(struct stage *stage, uint64_t offset, size_t size, struct buf *out)
{
	int r;

	if (offset >= stage->size)
		return 0;
	size = MIN(size, stage->size - offset);
	if (!stage->spilled)
		return buf_append(out, stage->memory.data + offset, size);
	r = buf_reserve(out, size);
	if (r < 0)
		return r;
	while (size) {
		ssize_t n = pread(stage->fd, out->data + out->size, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed();
		if (n == 0)
			return -EIO;
		out->size += (size_t)n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int stage_truncate(struct stage *stage, uint64_t size)
{
	int r = 0;

	if (size > INT64_MAX)
		return -EFBIG;
	stage_unmap(stage);
	if (!stage->spilled && size > STAGE_MEMORY)
		r = stage_spill(stage);
	if (r < 0)
		return r;
	if (stage->spilled)
		r = ftruncate(stage->fd, (off_t)size) < 0 ? failed() : 0;
	else
		r = memory_resize(&stage->memory, size);
	if (r < 0)
		return r;
	stage->size = size;
	return 0;
}

int stage_map(struct stage *stage, struct bytes *ret_bytes)
{
	void *map;

	if (!stage->spilled) {
		*ret_bytes = buf_bytes(&stage->memory);
		return 0;
	}
	if (!stage->size) {
		*ret_bytes = (struct bytes){ 0 };
		return 0;
	}
	if (!stage->map) {
		map = mmap(NULL, stage->size, PROT_READ, MAP_SHARED, stage->fd, 0);
		if (map == MAP_FAILED)
			return failed();
		madvise(map, stage->size, MADV_SEQUENTIAL);
		stage->map = map;
		stage->map_size = stage->size;
	}
	*ret_bytes = bytes_make(stage->map, stage->size);
	return 0;
}

void stage_passed(struct stage *stage, uint64_t offset)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (stage->map && offset >= page)
		madvise(stage->map, MIN(offset, stage->map_size) / page * page, MADV_DONTNEED);
}

void stage_done(struct stage *stage)
{
	if (!stage)
		return;
	stage_unmap(stage);
	if (stage->spilled)
		close(stage->fd);
	buf_done(&stage->memory);
	*stage = (struct stage){ 0 };
}
