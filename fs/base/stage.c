/* SPDX-License-Identifier: MIT */
#include "fs/base/stage.h"
#include "backend/base/cleanup.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM_LEAST = 64 };

void stage_unmap(struct stage *stage)
{
	if (stage->map)
		munmap(stage->map, stage->map_size);
	stage->map = NULL;
	stage->map_size = 0;
}

static void drop_memory(struct stage *stage)
{
	free(stage->memory);
	spool_give_memory(stage->room);
	stage->memory = NULL;
	stage->room = 0;
}

/* Move the content from memory to the temporary file. */
static int stage_spill(struct stage *stage)
{
	struct spooled *spooled;
	int r = spooled_new(&spooled);

	if (r < 0)
		return r;
	r = spooled_write(spooled, 0, bytes_make(stage->memory, stage->size));
	if (r < 0) {
		spooled_free(spooled);
		return r;
	}
	drop_memory(stage);
	stage->spooled = spooled;
	return 0;
}

/* Have room for so many bytes, wherever that is. */
static int stage_reserve(struct stage *stage, uint64_t size)
{
	uint64_t room = MAX(size, MAX((uint64_t)stage->room * 2, (uint64_t)ROOM_LEAST));
	size_t more = (size_t)room - stage->room;
	char *memory;

	if (stage->spooled || size <= stage->room)
		return 0;
	if (room > SPOOL_MEMORY || !spool_take_memory(stage->room, more))
		return stage_spill(stage);
	memory = realloc(stage->memory, room);
	if (!memory) {
		spool_give_memory(more);
		return -ENOMEM;
	}
	stage->memory = memory;
	stage->room = room;
	return 0;
}

/* Zeros from the end up to an offset, with room for what is behind it; size stays. */
static int stage_extend(struct stage *stage, uint64_t offset, uint64_t end)
{
	int r;

	stage_unmap(stage);
	stage->is_json = false;
	r = stage_reserve(stage, end);
	if (r < 0 || offset <= stage->size)
		return r;
	if (stage->spooled)
		return spooled_fill(stage->spooled, stage->size, offset);
	memset(stage->memory + stage->size, 0, offset - stage->size);
	return 0;
}

int stage_write(struct stage *stage, uint64_t offset, struct bytes data)
{
	uint64_t end = offset + data.size;
	int r;

	if (end < offset || end > INT64_MAX)
		return -EFBIG;
	r = stage_extend(stage, offset, end);
	if (r == 0 && stage->spooled) {
		r = spooled_write(stage->spooled, offset, data);
		/* What fitted of it is not part of the content. */
		if (r < 0)
			spooled_cut(stage->spooled, stage->size);
	} else if (r == 0 && data.size) {
		memcpy(stage->memory + offset, data.data, data.size);
	}
	if (r < 0)
		return r;
	stage->size = MAX(stage->size, end);
	return 0;
}

int stage_read(struct stage *stage, uint64_t offset, size_t size, struct buf *out)
{
	int r;

	if (offset >= stage->size)
		return 0;
	size = MIN(size, stage->size - offset);
	if (!stage->spooled)
		return buf_append(out, stage->memory + offset, size);
	r = buf_reserve(out, size);
	if (r == 0)
		r = spooled_read(stage->spooled, offset, out->data + out->size, size);
	if (r == 0)
		out->size += size;
	return r;
}

int stage_copy(struct stage *from, struct stage *to)
{
	enum { PART = 1 << 20 };
	int r = 0;

	while (r == 0 && to->size < from->size) {
		_cleanup_(buf_done) struct buf part = { 0 };

		r = stage_read(from, to->size, PART, &part);
		if (r == 0)
			r = stage_write(to, to->size, buf_bytes(&part));
	}
	return r;
}

int stage_truncate(struct stage *stage, uint64_t size)
{
	int r;

	if (size > INT64_MAX)
		return -EFBIG;
	r = stage_extend(stage, size, size);
	if (r < 0)
		return r;
	if (stage->spooled && !size) {
		spooled_free(stage->spooled);
		stage->spooled = NULL;
	} else if (stage->spooled && size < stage->size) {
		spooled_cut(stage->spooled, size);
	}
	stage->size = size;
	return 0;
}

int stage_map(struct stage *stage, struct bytes *ret_bytes)
{
	int r;

	if (stage->spooled && stage->size && !stage->map) {
		r = spooled_map(stage->spooled, stage->size, &stage->map);
		if (r < 0)
			return r;
		stage->map_size = stage->size;
	}
	*ret_bytes = bytes_make(stage->spooled ? stage->map : stage->memory, stage->size);
	return 0;
}

void stage_passed(struct stage *stage, uint64_t offset)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (stage->map && offset >= page)
		madvise(stage->map, MIN(offset, stage->map_size) / page * page, MADV_DONTNEED);
}

bool stage_is_json(struct stage *stage, struct bytes mapped, struct json_error *error)
{
	stage->is_json = stage->is_json || json_valid(mapped, error);
	return stage->is_json;
}

void stage_done(struct stage *stage)
{
	if (!stage)
		return;
	stage_unmap(stage);
	spooled_free(stage->spooled);
	drop_memory(stage);
	*stage = (struct stage){ 0 };
}
