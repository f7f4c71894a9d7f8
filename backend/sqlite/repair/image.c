/* SPDX-License-Identifier: MIT */
#include "backend/sqlite/repair/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/store/error.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

enum {
	PAGE_LEAST = 512,
	PAGE_MOST = 65536,
	PAGES_MOST = 0x7ffffffe,
	SAMPLES = 256, /* pages that are looked at to find out how large they are */
};

static const char magic[16] = "SQLite format 3";
static const uint32_t log_magic = 0x377f0682; /* and 1 more: its checksums are big-endian */

/* All of it, or -ENODATA where the file ends, or what the medium says. */
static int read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
	size_t at = 0;

	while (at < size) {
		ssize_t got = pread(fd, (char *)bytes + at, size - at, (off_t)(offset + at));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA;
		at += (size_t)got;
	}
	return 0;
}

static bool is_page_size(uint32_t size)
{
	return size >= PAGE_LEAST && size <= PAGE_MOST && (size & (size - 1)) == 0;
}

/* The log. */

struct log {
	int fd;
	uint32_t page_size;
	uint64_t frames; /* that the file has room for */
	bool header;	 /* is whole */
	bool big;
	uint8_t salt[8];
	bool salted;	     /* the salt is known */
	uint32_t sum[2];     /* as it stands in the frame before, or in the header */
	uint32_t content[2]; /* as it should stand there, by what is summed up */
	bool seeded;
	uint8_t *bytes; /* a frame */
};

static uint32_t word(const uint8_t *bytes, bool big)
{
	return big ? image_u32(bytes) :
		     (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 |
			       bytes[0];
}

static void add_sum(bool big, uint32_t sum[2], const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		sum[0] += word(bytes + i, big) + sum[1];
		sum[1] += word(bytes + i + 4, big) + sum[0];
	}
}

static bool same_sum(const uint32_t sum[2], const uint8_t *bytes)
{
	return sum[0] == image_u32(bytes) && sum[1] == image_u32(bytes + 4);
}

/* The header of the log, if it is whole: then it knows how large the pages are. */
static bool read_log_header(struct log *log, uint8_t header[LOG_HEADER])
{
	uint32_t sum[2] = { 0, 0 }, size;

	if (read_at(log->fd, header, LOG_HEADER, 0) < 0)
		return false;
	log->big = image_u32(header) & 1;
	add_sum(log->big, sum, header, 24);
	size = image_u32(header + 8);
	if ((image_u32(header) & ~1u) != log_magic || !same_sum(sum, header + 24) ||
	    !is_page_size(size))
		return false;
	log->page_size = size;
	memcpy(log->salt, header + 16, sizeof(log->salt));
	log->salted = log->seeded = true;
	memcpy(log->sum, sum, sizeof(sum));
	memcpy(log->content, sum, sizeof(sum));
	return true;
}

static void sum_frame(const struct log *log, const uint32_t seed[2], bool big, uint32_t sum[2])
{
	sum[0] = seed[0];
	sum[1] = seed[1];
	add_sum(big, sum, log->bytes, 8);
	add_sum(big, sum, log->bytes + FRAME_HEADER, log->page_size);
}

/* Either the sum of the frame before is right as it stands there, or what it was made of. */
static bool frame_sums_up(struct log *log, bool big, uint32_t next[2])
{
	sum_frame(log, log->sum, big, next);
	if (same_sum(next, log->bytes + 16))
		return true;
	sum_frame(log, log->content, big, next);
	return same_sum(next, log->bytes + 16);
}

enum frame_state { FRAME_VALID, FRAME_DAMAGED, FRAME_STRANGE };

/* Read a frame and judge it.  Strange: not of this log, as far as one can see. */
static enum frame_state read_frame(struct log *log, uint64_t number)
{
	uint64_t size = FRAME_HEADER + (uint64_t)log->page_size;
	bool was_seeded = log->seeded, valid = false, ours;
	uint32_t next[2] = { 0, 0 };

	log->seeded = false;
	if (read_at(log->fd, log->bytes, size, LOG_HEADER + number * size) < 0)
		return FRAME_STRANGE;
	if (was_seeded && log->salted)
		valid = frame_sums_up(log, log->big, next);
	else if (was_seeded && frame_sums_up(log, log->big, next))
		valid = true;
	else if (was_seeded && frame_sums_up(log, !log->big, next)) {
		valid = true;
		log->big = !log->big;
	}
	ours = log->salted && memcmp(log->salt, log->bytes + 8, sizeof(log->salt)) == 0;
	if (valid && !log->salted) {
		memcpy(log->salt, log->bytes + 8, sizeof(log->salt));
		log->salted = ours = true;
	}
	log->sum[0] = image_u32(log->bytes + 16);
	log->sum[1] = image_u32(log->bytes + 20);
	log->content[0] = next[0];
	log->content[1] = next[1];
	log->seeded = true;
	if (valid && ours)
		return FRAME_VALID;
	return ours ? FRAME_DAMAGED : FRAME_STRANGE;
}

typedef int frame_fn(void *arg, const struct log *log, uint64_t number, enum frame_state state);

/* page_size: what the database has; the log's own counts if it can be read. */
static int walk_log(int fd, uint32_t page_size, frame_fn *fn, void *arg, bool *ret_header)
{
	struct log log = { .fd = fd, .page_size = page_size };
	uint8_t header[LOG_HEADER];
	struct stat st;
	int r = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret_header = log.header = read_log_header(&log, header);
	/* Without its header, the log's first frame may still carry the sum of one. */
	if (!log.header && st.st_size > LOG_HEADER && read_at(fd, header, LOG_HEADER, 0) == 0) {
		log.sum[0] = image_u32(header + 24);
		log.sum[1] = image_u32(header + 28);
		add_sum(log.big, log.content, header, 24);
		log.seeded = true;
	}
	if (st.st_size <= LOG_HEADER)
		return 0;
	log.frames = ((uint64_t)st.st_size - LOG_HEADER) / (FRAME_HEADER + log.page_size);
	log.bytes = malloc(FRAME_HEADER + log.page_size);
	if (!log.bytes)
		return -ENOMEM;
	for (uint64_t i = 0; r == 0 && i < log.frames && i < UINT32_MAX; i++) {
		enum frame_state state = read_frame(&log, i);

		r = fn(arg, &log, i, state);
	}
	free(log.bytes);
	return r;
}

/* First look: where the last commit is. */
struct log_end {
	uint64_t frames; /* up to the last commit */
	uint32_t pages;	 /* that the database had then */
	uint32_t top;	 /* the highest page number */
	uint64_t pending_damage;
	uint64_t damaged;
	uint64_t first_damaged; /* its number + 1 */
	uint64_t valid;
	uint64_t tail; /* damaged ones behind the last commit */
};

static int find_end(void *arg, const struct log *log, uint64_t number, enum frame_state state)
{
	struct log_end *end = arg;
	uint32_t pages = image_u32(log->bytes + 4);

	if (state != FRAME_VALID) {
		end->pending_damage++;
		end->tail += state == FRAME_DAMAGED;
		return 0;
	}
	end->valid++;
	end->top = MAX(end->top, image_u32(log->bytes));
	if (!pages)
		return 0;
	if (end->pending_damage && !end->first_damaged)
		end->first_damaged = number + 1;
	end->damaged += end->pending_damage;
	end->pending_damage = end->tail = 0;
	end->frames = number + 1;
	end->pages = pages;
	return 0;
}

/* Second look: which frame has which page. */
struct log_map {
	struct image *image;
	uint64_t frames;
};

static int map_frame(void *arg, const struct log *log, uint64_t number, enum frame_state state)
{
	struct log_map *map = arg;
	struct image *image = map->image;
	uint32_t page = image_u32(log->bytes);

	if (number >= map->frames || !image_has_page(image, page))
		return 0;
	if (state == FRAME_VALID) {
		image->frame[page] = (uint32_t)number + 1;
		image->stale[page] = 0;
	} else if (state == FRAME_DAMAGED) {
		image->stale[page] = 1;
	}
	return 0;
}

/* The file. */

bool image_page_parse(const uint8_t *bytes, uint32_t number, uint32_t usable,
		      struct image_page *page)
{
	unsigned at = number == 1 ? FILE_HEADER : 0;

	*page = (struct image_page){ .bytes = bytes, .number = number, .type = bytes[at] };
	if (page->type != IMAGE_INDEX_LEAF && page->type != IMAGE_TABLE_LEAF &&
	    !image_is_interior(page))
		return false;
	page->cells = image_u16(bytes + at + 3);
	page->pointers = at + (image_is_interior(page) ? 12 : 8);
	page->first = page->pointers + 2 * page->cells;
	page->last = usable - 4;
	if (image_is_interior(page))
		page->right = image_u32(bytes + at + 8);
	/* A cell takes at least four bytes and its place. */
	return page->cells <= (usable - page->pointers) / 6;
}

unsigned image_cell(const struct image_page *page, unsigned number)
{
	unsigned at = image_u16(page->bytes + page->pointers + (size_t)2 * number);

	return at >= page->first && at <= page->last ? at : 0;
}

bool image_page_read(struct image *image, uint32_t number, uint8_t *bytes, struct image_page *page)
{
	return image_read(image, number, bytes) == 0 &&
	       image_page_parse(bytes, number, image->usable, page);
}

/* Cells fill a page from its end on: one that is taken for larger than it is has none there. */
static bool is_plausible(const uint8_t *bytes, uint32_t size, bool first)
{
	struct image_page page;
	unsigned last = 0;

	if (!image_page_parse(bytes, first ? 1 : 2, size, &page))
		return false;
	for (unsigned i = 0; i < page.cells; i++) {
		unsigned at = image_cell(&page, i);

		if (!at)
			return false;
		last = MAX(last, at);
	}
	return last > size / 2;
}

static unsigned count_plausible(int fd, uint64_t file_size, uint32_t size, uint8_t *bytes)
{
	uint64_t pages = file_size / size, step = MAX(pages / SAMPLES, 1);
	unsigned plausible = 0;

	for (uint64_t i = 0; i < pages; i += step)
		plausible += read_at(fd, bytes, size, i * size) == 0 &&
			     is_plausible(bytes, size, i == 0);
	return plausible;
}

/* The size that makes the most of the file pages of b-trees; in doubt what the header says. */
static int guess_page_size(struct image *image, const uint8_t *header, uint64_t file_size)
{
	uint32_t said = image_u16(header + 16) == 1 ? PAGE_MOST : image_u16(header + 16);
	bool can_be = is_page_size(said) && memcmp(header, magic, sizeof(magic)) == 0;
	uint8_t *bytes = malloc(PAGE_MOST);
	uint64_t best = 0;

	if (!bytes)
		return -ENOMEM;
	image->page_size = can_be ? said : SQLITE_PAGE;
	for (uint32_t size = PAGE_LEAST; size <= PAGE_MOST; size *= 2) {
		uint64_t pages = MIN(file_size / size, (uint64_t)SAMPLES);
		uint64_t found = count_plausible(image->fd, file_size, size, bytes);
		uint64_t score = pages ? found * 1000 / pages : 0;

		if (can_be && size == said && found)
			score += 300;
		if (score > best) {
			best = score;
			image->page_size = size;
		}
	}
	free(bytes);
	return 0;
}

static void read_header(struct image *image, const uint8_t *header)
{
	uint32_t reserved = header[20];
	bool whole = memcmp(header, magic, sizeof(magic)) == 0;

	image->usable = image->page_size;
	image->encoding = 1;
	if (!whole)
		return;
	image->header = true;
	if (reserved <= 32 || image->page_size - reserved >= 480)
		image->usable = image->page_size - (reserved < 32 ? reserved : 0);
	image->freelist = image_u32(header + 32);
	image->pointer_map = image_u32(header + 52) != 0;
	if (image_u32(header + 56) >= 1 && image_u32(header + 56) <= 3)
		image->encoding = (uint8_t)image_u32(header + 56);
	if (image_u32(header + 24) == image_u32(header + 92))
		image->expected = image_u32(header + 28);
}

/* Whether the second page looks like one of a pointer map, when the header does not tell. */
static bool looks_mapped(struct image *image, uint8_t *bytes)
{
	unsigned entries = image->usable / 5, used = 0;

	if (image_read(image, 2, bytes) < 0)
		return false;
	for (unsigned i = 0; i < entries; i++) {
		const uint8_t *entry = bytes + (size_t)5 * i;

		if (entry[0] > IMAGE_BTREE || image_u32(entry + 1) > image->pages)
			return false;
		used += entry[0] != 0;
	}
	return used > 0;
}

static int open_log(struct image *image, const char *path, struct log_end *end)
{
	uint8_t header[LOG_HEADER];
	struct log log;
	int r;

	image->wal = descriptor_open(BESIDE(path, "-wal"), O_RDONLY | O_NOFOLLOW, 0);
	if (image->wal < 0)
		return errno == ENOENT ? 0 : -errno;
	log = (struct log){ .fd = image->wal };
	if (read_log_header(&log, header))
		image->page_size = log.page_size;
	r = walk_log(image->wal, image->page_size, find_end, end, &image->log.header);
	image->log.frames = end->frames;
	image->log.damaged = end->damaged;
	return r;
}

static void tell_files(const struct image *image, const struct log_end *end, uint64_t file_size,
		       backend_report_fn *report, void *arg)
{
	if (!image->header)
		report(arg, "the header of the file is damaged");
	/* What the log has in its place is not missing. */
	if (image->expected > image->file_pages && image->expected > end->top)
		sqlite_tell(report, arg,
			    "the file ends after %" PRIu64 " bytes, %" PRIu32 " of %" PRIu32
			    " pages",
			    file_size, image->file_pages, image->expected);
	if (image->wal >= 0 && end->valid && !image->log.header)
		report(arg, "the header of the write-ahead log is damaged");
	if (end->damaged)
		sqlite_tell(report, arg,
			    "damaged frames of the write-ahead log: %" PRIu64 " of %" PRIu64,
			    end->damaged, end->frames);
	if (end->tail)
		sqlite_tell(report, arg,
			    "incomplete or uncommitted frames at the end of the write-ahead log: "
			    "%" PRIu64,
			    end->tail);
}

static int look_at_files(struct image *image, const char *path, backend_report_fn *report,
			 void *arg)
{
	uint8_t header[FILE_HEADER] = { 0 };
	struct log_map map = { .image = image };
	struct log_end end = { 0 };
	uint8_t *bytes;
	struct stat st;
	bool ignored;
	int r;

	if (fstat(image->fd, &st) < 0)
		return -errno;
	read_at(image->fd, header, MIN((uint64_t)st.st_size, sizeof(header)), 0);
	r = guess_page_size(image, header, (uint64_t)st.st_size);
	if (r == 0)
		r = open_log(image, path, &end);
	if (r < 0)
		return r;
	image->file_pages =
		(uint32_t)MIN(((uint64_t)st.st_size + image->page_size - 1) / image->page_size,
			      (uint64_t)PAGES_MOST);
	image->pages = end.pages ? end.pages : image->file_pages;
	image->pages = MIN(image->pages, MAX(image->file_pages, end.top));
	image->frame = calloc((size_t)image->pages + 1, sizeof(*image->frame));
	image->stale = calloc((size_t)image->pages + 1, 1);
	image->map = malloc(image->page_size);
	r = image->frame && image->stale && image->map ? 0 : -ENOMEM;
	map.frames = end.frames;
	if (r == 0 && end.frames)
		r = walk_log(image->wal, image->page_size, map_frame, &map, &ignored);
	bytes = r == 0 ? malloc(image->page_size) : NULL;
	if (!bytes)
		return r < 0 ? r : -ENOMEM;
	if (image_read(image, 1, bytes) == 0)
		memcpy(header, bytes, sizeof(header));
	read_header(image, header);
	if (end.pages)
		image->expected = end.pages;
	if (!image->header)
		image->pointer_map = looks_mapped(image, bytes);
	free(bytes);
	tell_files(image, &end, (uint64_t)st.st_size, report, arg);
	return 0;
}

int image_open(const char *path, backend_report_fn *report, void *arg, struct image *ret_image,
	       char **ret_why)
{
	struct image image = { .fd = -1, .wal = -1 };
	struct stat st;
	int r = 0;

	image.fd = descriptor_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
	if (image.fd < 0 || fstat(image.fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode))
		r = -EMEDIUMTYPE;
	if (r == -EMEDIUMTYPE)
		str_explain(ret_why, r, "%s is not a regular file, so it is not a store", path);
	else if (r < 0)
		str_explain(ret_why, r, "cannot open %s: %s", path, strerror(-r));
	else
		r = look_at_files(&image, path, report, arg);
	if (r < 0) {
		image_close(&image);
		return r;
	}
	*ret_image = image;
	return 0;
}

void image_close(struct image *image)
{
	closep(&image->fd);
	closep(&image->wal);
	free(image->frame);
	free(image->stale);
	free(image->map);
	*image = (struct image){ .fd = -1, .wal = -1 };
}

int image_read(struct image *image, uint32_t page, uint8_t *bytes)
{
	uint64_t size = image->page_size, frame;

	if (!image_has_page(image, page))
		return -ENODATA;
	frame = image->frame[page];
	if (frame)
		return read_at(image->wal, bytes, size,
			       LOG_HEADER + (frame - 1) * (FRAME_HEADER + size) + FRAME_HEADER);
	return read_at(image->fd, bytes, size, (page - 1) * size);
}

/* The pointer map: a page of it before each run of the pages that it tells about. */

static uint32_t lock_page(const struct image *image)
{
	return 0x40000000 / image->page_size + 1;
}

static uint32_t map_page_of(const struct image *image, uint32_t page)
{
	uint32_t run = image->usable / 5 + 1, found;

	if (page < 2)
		return 0;
	found = (page - 2) / run * run + 2;
	return found == lock_page(image) ? found + 1 : found;
}

bool image_is_special(const struct image *image, uint32_t page)
{
	return page == lock_page(image) || (image->pointer_map && map_page_of(image, page) == page);
}

enum image_use image_use(struct image *image, uint32_t page, uint32_t *ret_parent)
{
	uint32_t map, at;

	*ret_parent = 0;
	if (!image->pointer_map || page < 3 || image_is_special(image, page))
		return IMAGE_UNKNOWN;
	map = map_page_of(image, page);
	at = 5 * (page - map - 1);
	if (map > page || at + 5 > image->usable)
		return IMAGE_UNKNOWN;
	if (image->map_page != map) {
		image->map_page = 0;
		if (image_read(image, map, image->map) < 0)
			return IMAGE_UNKNOWN;
		image->map_page = map;
	}
	if (image->map[at] > IMAGE_BTREE)
		return IMAGE_UNKNOWN;
	*ret_parent = image_u32(image->map + at + 1);
	return (enum image_use)image->map[at];
}

/* Beside a writer a frame may be read while it is written: so what counts is what two looks in
 * which the log was not begun anew have both seen. */
void image_check_log(const char *path, backend_report_fn *report, void *arg)
{
	_cleanup_(closep) int fd = descriptor_open(BESIDE(path, "-wal"), O_RDONLY | O_NOFOLLOW, 0);
	uint8_t before[LOG_HEADER], after[LOG_HEADER];
	struct log_end first = { 0 }, second = { 0 };
	struct log log = { .fd = fd };
	bool ignored;

	if (fd < 0 || !read_log_header(&log, before) ||
	    walk_log(fd, log.page_size, find_end, &first, &ignored) < 0 || !first.damaged ||
	    walk_log(fd, log.page_size, find_end, &second, &ignored) < 0 || !second.damaged ||
	    first.first_damaged != second.first_damaged ||
	    read_at(fd, after, sizeof(after), 0) < 0 || memcmp(before, after, sizeof(after)) != 0)
		return;
	sqlite_tell(report, arg,
		    "damaged frames of the write-ahead log: %" PRIu64 " of %" PRIu64
		    "; SQLite does not see what follows them: after a power failure, that was "
		    "never synced; otherwise 'sessfs check --repair' rescues it",
		    second.damaged, second.frames);
}
