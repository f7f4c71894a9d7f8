/* SPDX-License-Identifier: MIT */
#include "tests/random/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "fs/base/json.h"

const struct name names[NAMES] = {
	{ "s/k.json", SINGLE, "k", "k.json" },
	{ "s/k.jsonl", LIST, "k", "k.jsonl" },
	{ "s/k.hash", SIDECAR, "k:_hash", "k.hash:_hash" },
	{ "s/l.jsonl", LIST, "l", "l.jsonl" },
	{ "s/d/k.jsonl", LIST, "d/k", "d/k.jsonl" },
	{ "s/d/k.json", SINGLE, "d/k", "d/k.json" },
	/* By no temporary name: of those two writers have a save each (unit/tree-temporary.c). */
	{ "s/l.jsonl.new", ORDINARY, "", "" },
	{ "s/m.json", SINGLE, "m", "m.json" },
	{ "s/d/o.txt", ORDINARY, "", "" },
	{ "r.jsonl", ORDINARY, "", "" },
	{ "s/.json", ORDINARY, "", "" },
};

static void must(int error)
{
	if (error < 0)
		abort();
}

static void put(struct buf *buf, struct bytes bytes)
{
	must(buf_append_bytes(buf, bytes));
}

static void set(struct buf *buf, struct bytes bytes)
{
	struct buf copy = { 0 };

	/* The bytes may be the buffer's own. */
	put(&copy, bytes);
	buf_done(buf);
	*buf = copy;
}

static void write_into(struct buf *buf, size_t offset, struct bytes data)
{
	if (!data.size)
		return;
	if (offset + data.size > buf->size)
		must(buf_append_zeros(buf, offset + data.size - buf->size));
	memcpy(buf->data + offset, data.data, data.size);
}

static void cut(struct buf *buf, size_t size)
{
	if (size > buf->size)
		must(buf_append_zeros(buf, size - buf->size));
	buf->size = size;
}

/* ---- lines ---- */

/* The next line with its newline. */
static bool next_line(struct bytes *rest, struct bytes *ret_line)
{
	const char *newline = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
	size_t size = newline ? (size_t)(newline - rest->data) + 1 : rest->size;

	*ret_line = bytes_make(rest->data, size);
	*rest = bytes_make(rest->data + size, rest->size - size);
	return size > 0;
}

static struct bytes without_newline(struct bytes line)
{
	return bytes_make(line.data, line.size - (line.size && line.data[line.size - 1] == '\n'));
}

static bool is_row(struct bytes line)
{
	return json_valid(line, NULL);
}

static bool is_blank(struct bytes line)
{
	for (size_t i = 0; i < line.size; i++)
		if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r' &&
		    line.data[i] != '\n')
			return false;
	return true;
}

static bool is_good(struct bytes line)
{
	return is_blank(line) || is_row(line);
}

/* What is behind the last newline. */
static struct bytes tail_of(struct bytes bytes)
{
	const char *newline = bytes.size ? memrchr(bytes.data, '\n', bytes.size) : NULL;
	size_t before = newline ? (size_t)(newline - bytes.data) + 1 : 0;

	return bytes_make(bytes.data + before, bytes.size - before);
}

static bool has_bad_line(struct bytes rest)
{
	struct bytes line;

	while (next_line(&rest, &line))
		if (!is_good(without_newline(line)))
			return true;
	return false;
}

size_t invalid_count(const struct file *file)
{
	struct bytes rest = buf_bytes(&file->now->bytes), line;
	size_t count = 0;

	if (file->kind == ORDINARY)
		return 0;
	if (file->kind != LIST)
		return file->draft;
	while (next_line(&rest, &line))
		count += !is_good(without_newline(line));
	return count;
}

/* ---- versions ---- */

static struct version *version_new(void)
{
	struct version *version = calloc(1, sizeof(*version));

	if (!version)
		abort();
	version->count = 1;
	return version;
}

static struct version *version_ref(struct version *version)
{
	version->count++;
	return version;
}

static void version_unref(struct version **link)
{
	struct version *version = *link;

	*link = NULL;
	while (version && --version->count == 0) {
		struct version *next = version->next;

		buf_done(&version->bytes);
		free(version);
		version = next;
	}
}

static void replace(struct file *file, struct bytes bytes, bool seen_at_once)
{
	struct version *old = file->now, *new = version_new();
	size_t common = MIN(old->bytes.size, bytes.size);

	set(&new->bytes, bytes);
	old->seen_at_once =
		seen_at_once || (old->bytes.size <= bytes.size &&
				 (!common || !memcmp(old->bytes.data, bytes.data, common)));
	old->next = version_ref(new);
	version_unref(&file->now);
	file->now = new;
}

/* ---- rows ---- */

static void rows_cut(struct file *file, size_t count)
{
	while (file->row_count > count)
		buf_done(&file->rows[--file->row_count].data);
}

static void row_set(struct file *file, size_t index, struct bytes data)
{
	struct row *row;

	if (index == file->row_count) {
		/* There is room for the next power of two. */
		if ((index & (index - 1)) == 0)
			file->rows =
				reallocarray(file->rows, MAX(2 * index, (size_t)1), sizeof(*row));
		if (!file->rows)
			abort();
		file->rows[file->row_count++] = (struct row){ 0 };
		set(&file->rows[index].data, data);
		return;
	}
	row = &file->rows[index];
	if (bytes_equal(buf_bytes(&row->data), data))
		return;
	set(&row->data, data);
	if (*row->updated)
		strcpy(row->moved, row->updated);
	*row->created = *row->updated = '\0';
}

/* Rows are what the bytes say; those that did not change are not touched. */
static void rows_from_lines(struct file *file)
{
	struct bytes rest = buf_bytes(&file->valid), line;
	size_t count = 0;

	while (next_line(&rest, &line))
		if (is_row(without_newline(line)))
			row_set(file, count++, without_newline(line));
	rows_cut(file, count);
}

static bool is_text(struct bytes bytes)
{
	return bytes.size && utf8_valid(bytes) && !memchr(bytes.data, '\0', bytes.size);
}

/* Section 3: whether the bytes of a save are kept as a draft. */
static bool is_draft(const struct contract *contract, const struct file *file, struct bytes bytes)
{
	switch (file->kind) {
	case SINGLE:
		return !is_row(bytes);
	case SIDECAR:
		return !is_text(bytes);
	case LIST:
		return (contract->strict && has_bad_line(bytes)) ||
		       (file->row_count && !is_good(tail_of(bytes)));
	case ORDINARY:
		break;
	}
	return false;
}

static void rows_judge(const struct contract *contract, struct file *file)
{
	struct bytes bytes = buf_bytes(&file->now->bytes);

	file->draft = is_draft(contract, file, bytes);
	if (file->draft)
		return;
	if (file->kind == ORDINARY) {
		rows_cut(file, 0);
		return;
	}
	set(&file->valid, bytes);
	if (file->kind == LIST) {
		rows_from_lines(file);
		return;
	}
	row_set(file, 0, bytes);
	rows_cut(file, 1);
}

static void set_times(struct contract *contract, struct file *file)
{
	file->mtime = -1;
	file->mtime_from = contract->now;
}

/* By who wrote then, unless a time was set since. */
static void set_times_by(const struct user_file *user)
{
	if (user->keeps_times)
		return;
	user->file->mtime = -1;
	user->file->mtime_from = user->written;
}

/* Nothing has changed but times, perhaps. */
static void may_set_times(const struct contract *contract, struct file *file)
{
	if (file->mtime >= 0)
		file->mtime_from = MIN(file->mtime, contract->now);
	file->mtime = -1;
}

/* A save. */
static void publish(const struct contract *contract, struct file *file, struct bytes bytes)
{
	file->borrows = false;
	file->changes++;
	replace(file, bytes, false);
	if (!file->orphan)
		rows_judge(contract, file);
}

/* ---- what a kill takes away ---- */

static void all_is_stored(struct file *file)
{
	for (size_t i = 0; i < file->earlier_count; i++)
		buf_done(&file->earlier[i]);
	free(file->earlier);
	file->earlier = NULL;
	file->earlier_count = 0;
}

static void may_be_lost(struct file *file)
{
	file->earlier = reallocarray(file->earlier, file->earlier_count + 1, sizeof(struct buf));
	if (!file->earlier)
		abort();
	file->earlier[file->earlier_count] = (struct buf){ 0 };
	put(&file->earlier[file->earlier_count++], buf_bytes(&file->now->bytes));
}

/* Whether bytes are those before a write with the first part of it in them, or all or none of it:
 * the kernel may make several requests of one write. */
static bool is_between(struct bytes before, struct bytes after, struct bytes seen)
{
	size_t same = 0, size;

	while (same < after.size && same < seen.size && after.data[same] == seen.data[same])
		same++;
	size = MAX(before.size, same);
	return seen.size == size &&
	       (size == same || !memcmp(seen.data + same, before.data + same, size - same));
}

bool may_be_left(struct file *file, struct bytes seen)
{
	struct bytes after = buf_bytes(&file->now->bytes);
	bool may = bytes_equal(after, seen);

	for (size_t i = file->earlier_count; i-- > 0 && !may;) {
		may = is_between(buf_bytes(&file->earlier[i]), after, seen);
		after = buf_bytes(&file->earlier[i]);
	}
	if (may)
		set(&file->now->bytes, seen);
	all_is_stored(file);
	return may;
}

/* ---- files ---- */

struct file *file_named(struct contract *contract, int name)
{
	for (struct file *file = contract->files; file; file = file->next)
		if (file->name == name)
			return file;
	return NULL;
}

struct file *file_with_key(struct contract *contract, const char *key)
{
	for (struct file *file = contract->files; file; file = file->next)
		if (file->name >= 0 && file->kind != ORDINARY && strcmp(file->key, key) == 0)
			return file;
	return NULL;
}

static struct file *ghost_with_key(struct contract *contract, const char *key)
{
	for (struct file *file = contract->files; file; file = file->next)
		if (file->ghost && strcmp(file->key, key) == 0)
			return file;
	return NULL;
}

static void file_free(struct file *file)
{
	version_unref(&file->now);
	all_is_stored(file);
	buf_done(&file->valid);
	rows_cut(file, 0);
	free(file->rows);
	free(file);
}

/* Nobody can see it any more. */
static void file_drop(struct contract *contract, struct file *gone)
{
	struct file **link = &contract->files;

	if (gone->name >= 0 || gone->ghost || gone->open)
		return;
	while (*link != gone)
		link = &(*link)->next;
	*link = gone->next;
	file_free(gone);
}

void contract_done(struct contract *contract)
{
	while (contract->files) {
		struct file *next = contract->files->next;

		file_free(contract->files);
		contract->files = next;
	}
}

static struct file *file_new(struct contract *contract, int name)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		abort();
	file->name = -1;
	file->kind = names[name].kind;
	file->now = version_new();
	file->next = contract->files;
	file->mode = 0644;
	set_times(contract, file);
	contract->files = file;
	return file;
}

/* Section 2. */
static void find_key(struct contract *contract, int name, const struct file *except, char *key)
{
	const struct file *other = file_with_key(contract, names[name].key);

	strcpy(key, other && other != except ? names[name].own_key : names[name].key);
}

static void orphan(struct file *file)
{
	file->ghost = false;
	file->name = -1;
	rows_cut(file, 0);
	file->draft = false;
	file->orphan = file->kind != ORDINARY;
}

static void ghost_end(struct contract *contract, struct file *ghost)
{
	orphan(ghost);
	file_drop(contract, ghost);
}

static void take_rows(struct file *file, struct file *from)
{
	rows_cut(file, 0);
	free(file->rows);
	file->rows = from->rows;
	file->row_count = from->row_count;
	from->rows = NULL;
	from->row_count = 0;
}

static void rows_to_valid(struct file *file)
{
	buf_clear(&file->valid);
	for (size_t i = 0; i < file->row_count; i++) {
		put(&file->valid, buf_bytes(&file->rows[i].data));
		if (file->kind == LIST)
			put(&file->valid, BYTES("\n"));
		else
			break;
	}
}

/* Whether a file with this mode is seen by nobody who does not see one with the other. */
static bool shows_no_more(mode_t mode, mode_t other)
{
	return !(mode & 044 & ~other);
}

/* What a file has inherited is neither shown to more nor moved before it is saved. */
static void borrowed_drop(struct contract *contract, struct file *file)
{
	if (file->borrows && file->made_on == contract->mount)
		publish(contract, file, BYTES(""));
}

int file_set_mode(struct contract *contract, int name, mode_t mode)
{
	struct file *file = file_named(contract, name);

	if (!file)
		return -ENOENT;
	if (!shows_no_more(mode, file->mode))
		borrowed_drop(contract, file);
	file->mode = mode;
	return 0;
}

bool would_inherit(struct contract *contract, int name)
{
	char key[32];

	if (names[name].kind == ORDINARY)
		return false;
	find_key(contract, name, NULL, key);
	return ghost_with_key(contract, key) != NULL;
}

/* Unlink and write again is a save: others see the previous rows until the writer closes. */
static struct file *file_make(struct contract *contract, int name, bool will_save)
{
	struct file *file = file_new(contract, name), *ghost;

	if (file->kind != ORDINARY)
		find_key(contract, name, NULL, file->key);
	file->name = name;
	file->made_on = contract->mount;
	ghost = file->kind != ORDINARY ? ghost_with_key(contract, file->key) : NULL;
	file->draft = file->kind == SINGLE || file->kind == SIDECAR;
	if (ghost && will_save && ghost->kind == file->kind && ghost->left_on == contract->mount &&
	    shows_no_more(file->mode, ghost->mode)) {
		file->inherited = file->borrows = true;
		take_rows(file, ghost);
		rows_to_valid(file);
		set(&file->now->bytes, buf_bytes(&file->valid));
		file->draft = false;
	}
	if (ghost)
		contract->inherits_from = ghost->ghost_at;
	if (ghost)
		ghost_end(contract, ghost);
	return file;
}

/* ---- open files ---- */

static bool writes(const struct user_file *user)
{
	return (user->flags & O_ACCMODE) != O_RDONLY;
}

static void begin_save(struct user_file *user, bool keep)
{
	if (user->state == SAVES)
		return;
	buf_clear(&user->stage);
	if (keep)
		put(&user->stage, buf_bytes(&user->file->now->bytes));
	user->kept = user->stage.size;
	user->seen = user->file->now->bytes.size;
	user->only_adds = keep;
	user->begun_changes = user->file->changes;
	if (keep)
		put(&user->stage, buf_bytes(&user->piece));
	user->only_cut = user->stage.size == user->kept;
	buf_clear(&user->piece);
	user->state = SAVES;
	user->dirty = user->streams = false;
}

static void forget_reads(struct user_file *user)
{
	version_unref(&user->from);
	user->reads_on = user->unsure = false;
}

static void staged(struct contract *contract, struct user_file *user)
{
	user->dirty = true;
	user->keeps_times = user->paused = false;
	user->written = contract->now;
	forget_reads(user);
}

int user_open(struct contract *contract, struct user_file *user, int name, int flags, int process)
{
	struct file *file = file_named(contract, name);

	if (file && (flags & O_CREAT) && (flags & O_EXCL))
		return -EEXIST;
	if (!file && !(flags & O_CREAT))
		return -ENOENT;
	if (!file)
		file = file_make(contract, name,
				 (flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND));
	*user = (struct user_file){
		.is_open = true,
		.file = file,
		.flags = flags,
		.process = process,
	};
	file->open++;
	user->opened = version_ref(file->now);
	user->opened_size = file->now->bytes.size;
	user->was_ordinary = file->kind == ORDINARY;
	if (user->was_ordinary) {
		/* Should it get a state's name. */
		user->cached = contract->caches && !writes(user);
		if (flags & O_TRUNC) {
			file->changes += file->now->bytes.size > 0;
			cut(&file->now->bytes, 0);
			set_times(contract, file);
		}
		return 0;
	}
	if (!writes(user)) {
		user->cached =
			contract->caches && file->kind == LIST && file->now->bytes.size >= 1 << 20;
		if (flags & O_TRUNC) {
			publish(contract, file, BYTES(""));
			set_times(contract, file);
		}
		return 0;
	}
	user->streams =
		file->kind == LIST && !file->draft && !file->inherited && !file->now->bytes.size;
	if (file->inherited || ((flags & O_TRUNC) && !user->streams)) {
		begin_save(user, false);
		staged(contract, user);
	}
	file->inherited = false;
	return 0;
}

/* Section 5: a torn line is closed off when what follows is valid on its own and glued is not. */
static bool closes_off(const struct contract *contract, struct bytes bytes, bool own,
		       struct bytes first)
{
	struct bytes tail = tail_of(bytes);
	_cleanup_(buf_done) struct buf glued = { 0 };

	put(&glued, tail);
	put(&glued, first);
	return tail.size && !own && !contract->exact && !is_row(buf_bytes(&glued)) && is_row(first);
}

static bool owns_tail(const struct user_file *user)
{
	return user->owns_tail && user->tail_end == user->file->now->bytes.size;
}

/* Bytes are added to a list. */
static void add_lines(struct contract *contract, struct file *file, struct bytes lines, bool own)
{
	struct bytes tail = tail_of(buf_bytes(&file->now->bytes)), rest = lines, first;

	file->borrows = false;
	next_line(&rest, &first);
	if (closes_off(contract, buf_bytes(&file->now->bytes), own, without_newline(first)))
		put(&file->now->bytes, BYTES("\n"));
	else if (is_row(tail) && !file->draft)
		rows_cut(file, file->row_count - 1); /* it becomes another line */
	if (file->draft) {
		/* Which is a save of all of it. */
		_cleanup_(buf_done) struct buf all = { 0 };

		put(&all, buf_bytes(&file->now->bytes));
		put(&all, lines);
		replace(file, buf_bytes(&all), true);
		rows_judge(contract, file);
		return;
	}
	put(&file->now->bytes, lines);
	set(&file->valid, buf_bytes(&file->now->bytes));
	rows_from_lines(file);
}

/* With -o strict: how much of the data is taken, or the error. */
static ssize_t strict_part(const struct contract *contract, const struct user_file *user,
			   struct bytes data)
{
	struct bytes rest = data, line, tail = tail_of(buf_bytes(&user->file->now->bytes));
	size_t good = 0;

	while (next_line(&rest, &line) && line.data[line.size - 1] == '\n') {
		_cleanup_(buf_done) struct buf alone = { 0 };
		_cleanup_(buf_done) struct buf glued = { 0 };

		if (!good) {
			put(&alone, buf_bytes(&user->piece));
			put(&glued, tail);
		}
		put(&alone, without_newline(line));
		put(&glued, buf_bytes(&alone));
		if (!is_good(buf_bytes(&glued)) &&
		    (owns_tail(user) || contract->exact || !is_good(buf_bytes(&alone))))
			return good ? (ssize_t)good : -EINVAL;
		good += line.size;
	}
	return (ssize_t)data.size;
}

static ssize_t write_lines(struct contract *contract, struct user_file *user, struct bytes data)
{
	_cleanup_(buf_done) struct buf all = { 0 };
	ssize_t taken = (ssize_t)data.size;
	struct bytes tail;

	if (contract->strict)
		taken = strict_part(contract, user, data);
	if (taken < 0)
		return taken;
	user->state = APPENDS;
	put(&all, buf_bytes(&user->piece));
	put(&all, bytes_make(data.data, (size_t)taken));
	tail = tail_of(buf_bytes(&all));
	set(&user->piece, tail);
	all.size -= user->piece.size;
	if (all.size) {
		add_lines(contract, user->file, buf_bytes(&all), owns_tail(user));
		user->owns_tail = false;
		set_times(contract, user->file);
	}
	user->stream_end += (size_t)taken;
	user->keeps_times = false;
	user->written = contract->now;
	return taken;
}

static bool is_first_of_save(const struct user_file *user)
{
	return user->streams && !user->stream_end && user->flags & O_TRUNC;
}

static bool write_appends(const struct user_file *user, size_t offset)
{
	const struct file *file = user->file;

	if (file->kind != LIST || file->orphan || user->state == SAVES)
		return false;
	if (user->flags & O_APPEND)
		return true;
	return user->streams && offset == user->stream_end && !file->draft &&
	       (!is_first_of_save(user) || !file->now->bytes.size);
}

ssize_t user_write(struct contract *contract, struct user_file *user, size_t offset,
		   struct bytes data)
{
	struct file *file = user->file;
	bool append = user->flags & O_APPEND;

	if (!data.size)
		return 0;
	forget_reads(user);
	if ((file->kind == ORDINARY || file->orphan) && !user->dirty && !user->piece.size) {
		/* Of a document without a name a reader may still see one version whole. */
		if (file->orphan)
			replace(file, buf_bytes(&file->now->bytes), true);
		user->state = PLAIN;
		may_be_lost(file);
		if (!append)
			file->changes += offset < file->now->bytes.size;
		write_into(&file->now->bytes, append ? file->now->bytes.size : offset, data);
		set_times(contract, file);
		return (ssize_t)data.size;
	}
	if (write_appends(user, offset))
		return write_lines(contract, user, data);
	if (append && user->state == SAVES && !user->dirty)
		user->state = PLAIN;
	begin_save(user, !is_first_of_save(user));
	write_into(&user->stage, append ? user->stage.size : offset, data);
	user->only_cut = false;
	user->only_adds &= append;
	staged(contract, user);
	return (ssize_t)data.size;
}

int user_truncate(struct contract *contract, struct user_file *user, size_t size)
{
	struct file *file = user->file;

	if (!writes(user))
		return -EINVAL;
	if (file->kind == ORDINARY && !user->dirty && !user->piece.size) {
		all_is_stored(file);
		file->changes += size < file->now->bytes.size;
		cut(&file->now->bytes, size);
		set_times(contract, file);
		return 0;
	}
	if (size == (user->state == SAVES && user->dirty ?
			     user->stage.size :
			     file->now->bytes.size + user->piece.size)) {
		may_set_times(contract, file);
		return 0;
	}
	if (!user->dirty && user->state == SAVES)
		user->state = PLAIN;
	begin_save(user, size > 0);
	cut(&user->stage, size);
	user->kept = MIN(user->kept, size);
	user->only_adds &= size > 0;
	staged(contract, user);
	return 0;
}

static void add(const struct contract *contract, const struct file *file, struct buf *bytes,
		struct bytes data)
{
	struct bytes rest = data, first;

	if (file->kind == LIST && next_line(&rest, &first) &&
	    closes_off(contract, buf_bytes(bytes), false, without_newline(first)))
		put(bytes, BYTES("\n"));
	put(bytes, data);
}

/* What others have added to what the save has left of what there was. */
static void add_others(const struct contract *contract, const struct user_file *user,
		       struct buf *bytes)
{
	const struct file *file = user->file;
	struct bytes now = buf_bytes(&file->now->bytes);
	bool torn = user->seen && now.data[user->seen - 1] != '\n';
	struct bytes added = bytes_make(now.data + user->seen, now.size - user->seen);

	if (user->kept == user->seen && bytes->size == user->seen) {
		put(bytes, added);
		return;
	}
	/* The end of a torn line goes with that. */
	if (file->kind == LIST && !contract->exact && torn && added.size > 1 &&
	    added.data[0] == '\n' && !tail_of(buf_bytes(bytes)).size)
		added = bytes_make(added.data + 1, added.size - 1);
	add(contract, file, bytes, added);
}

/* Somebody else has published since: 1, and this is to be published instead of the stage; -1:
 * nothing is. */
static int meet_newer(const struct contract *contract, const struct user_file *user,
		      struct buf *bytes)
{
	const struct file *file = user->file;
	bool same = user->begun_changes == file->changes;
	size_t kept = user->only_cut ? user->stage.size : user->kept;

	if (file->orphan || (!user->only_cut && !user->only_adds))
		return 0;
	if (!same && user->only_cut)
		return -1;
	if (same ? file->now->bytes.size <= user->seen : user->kept < user->seen)
		return 0;
	if (same) {
		put(bytes, bytes_make(user->stage.data, kept));
		add_others(contract, user, bytes);
	} else {
		put(bytes, buf_bytes(&file->now->bytes));
	}
	add(contract, file, bytes, bytes_make(user->stage.data + kept, user->stage.size - kept));
	return 1;
}

static void publish_stage(struct contract *contract, struct user_file *user)
{
	_cleanup_(buf_done) struct buf bytes = { 0 };
	struct file *file = user->file;
	bool adds = user->only_adds && user->kept == user->seen;
	int newer = meet_newer(contract, user, &bytes);

	if (newer >= 0) {
		publish(contract, file, newer ? buf_bytes(&bytes) : buf_bytes(&user->stage));
		set_times_by(user);
		file->changes -= adds;
	}
	user->dirty = user->only_cut = user->only_adds = false;
	version_unref(&user->begun);
	/* It goes on with its stage until it reads. */
	user->begun = newer ? NULL : version_ref(file->now);
	user->published_size = user->stage.size;
}

int user_flush(struct contract *contract, struct user_file *user)
{
	struct file *file = user->file;

	if (!writes(user))
		return 0;
	all_is_stored(file);
	if (user->piece.size && (file->kind != LIST || file->orphan)) {
		begin_save(user, true);
		staged(contract, user);
	}
	if (user->piece.size) {
		add_lines(contract, file, buf_bytes(&user->piece), owns_tail(user));
		buf_clear(&user->piece);
		user->owns_tail = true;
		user->tail_end = file->now->bytes.size;
		set_times_by(user);
	}
	if (user->state != SAVES || !user->dirty)
		return 0;
	publish_stage(contract, user);
	return contract->strict && file->draft ? -EINVAL : 0;
}

static void user_done(struct contract *contract, struct user_file *user)
{
	struct file *file = user->file;

	buf_done(&user->stage);
	buf_done(&user->piece);
	version_unref(&user->begun);
	version_unref(&user->from);
	version_unref(&user->opened);
	*user = (struct user_file){ 0 };
	file->open--;
	file_drop(contract, file);
}

void user_close(struct contract *contract, struct user_file *user)
{
	user_done(contract, user);
}

void user_abandon(struct contract *contract, struct user_file *user, bool keep_piece)
{
	user->dirty = false;
	if (keep_piece)
		user_flush(contract, user);
	user_done(contract, user);
}

void user_pause(struct contract *contract, struct user_file *user)
{
	const struct file *file = user->file;
	struct bytes stage = buf_bytes(&user->stage);
	bool whole = file->kind == SINGLE ? is_row(stage) :
		     file->kind == LIST	  ? (!tail_of(stage).size || is_row(tail_of(stage))) &&
						  !(contract->strict && has_bad_line(stage)) :
					  false;

	if (user->state == SAVES && user->dirty && stage.size && whole && !user->paused)
		publish_stage(contract, user);
	user->paused = true;
}

/* ---- reading ---- */

/* Whether bytes with the unfinished line behind them read so; it need not be behind those of an
 * older version. */
static bool reads_as(const struct user_file *user, struct bytes bytes, bool with_piece,
		     size_t offset, size_t size, struct bytes seen)
{
	_cleanup_(buf_done) struct buf own = { 0 };

	if (with_piece && user->piece.size) {
		put(&own, bytes);
		put(&own, buf_bytes(&user->piece));
		bytes = buf_bytes(&own);
	}
	offset = MIN(offset, bytes.size);
	return bytes_equal(bytes_make(bytes.data + offset, MIN(size, bytes.size - offset)), seen);
}

static bool version_reads(const struct user_file *user, const struct version *version,
			  size_t offset, size_t size, struct bytes seen)
{
	return reads_as(user, buf_bytes(&version->bytes), true, offset, size, seen) ||
	       (version->next &&
		reads_as(user, buf_bytes(&version->bytes), false, offset, size, seen));
}

static bool later_reads(const struct user_file *user, const struct version *version, size_t offset,
			size_t size, struct bytes seen)
{
	while ((version = version->next))
		if (version_reads(user, version, offset, size, seen))
			return true;
	return false;
}

static bool reads_from(struct user_file *user, size_t offset, size_t size, struct bytes seen,
		       bool any)
{
	struct version *version = user->from ? user->from : user->file->now;

	for (; version; version = version->next) {
		if (version_reads(user, version, offset, size, seen)) {
			user->unsure = any && later_reads(user, version, offset, size, seen);
			version_ref(version);
			version_unref(&user->from);
			user->from = version;
			return true;
		}
		if (!any && !version->seen_at_once)
			break;
	}
	return false;
}

/* Any version since it was opened. */
static bool may_be_pages(const struct user_file *user, size_t offset, size_t size,
			 struct bytes seen)
{
	for (const struct version *version = user->opened; version; version = version->next)
		if (reads_as(user, buf_bytes(&version->bytes), true, offset, size, seen))
			return true;
	return false;
}

bool may_read(struct user_file *user, bool pages, size_t offset, size_t size, struct bytes seen)
{
	struct file *file = user->file;
	bool good;

	if (pages || user->cached)
		return may_be_pages(user, offset, size, seen);
	if (user->state == SAVES && user->dirty)
		return reads_as(user, buf_bytes(&user->stage), true, offset, size, seen);
	/* What was published is a view of the file until somebody else changes it. */
	if (user->state == SAVES &&
	    (user->begun != file->now || user->published_size != file->now->bytes.size))
		user->state = PLAIN;
	if (!offset || !user->has_read) {
		forget_reads(user);
		user->from = version_ref(user->has_read ? file->now : user->opened);
		user->reads_on = !offset;
		user->read_to = 0;
	}
	if (user->reads_on && offset != user->read_to)
		user->reads_on = false;
	good = reads_from(user, offset, size, seen,
			  !user->reads_on || !user->has_read || user->unsure);
	user->has_read = true;
	if (user->reads_on) {
		user->read_to += seen.size;
		user->reads_on = seen.size > 0 || !size;
	}
	return good;
}

bool may_be_own_size(const struct user_file *user, size_t size)
{
	const struct version *version = user->opened;

	if (user->dirty && size == user->stage.size)
		return true;
	for (; version; version = version->next)
		if (size == version->bytes.size || size == version->bytes.size + user->piece.size)
			return true;
	return false;
}

bool may_have_missed(const struct user_file *user, size_t offset, size_t size, struct bytes seen)
{
	const size_t end = offset + seen.size;

	for (const struct version *version = user->opened; version; version = version->next)
		if (end <= version->bytes.size && end >= MIN(offset + size, user->opened_size) &&
		    bytes_equal(bytes_make(version->bytes.data + offset, seen.size), seen))
			return true;
	return false;
}

bool may_have_missed_size(const struct user_file *user, size_t size)
{
	for (const struct version *version = user->opened; version; version = version->next)
		if (size >= user->opened_size && size <= version->bytes.size)
			return true;
	return false;
}

bool may_be_size(const struct user_file *users, size_t count, const struct file *file, int process,
		 size_t size)
{
	if (size == file->now->bytes.size)
		return true;
	for (size_t i = 0; i < count; i++) {
		const struct user_file *user = &users[i];

		if (user->is_open && user->file == file && user->process == process &&
		    writes(user) && may_be_own_size(user, size))
			return true;
	}
	return false;
}

/* ---- names ---- */

int file_truncate_to(struct contract *contract, int name, size_t size)
{
	struct file *file = file_named(contract, name);
	_cleanup_(buf_done) struct buf bytes = { 0 };

	if (!file)
		return -ENOENT;
	if (file->kind != ORDINARY && size && size == file->now->bytes.size) {
		may_set_times(contract, file);
		return 0;
	}
	set_times(contract, file);
	if (file->kind == ORDINARY) {
		all_is_stored(file);
		file->changes += size < file->now->bytes.size;
		cut(&file->now->bytes, size);
		return 0;
	}
	put(&bytes, buf_bytes(&file->now->bytes));
	cut(&bytes, size);
	publish(contract, file, buf_bytes(&bytes));
	return 0;
}

int file_unlink(struct contract *contract, int name)
{
	struct file *file = file_named(contract, name);

	if (!file)
		return -ENOENT;
	file->ghost = file->kind != ORDINARY;
	file->ghost_at = contract->now;
	file->ghost_name = name;
	file->left_on = contract->mount;
	file->name = -1;
	file_drop(contract, file);
	return 0;
}

/* The content becomes what the new name says; rows of base are there already. */
static void convert(struct contract *contract, struct file *file, enum kind kind, const char *key,
		    struct file *base)
{
	/* Who is in the middle of a document sees it to its end. */
	replace(file, buf_bytes(&file->now->bytes), true);
	rows_cut(file, 0);
	if (base)
		take_rows(file, base);
	file->kind = kind;
	strcpy(file->key, key);
	buf_clear(&file->valid);
	if (base) {
		rows_to_valid(file);
	}
	rows_judge(contract, file);
}

static int refuses(const struct contract *contract, const struct file *file, enum kind kind,
		   const struct file *base)
{
	struct file other = { .kind = kind, .row_count = base ? base->row_count : 0 };

	return contract->strict && is_draft(contract, &other, buf_bytes(&file->now->bytes)) ?
		       -EINVAL :
		       0;
}

static int exchange(struct contract *contract, struct file *a, struct file *b)
{
	char a_key[32], b_key[32];
	enum kind a_kind = a->kind, b_kind = b->kind;
	int a_name = a->name;

	if (a_kind != b_kind &&
	    (refuses(contract, a, b_kind, NULL) < 0 || refuses(contract, b, a_kind, NULL) < 0))
		return -EINVAL;
	strcpy(a_key, a->key);
	strcpy(b_key, b->key);
	a->name = b->name;
	b->name = a_name;
	strcpy(a->key, b_key);
	strcpy(b->key, a_key);
	if (a_kind == b_kind)
		return 0;
	convert(contract, a, b_kind, b_key, NULL);
	convert(contract, b, a_kind, a_key, NULL);
	return 0;
}

int file_rename(struct contract *contract, int name, int name_to, unsigned flags)
{
	struct file *file = file_named(contract, name), *over = file_named(contract, name_to);
	enum kind kind = names[name_to].kind;
	struct file *base = over, *other = NULL;
	char key[32] = "";

	if (!file)
		return -ENOENT;
	if ((flags & RENAME_NOREPLACE) && over)
		return -EEXIST;
	if ((flags & RENAME_EXCHANGE) && !over)
		return -ENOENT;
	if (file == over)
		return 0;
	borrowed_drop(contract, file);
	if (flags & RENAME_EXCHANGE) {
		borrowed_drop(contract, over);
		return exchange(contract, file, over);
	}
	if (kind != ORDINARY && over)
		strcpy(key, over->key);
	else if (kind != ORDINARY)
		find_key(contract, name_to, file, key);
	if (!base && kind != ORDINARY)
		base = ghost_with_key(contract, key);
	/* Another kind's rows go, those that this file would show to more, and another mount's. */
	if (base &&
	    (base->kind != kind || (base->ghost && (!shows_no_more(file->mode, base->mode) ||
						    base->left_on != contract->mount)))) {
		other = base->ghost ? base : NULL;
		base = NULL;
	}
	if (kind != ORDINARY && (file->kind != kind || base) &&
	    refuses(contract, file, kind, base) < 0)
		return -EINVAL;
	if (file->kind != kind || base)
		convert(contract, file, kind, key, base);
	strcpy(file->key, key);
	file->name = name_to;
	if (base && base != over) {
		contract->inherits_from = base->ghost_at;
		ghost_end(contract, base);
	}
	if (other)
		ghost_end(contract, other);
	if (over) {
		over->left_on = contract->mount;
		orphan(over);
		file_drop(contract, over);
	}
	return 0;
}

void settle(struct contract *contract)
{
	struct file *next;

	for (struct file *file = contract->files; file; file = next) {
		next = file->next;
		if (file->ghost)
			ghost_end(contract, file);
	}
}

void restart(struct contract *contract, bool killed)
{
	settle(contract);
	for (struct file *file = contract->files; file; file = file->next) {
		file->inherited = file->borrows = false;
		/* Times of appends are written within a second. */
		if (killed && file->mtime < 0)
			file->mtime_from = 0;
		if (!killed || file->kind != ORDINARY)
			all_is_stored(file);
	}
}

/* ---- other programs ---- */

static size_t line_of_row(const struct file *file, size_t index, struct bytes *ret_line)
{
	struct bytes all = buf_bytes(&file->valid), rest = all, line;
	size_t count = 0;

	while (next_line(&rest, &line))
		if (is_row(without_newline(line)) && count++ == index)
			break;
	*ret_line = line;
	return (size_t)(line.data - all.data);
}

/* A line of the bytes becomes another, or none. */
static void change_line(struct file *file, size_t index, struct bytes data, bool removes)
{
	_cleanup_(buf_done) struct buf bytes = { 0 };
	struct bytes line;
	size_t start = line_of_row(file, index, &line);

	put(&bytes, bytes_make(file->valid.data, start));
	if (!removes) {
		put(&bytes, data);
		put(&bytes, BYTES("\n"));
	}
	put(&bytes,
	    bytes_make(file->valid.data + start + line.size, file->valid.size - start - line.size));
	set(&file->valid, buf_bytes(&bytes));
}

static void end_line(struct buf *bytes)
{
	if (tail_of(buf_bytes(bytes)).size)
		put(bytes, BYTES("\n"));
}

static void sql_changes_list(struct file *file, enum sql what, size_t index, struct bytes data)
{
	/* A row whose line had no newline has one when rows were changed by others. */
	if (what == SQL_ADD || is_row(tail_of(buf_bytes(&file->valid))))
		end_line(&file->valid);
	if (what == SQL_ADD) {
		put(&file->valid, data);
		put(&file->valid, BYTES("\n"));
	} else {
		change_line(file, index, data, what == SQL_DELETE_LAST);
	}
	rows_from_lines(file);
}

bool sql_changes(struct contract *contract, struct file *file, enum sql what, size_t place,
		 struct bytes data, size_t *ret_index)
{
	size_t index = what == SQL_ADD	       ? file->row_count :
		       what == SQL_DELETE_LAST ? file->row_count - 1 :
		       file->row_count	       ? place % file->row_count :
						 0;

	if (file->kind == ORDINARY || file->orphan || file->ghost ||
	    (what != SQL_ADD && !file->row_count) ||
	    (what == SQL_ADD && file->row_count && file->kind != LIST) ||
	    (what == SQL_DELETE_LAST && file->row_count == 1))
		return false;
	*ret_index = index;
	if (what == SQL_DELETE) {
		rows_cut(file, 0);
		buf_clear(&file->valid);
		if (file->draft)
			return true;
		file->changes++;
		replace(file, BYTES(""), true);
		orphan(file);
		file_drop(contract, file);
		return true;
	}
	if (what == SQL_UPDATE && bytes_equal(buf_bytes(&file->rows[index].data), data))
		return false;
	set_times(contract, file);
	file->changes += file->kind != LIST || what != SQL_ADD || file->draft;
	file->borrows = false;
	if (file->kind == LIST) {
		sql_changes_list(file, what, index, data);
	} else {
		set(&file->valid, data);
		row_set(file, 0, data);
	}
	/* The clock of that program has whole seconds. */
	for (size_t i = 0; i < file->row_count; i++)
		*file->rows[i].moved = '\0';
	file->draft = false;
	replace(file, buf_bytes(&file->valid), true);
	return true;
}
