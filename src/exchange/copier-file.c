/* SPDX-License-Identifier: MIT */
/*
 * How a file is copied.
 *
 * If it is there with the same size and the same time, it counts as the same, as in rsync, and its
 * bytes are not read (unless COPIER_CHECKSUM).  So a second run, or one after an interruption,
 * takes only as long as looking up the names.
 *
 * Otherwise, in a store, the bytes are compared up to the first difference.  If a list has grown by
 * little, the new lines are added in one append, which is one transaction.  All else is replaced:
 * the bytes go into a file beside it, with all the attributes, which is then renamed over it
 * (src/store/file.c).  In a store that is one transaction, too, and changes only the rows that
 * differ.  So at any end of this process each file is either old or new, and the next run skips
 * those that are done.
 *
 * In a store attributes are compared in any case.  Files are synced once, at the end: after a power
 * loss before that, the next run copies again what was lost.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "src/exchange/copier.h"
#include "src/store/way.h"
#include "src/user/stop.h"

enum {
	BLOCK = 256 * 1024,
	HOLE = 64 * 1024,     /* zeros that are a hole in an ordinary file */
	APPEND_MAX = 1 << 20, /* bytes that one write brings through a mount */
};

/* ---- What was done ---- */

void copier_print(struct copier *copier, const char *action, const char *what, const char *name)
{
	WITH_PROGRESS_HELD;

	if (!copier->list.json) {
		printf("%-10s  ", action);
		say_name(name, "\n");
		return;
	}
	say_item(&copier->list,
		 json_pack("{ss so}", "action", action, what, say_json_name(name, strlen(name))));
}

static void count_done(struct copier *copier, const char *path, enum copier_did did)
{
	static const char *const words[] = { "unchanged", "create", "replace", "append",
					     "attributes" };

	copier->did[did]++;
	if (copier_is_dry(copier))
		copier_print(copier, words[did], "path", path);
}

static int settle_and_count(struct copier *copier, struct copier_entry *entry, enum copier_did did,
			    const struct stat *there)
{
	int r = copier_is_dry(copier) && did != COPIER_UNCHANGED ?
			0 :
			copier_settle(copier, entry, there);

	if (r < 0)
		return r;
	count_done(copier, entry->path, r && did == COPIER_UNCHANGED ? COPIER_DRESSED : did);
	return 0;
}

/* ---- Regular files ---- */

int copier_read(struct copier_entry *entry, size_t size, struct buf *block)
{
	size_t start;
	int r;

	if (!entry->file) {
		start = MIN(size, entry->data.size);
		r = buf_append(block, entry->data.data, start);
		entry->data = bytes_make(entry->data.data + start, entry->data.size - start);
		return r;
	}
	r = access_file_fill(entry->file, size, block);
	entry->broken |= r < 0;
	return r;
}

struct plan {
	enum copier_did did;
	uint64_t from; /* the offset from which bytes are to be appended */
	bool looks_same;
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

static void read_on(struct copier_entry *entry, struct bytes data, uint64_t offset)
{
	if (entry->file)
		access_file_seek(entry->file, offset);
	else
		entry->data = bytes_make(data.data + offset, data.size - offset);
}

/* The source was read from its beginning; go back to it. */
static int compare(struct copier *copier, struct copier_entry *entry, struct comparison *comparison)
{
	_cleanup_(access_file_dropp) struct access_file *there = NULL;
	_cleanup_(buf_done) struct buf ours = { 0 }, theirs = { 0 };
	const struct bytes data = entry->data;
	struct copier_entry other = { 0 };
	size_t same;
	int r = access_file_open(copier->to, entry->path, ACCESS_FILE_READ, &there);

	*comparison = (struct comparison){ 0 };
	other.file = there;
	do {
		buf_clear(&ours);
		buf_clear(&theirs);
		if (r == 0)
			r = copier_read(entry, BLOCK, &ours);
		if (r == 0)
			r = copier_read(&other, BLOCK, &theirs);
		tick(0); /* it may take long */
		if (r < 0)
			return r;
		same = common(&ours, &theirs);
		comparison->same += same;
		if (same)
			comparison->last = ours.data[same - 1];
		comparison->source_ends = same == ours.size && ours.size < BLOCK;
		comparison->there_ends = same == theirs.size && theirs.size < BLOCK;
	} while (same == BLOCK);
	read_on(entry, data, 0);
	return 0;
}

/* What a name in the target is: a state's, or ordinary. */
static uint32_t kind_of(const struct copier *copier, const char *path)
{
	const char *slash = copier->flags & COPIER_ROWS ? strrchr(path, '/') : NULL;

	return slash ? names_split(bytes_str(slash + 1)).kind : BACKEND_ORDINARY;
}

static int plan_file(struct copier *copier, struct copier_entry *entry, struct plan *plan)
{
	struct comparison comparison;
	struct stat *there = &plan->there;
	int r = copier_stat(copier, entry->path, there);

	plan->did = r == -ENOENT ? COPIER_CREATED : COPIER_REPLACED;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (S_ISDIR(there->st_mode))
		return -EISDIR;
	if (!S_ISREG(there->st_mode))
		return copier->flags & COPIER_GROW ? -ESTALE : 0;
	plan->looks_same = there->st_size == entry->st.st_size && (entry->set & ACCESS_SET_TIMES) &&
			   copier_same_time(&there->st_mtim, &entry->st.st_mtim) &&
			   !(copier->flags & COPIER_CHECKSUM);
	if (plan->looks_same)
		plan->did = COPIER_UNCHANGED;
	if (plan->looks_same || !(copier->flags & (COPIER_ROWS | COPIER_GROW | COPIER_VERIFY)))
		return 0;
	r = compare(copier, entry, &comparison);
	if (r < 0)
		return r;
	if (comparison.there_ends && comparison.source_ends)
		plan->did = COPIER_UNCHANGED;
	else if (comparison.there_ends &&
		 (copier->flags & COPIER_GROW || (comparison.same && comparison.last == '\n' &&
						  kind_of(copier, entry->path) == BACKEND_LIST)))
		*plan = (struct plan){ COPIER_APPENDED, comparison.same, false, *there };
	else if (copier->flags & COPIER_GROW && comparison.source_ends)
		plan->did = COPIER_UNCHANGED;
	else if (copier->flags & COPIER_GROW)
		return -ESTALE;
	return 0;
}

/* So many zeros at an offset are a hole; a source that knows none has none. */
static uint64_t hole_size(const struct copier_entry *entry, uint64_t offset)
{
	const uint64_t size = (uint64_t)entry->st.st_size;
	off_t data = !entry->file || offset >= size ?
			     (off_t)offset :
			     access_file_extent(entry->file, offset, SEEK_DATA);

	/* None behind: then it is one to the end, if there are any. */
	if (data < 0)
		return access_file_extent(entry->file, offset, SEEK_HOLE) == (off_t)offset ?
			       size - offset :
			       0;
	return MIN((uint64_t)data, MAX(size, offset)) - offset;
}

/* A hole longer than any row has no newline in it. */
static bool is_never_rows(const struct copier *copier, const struct copier_entry *entry)
{
	const uint32_t kind = kind_of(copier, entry->path);
	off_t hole = 0;

	if (!entry->file || kind == BACKEND_ORDINARY)
		return false;
	if (kind != BACKEND_LIST)
		return entry->st.st_size > INT32_MAX;
	while (hole < entry->st.st_size &&
	       (hole = access_file_extent(entry->file, (uint64_t)hole, SEEK_HOLE)) >= 0) {
		const uint64_t size = hole_size(entry, (uint64_t)hole);

		if (size > INT32_MAX)
			return true;
		if (!size)
			break;
		hole += (off_t)size;
	}
	return false;
}

static bool is_zero(struct bytes bytes)
{
	return bytes.size && !bytes.data[0] &&
	       memcmp(bytes.data, bytes.data + 1, bytes.size - 1) == 0;
}

/* A block at an offset; zeros become holes. */
static int write_sparse(struct access_file *out, struct bytes block, uint64_t offset)
{
	int r = 0;

	while (r == 0 && block.size) {
		size_t size = 0, next = MIN(block.size, HOLE - (size_t)(offset % HOLE));
		const bool zero = is_zero(bytes_make(block.data, next));

		do {
			size += next;
			next = MIN(block.size - size, HOLE);
		} while (next && is_zero(bytes_make(block.data + size, next)) == zero);
		if (zero)
			access_file_skip(out, size);
		else
			r = access_file_write(out, bytes_make(block.data, size));
		offset += size;
		block = bytes_make(block.data + size, block.size - size);
	}
	return r;
}

static int copy(struct copier *copier, struct copier_entry *entry, uint64_t offset, size_t size,
		struct access_file *out)
{
	const bool sparse =
		kind_of(copier, entry->path) == BACKEND_ORDINARY && !(copier->flags & COPIER_GROW);
	_cleanup_(buf_done) struct buf block = { 0 };
	int r;

	read_on(entry, entry->data, offset);
	do {
		const uint64_t hole = sparse ? hole_size(entry, offset) : 0;

		if (hole) {
			access_file_skip(out, hole);
			offset += hole;
			read_on(entry, entry->data, offset);
			progress_add(&copier->progress, 0, hole);
		}
		buf_clear(&block);
		r = copier_read(entry, size, &block);
		if (r == 0)
			r = sparse ? write_sparse(out, buf_bytes(&block), offset) :
				     access_file_write(out, buf_bytes(&block));
		offset += block.size;
		copier->bytes += block.size;
		progress_add(&copier->progress, 0, block.size);
	} while (r == 0 && block.size == size);
	return r;
}

static int write_file(struct copier *copier, struct copier_entry *entry, const struct plan *plan)
{
	const bool grows = copier->flags & COPIER_GROW;
	const bool much = (uint64_t)entry->st.st_size - plan->from > APPEND_MAX;
	const bool appends = grows || (plan->did == COPIER_APPENDED && !much);
	struct stat like = entry->st;
	struct access_file *out = NULL;
	int r = access_file_open(copier->to, entry->path,
				 appends ? ACCESS_FILE_APPEND : ACCESS_FILE_REPLACE, &out);

	if (r < 0)
		return r;
	access_file_sync_later(out);
	like.st_mode = (like.st_mode & S_IFMT) | copier_mode(copier, entry);
	if (!grows)
		access_file_dress(out, &like, entry->set);
	if (appends)
		progress_add(&copier->progress, 0, plan->from);
	if (entry->set & ACCESS_SET_TIMES && kind_of(copier, entry->path) != BACKEND_ORDINARY)
		r = access_file_date(out, &entry->st.st_mtim);
	if (r == 0)
		r = copy(copier, entry, appends ? plan->from : 0, appends ? 2 * APPEND_MAX : BLOCK,
			 out);
	/* Only root can set attributes of a file without write permission, so set them before it is
	 * saved. */
	if (r == 0 && !appends && !(copier->flags & COPIER_ROWS))
		r = MIN(copier_settle_xattrs(copier, entry, out), 0);
	if (r == 0)
		return access_file_save(out);
	access_file_drop(out);
	return r;
}

/* The store keeps bytes that are not JSON beside its rows, and logs that; count and name the files
 * that have brought them. */
static int count_invalid(struct copier *copier, const struct copier_entry *entry)
{
	_cleanup_(buf_done) struct buf value = { 0 };
	int r = access_get_xattr(copier->to, entry->path, "user.sessfs.invalid", &value);

	if (r < 0)
		return copier_is_fatal(r) ? r : 0;
	return ++copier->invalid > COPIER_NAMED ?
		       0 :
		       buf_printf(&copier->invalid_names, "%s%s", copier->invalid > 1 ? ", " : "",
				  entry->path);
}

/* Lines that came to the source meanwhile are copied at the end. */
static int verify(struct copier *copier, struct copier_entry *entry)
{
	struct comparison comparison;
	int r;

	read_on(entry, entry->data, 0);
	r = compare(copier, entry, &comparison);
	if (r < 0 || comparison.there_ends)
		return r;
	if (copier->flags & COPIER_GROW)
		return comparison.source_ends ? 0 : -ESTALE;
	log_error("the copy of %s differs from it; is a client running?", entry->name);
	copier->stopped = true;
	return -EBUSY;
}

static int bring(struct copier *copier, struct copier_entry *entry, const struct plan *plan)
{
	struct stat there;
	int r = plan->did == COPIER_REPLACED ? copier_stat(copier, entry->path, &there) : -ENOENT;

	/* Remove anything but a regular file. */
	if (r == 0 && !S_ISREG(there.st_mode))
		r = access_remove(copier->to, entry->path, false);
	else if (r == -ENOENT)
		r = 0;
	if (r == 0)
		r = write_file(copier, entry, plan);
	if (r == 0 && kind_of(copier, entry->path) != BACKEND_ORDINARY)
		r = count_invalid(copier, entry);
	return r == 0 && copier->flags & COPIER_VERIFY ? verify(copier, entry) : r;
}

int copier_file(struct copier *copier, struct copier_entry *entry)
{
	const uint64_t begun = copier->progress.bytes;
	struct plan plan = { 0 };
	int r = is_never_rows(copier, entry) ? -EFBIG : plan_file(copier, entry, &plan);
	bool as_is;
	uint64_t passed;

	/* Somebody may be writing to what grows; what replaces a file has all already. */
	as_is = copier->flags & COPIER_GROW ?
			plan.did != COPIER_CREATED :
			!(copier->flags & COPIER_ROWS) &&
				(plan.looks_same || plan.did != COPIER_UNCHANGED);
	if (r == 0 && plan.did != COPIER_UNCHANGED && !copier_is_dry(copier))
		r = bring(copier, entry, &plan);
	if (r == 0 && as_is)
		count_done(copier, entry->path, plan.did);
	else if (r == 0)
		r = settle_and_count(copier, entry, plan.did,
				     plan.did == COPIER_UNCHANGED ? &plan.there : NULL);
	passed = copier->progress.bytes - begun;
	progress_add(&copier->progress, 1,
		     (uint64_t)entry->st.st_size > passed ? (uint64_t)entry->st.st_size - passed :
							    0);
	return r;
}

/* ---- Links and special files ---- */

/* 1: what is there is the same. */
static int is_there(struct copier *copier, const struct copier_entry *entry, enum copier_did *did)
{
	_cleanup_(buf_done) struct buf target = { 0 };
	struct stat there;
	int r = copier_stat(copier, entry->path, &there);

	*did = r == -ENOENT ? COPIER_CREATED : COPIER_REPLACED;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (S_ISDIR(there.st_mode))
		return -EISDIR;
	if ((there.st_mode ^ entry->st.st_mode) & S_IFMT)
		return 0;
	if (!S_ISLNK(there.st_mode))
		return 1;
	r = access_read_link(copier->to, entry->path, &target);
	return r < 0 ? r : bytes_equal(buf_bytes(&target), bytes_str(entry->target));
}

static int link_first(struct copier *copier, struct copier_entry *entry)
{
	struct stat one, other;
	enum copier_did did;
	int r;

	if (kind_of(copier, entry->path) != BACKEND_ORDINARY ||
	    kind_of(copier, entry->first) != BACKEND_ORDINARY)
		return 1;
	r = copier_stat(copier, entry->path, &other);
	did = r == -ENOENT ? COPIER_CREATED : COPIER_REPLACED;
	if (r == 0 && copier_stat(copier, entry->first, &one) == 0 && one.st_ino == other.st_ino)
		did = COPIER_UNCHANGED;
	else if (!copier_is_dry(copier))
		r = access_link(copier->to, entry->first, entry->path, true);
	if (r == -EPERM)
		return 1;
	progress_add(&copier->progress, 1, (uint64_t)entry->st.st_size);
	if (r < 0 && !(r == -ENOENT && copier_is_dry(copier)))
		return r;
	count_done(copier, entry->path, did);
	return 0;
}

int copier_other(struct copier *copier, struct copier_entry *entry)
{
	const struct access_new what = { .mode = (entry->st.st_mode & S_IFMT) |
						 copier_mode(copier, entry),
					 .target = entry->target };
	enum copier_did did;
	int r;

	if (entry->first)
		return link_first(copier, entry);
	r = is_there(copier, entry, &did);
	if (r > 0)
		did = COPIER_UNCHANGED;
	else if (r == 0 && !copier_is_dry(copier))
		r = access_make(copier->to, entry->path, &what, true);
	if (r >= 0)
		r = settle_and_count(copier, entry, did, NULL);
	progress_add(&copier->progress, 1, 0);
	return r;
}

/* ---- Directories ---- */

int copier_enter(struct copier *copier, struct copier_entry *dir)
{
	const struct access_new what = { .mode = dir->st.st_mode | 0700 };
	struct stat there;
	int r = copier_stat(copier, dir->path, &there);

	if (r == -ENOENT)
		return copier_is_dry(copier) ? 0 : access_make(copier->to, dir->path, &what, false);
	if (r < 0 || S_ISDIR(there.st_mode))
		return r;
	if (copier->flags & COPIER_STRICT)
		return -EEXIST;
	copier_refuse(copier,
		      "%s: %s: a file has the name of this directory, which is skipped with "
		      "everything in it",
		      copier->store, dir->path);
	return 1;
}

int copier_leave(struct copier *copier, struct copier_entry *dir)
{
	return MIN(copier_settle(copier, dir, NULL), 0);
}

const struct copier_sink copier_target = {
	.enter = copier_enter,
	.leave = copier_leave,
	.file = copier_file,
	.other = copier_other,
};
