/* SPDX-License-Identifier: MIT */

/*
 * Random operations on state files and ordinary ones, several processes with several open files
 * each, against the contract (contract.h).  What a call answers, what readers see, what SQL sees as
 * rows, sizes, modes, times and attributes are compared behind every operation.
 *
 * An operation is a few numbers, drawn before the game begins, that mean something whatever the
 * state is; so a game that fails is played again with fewer and fewer of them, and what is printed
 * is the seed, the number of the operation, and the shortest list that was found.  Each game is a
 * process of its own: a crash or a hang is a failure like others.
 *
 *   SESSFS_RANDOM_OPS      how many operations in all; otherwise those of two seeds, one of them
 *                          always the same
 *   SESSFS_TEST_SEED       only this seed, as it was printed
 *   SESSFS_RANDOM_PROFILE  only this way to play, as it was printed
 *   SESSFS_RANDOM_LENGTH   how many operations in a game; otherwise those of its profile
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "fs/base/json.h"
#include "tests/random/contract.h"
#include "tests/random/driver.h"
#include "tests/unit/random.h"

enum {
	EXTRA = SLOTS - 1, /* a slot that is free between operations */
	CHECK_ALL = 40,	   /* operations between looks at everything */
	SHRINKS = 400,	   /* games that are played to find a shorter one */
	GAME_SECONDS = 600,
	FIRST = 1,    /* the seed that is always played */
	FAILURES = 3, /* that are looked into */
	OPS = 1,      /* at least; each seed is played in all ways */
};

/* Nanoseconds after which a ghost is not relied upon: at 300 ms it goes. */
static const int64_t GHOST_OLD = 200 * 1000000;
static const int64_t GHOST_GONE = 290 * 1000000;
static const int64_t SEEN_SOON = INT64_C(20) * 1000000000; /* on a machine that is busy */

struct op {
	uint32_t type;
	uint32_t a, b, c;
};

struct game {
	const struct profile *profile;
	struct contract contract;
	struct user_file user[SLOTS];
	const struct op *ops;
	size_t at;
	int touched[4]; /* names */
	unsigned touched_count;
	bool all; /* everything is to be looked at */
	bool rows_left;
	unsigned looks;
	int here; /* the mount of what names no process */
};

/* What the process of a game leaves for the one that began it. */
struct outcome {
	size_t at;
	bool failed;
	char text[4000];
};
static struct outcome *outcome;
static bool telling;

/* ---- telling ---- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;

	if (!telling)
		return;
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
}

__attribute__((noreturn, format(printf, 2, 3))) static void fail(const struct game *game,
								 const char *format, ...)
{
	va_list args;

	outcome->failed = true;
	outcome->at = game->at;
	va_start(args, format);
	vsnprintf(outcome->text, sizeof(outcome->text), format, args);
	va_end(args);
	say("  -> %s\n", outcome->text);
	fflush(NULL);
	_exit(3);
}

/* Bytes as C would write them, about so many. */
static const char *show(struct bytes bytes)
{
	static char text[4][1000];
	static unsigned next;
	char *out = text[next++ % 4];
	size_t used = 0;

	for (size_t i = 0; i < bytes.size && used < sizeof(text[0]) - 40; i++) {
		unsigned char byte = (unsigned char)bytes.data[i];

		if (i == 150 && bytes.size > 300) {
			used += (size_t)sprintf(out + used, " ... ");
			i = bytes.size - 100;
		}
		if (byte == '\n')
			used += (size_t)sprintf(out + used, "\\n");
		else if (byte < ' ' || byte > '~')
			used += (size_t)sprintf(out + used, "\\x%02x", byte);
		else
			out[used++] = (char)byte;
	}
	sprintf(out + used, " [%zu]", bytes.size);
	return out;
}

static void expect(const struct game *game, ssize_t got, ssize_t wanted, const char *what)
{
	if (got != wanted)
		fail(game, "%s: %zd (%s) for %zd (%s)", what, got,
		     got < 0 ? strerror((int)-got) : "", wanted,
		     wanted < 0 ? strerror((int)-wanted) : "");
}

static void must(const struct game *game, int result, const char *what)
{
	expect(game, result, 0, what);
}

/* ---- mounts ---- */

static int count_mounts(const struct game *game)
{
	return MAX((int)game->profile->options.mounts, 1);
}

/* A process, on some mount. */
static int some_process(const struct game *game, size_t number)
{
	return (int)(number % (size_t)(PROCESSES * count_mounts(game)));
}

static int process_here(const struct game *game)
{
	return game->here * PROCESSES;
}

/* The contract is told where something is done. */
static void by(struct game *game, int process)
{
	game->contract.mount = process / PROCESSES;
}

/* ---- content ---- */

static const char *const lines[] = {
	"1\n",
	"{\"a\": [1, 2]}\n",
	"null\n",
	"\"text\"\n",
	"{\"role\": \"user\", \"content\": \"h\xc3\xa4\"}\n",
	"[4,5]\r\n",
	"2\n3\n",
	" 7 \n",
};
static const char *const scraps[] = {
	"\n",  "# no\n", "{\"torn\":", "\"text", "\"\n", "3",	   "]\n",  "[4,\n", "\r\n",
	" \n", "x",	 "{}",	       "NaN\n",	 "\r",	 "\xff\n", "\xc3", "1}\n",  "{\"a\": 1}",
};
static const char *const documents[] = {
	"{\"a\": 1}", "[]", "\"text\"", "{\"b\": {\"c\": [1, 2, 3]}}\n", "7", " null ",
};
static const size_t edges[] = { 4096, 32768, 65536, 131072, 262144, 1 << 20, 4 << 20, 8 << 20 };

static void put(struct buf *out, const char *text)
{
	if (buf_append_str(out, text) < 0)
		abort();
}

/* A JSON string that ends near a size where something else begins. */
static void put_long(struct game *game, uint64_t *state, struct buf *out)
{
	size_t edge = edges[random_below(state, game->profile->big ? ARRAY_SIZE(edges) : 4)];
	size_t size = edge - 6 + random_below(state, 12);

	if (size < out->size + 3)
		return;
	put(out, "\"");
	while (out->size + 1 < size) {
		static const char filler[] = "0123456789abcdef0123456789abcdef0123456789abcdef";
		size_t part = MIN(sizeof(filler) - 1, size - 1 - out->size);

		if (buf_append(out, filler, part) < 0)
			abort();
	}
	put(out, "\"");
}

static void put_lines(struct game *game, uint64_t *state, struct buf *out)
{
	size_t edge = edges[random_below(state, game->profile->big ? 6 : 3)];

	while (out->size < edge) {
		put(out, lines[random_below(state, ARRAY_SIZE(lines))]);
		if (random_below(state, 50) == 0)
			put(out, scraps[random_below(state, 6)]);
	}
}

static void make_content(struct game *game, enum kind kind, uint64_t seed, struct buf *out)
{
	uint64_t state = seed;
	size_t chance = random_below(&state, game->profile->big ? 120 : 1500);
	size_t count = 1 + random_below(&state, 4);

	if (chance == 0)
		put_long(game, &state, out);
	if (chance == 1)
		put_lines(game, &state, out);
	if (kind != LIST && random_below(&state, 2)) {
		if (!out->size)
			put(out, documents[random_below(&state, ARRAY_SIZE(documents))]);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		size_t what = random_below(&state, 10);

		if (what < 6)
			put(out, lines[random_below(&state, ARRAY_SIZE(lines))]);
		else if (what < 9)
			put(out, scraps[random_below(&state, ARRAY_SIZE(scraps))]);
		else if (buf_append_zeros(out, 1 + random_below(&state, 3)) < 0)
			abort();
	}
}

/* ---- what must hold ---- */

static void touch(struct game *game, int name)
{
	for (unsigned i = 0; i < game->touched_count; i++)
		if (game->touched[i] == name)
			return;
	if (game->touched_count == ARRAY_SIZE(game->touched))
		game->all = true;
	else if (name >= 0)
		game->touched[game->touched_count++] = name;
}

struct rows_check {
	struct game *game;
	struct file *file;
	const char *key;
	size_t seen;
};

static void check_stamp(const struct rows_check *check, size_t index, char *known,
			const char *stamp, const char *what)
{
	if (!stamp)
		return;
	if (*known && strcmp(known, stamp) != 0)
		fail(check->game, "%s: row %zu of key %s was not changed, but has %s for %s", what,
		     index, check->key, stamp, known);
	snprintf(known, STAMP, "%s", stamp);
}

static void check_row(void *arg, int64_t index, const struct driver_row *seen)
{
	struct rows_check *check = arg;
	struct row *row;

	if (index != (int64_t)check->seen)
		fail(check->game, "key %s: item_index is %lld for %zu", check->key,
		     (long long)index, check->seen);
	if (check->seen >= check->file->row_count)
		fail(check->game, "key %s has a row too many: %s", check->key, show(seen->data));
	row = &check->file->rows[check->seen];
	if (!bytes_equal(buf_bytes(&row->data), seen->data))
		fail(check->game, "key %s: row %zu is %s for %s", check->key, check->seen,
		     show(seen->data), show(buf_bytes(&row->data)));
	if (*row->moved && seen->updated && strcmp(row->moved, seen->updated) == 0 &&
	    !driver.is_mount)
		fail(check->game, "key %s: row %zu was changed, updated_at was not", check->key,
		     check->seen);
	*row->moved = '\0';
	check_stamp(check, check->seen, row->created, seen->created, "created_at");
	check_stamp(check, check->seen, row->updated, seen->updated, "updated_at");
	check->seen++;
}

static void check_rows(struct game *game, struct file *file)
{
	struct rows_check check = { .game = game, .file = file, .key = file->key };

	if (file->kind == ORDINARY)
		return;
	must(game, driver.rows(file->key, check_row, &check), "reading rows");
	if (check.seen != file->row_count)
		fail(game, "key %s has %zu rows for %zu%s", file->key, check.seen, file->row_count,
		     file->draft ? " (a draft)" : "");
}

static int64_t mtime_of(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool may_be_mtime(const struct file *file, int64_t mtime)
{
	return file->mtime >= 0 ? mtime == file->mtime : mtime >= file->mtime_from;
}

static bool is_shown(struct game *game, int process, int name)
{
	const struct file *file = file_named(&game->contract, name);
	struct stat st;
	int r = driver.stat_name(process, names[name].path, &st);

	if (!file || r < 0)
		return r == (file ? 0 : -ENOENT);
	return (!file->ino || file->ino == st.st_ino) && (st.st_mode & 07777) == file->mode &&
	       may_be_size(game->user, SLOTS, file, process, (size_t)st.st_size) &&
	       may_be_mtime(file, mtime_of(&st));
}

/* Somebody writes to a state file, or has just closed it, through the page cache of the ordinary
 * file that it was when it was opened (limits.md). */
static bool is_written_by_pages(const struct game *game, const struct file *file)
{
	for (size_t i = 0; driver.is_mount && file && i < SLOTS; i++) {
		const struct user_file *user = &game->user[i];

		if (user->is_open && user->file == file && user->was_ordinary &&
		    file->kind != ORDINARY && (user->flags & O_ACCMODE) != O_RDONLY)
			return true;
	}
	return false;
}

/* Where a name leads that another mount has changed, and attributes, are shown a moment later.  The
 * kernel keeps them for a day, so what it is not told of is never shown. */
static void wait_until_shown(struct game *game, int process, int name)
{
	int64_t until = driver.now() + SEEN_SOON;

	if (name < 0 || (count_mounts(game) == 1 &&
			 !is_written_by_pages(game, file_named(&game->contract, name))))
		return;
	while (!is_shown(game, process, name) && driver.now() < until)
		usleep(2000);
}

static void check_attributes(struct game *game, struct file *file, const struct stat *st)
{
	int64_t mtime = mtime_of(st);
	const char *path = names[file->name].path;

	if (file->ino && file->ino != st->st_ino)
		fail(game, "%s: st_ino has changed", path);
	file->ino = st->st_ino;
	expect(game, st->st_mode & 07777, file->mode, "st_mode");
	expect(game, (ssize_t)st->st_nlink, 1, "st_nlink");
	if (!may_be_mtime(file, mtime))
		fail(game, "%s: st_mtime is %lld, not %s %lld", path, (long long)mtime,
		     file->mtime >= 0 ? "" : "from", (long long)MAX(file->mtime, file->mtime_from));
}

static void check_xattrs(struct game *game, struct file *file)
{
	const char *path = names[file->name].path;
	_cleanup_(buf_done) struct buf value = { 0 };
	size_t count = invalid_count(file);
	int r;

	wait_until_shown(game, process_here(game), file->name);
	r = driver.get_xattr(path, "user.a", &value);

	expect(game, r, *file->xattr ? 0 : -ENODATA, "getxattr user.a");
	if (!bytes_equal(buf_bytes(&value), bytes_str(file->xattr)))
		fail(game, "%s: user.a is %s", path, show(buf_bytes(&value)));
	buf_clear(&value);
	if (file->kind == ORDINARY || file->now->bytes.size > 50000)
		return;
	r = driver.get_xattr(path, "user.sessfs.invalid", &value);
	expect(game, r, count ? 0 : -ENODATA, "getxattr user.sessfs.invalid");
	put(&value, " ");
	if (count && strtoul(value.data, NULL, 10) != count)
		fail(game, "%s: user.sessfs.invalid says %s for %zu", path, show(buf_bytes(&value)),
		     count);
}

/* A process that writes has its own size of a file, which is what mappings and sendfile go by. */
static int content_way(const struct game *game, const struct file *file, int process)
{
	for (size_t i = 0; i < SLOTS; i++) {
		const struct user_file *user = &game->user[i];

		if (user->is_open && user->file == file && user->process == process &&
		    (user->flags & O_ACCMODE) != O_RDONLY)
			return READ_PLAIN;
	}
	return (int)(game->at % READ_WAYS);
}

static void check_content(struct game *game, const struct file *file, int name, int process,
			  int way)
{
	_cleanup_(buf_done) struct buf bytes = { 0 };
	const char *path = names[name].path;
	int r = driver.content(process, path, way, &bytes);

	expect(game, r, file ? 0 : -ENOENT, path);
	if (file && !bytes_equal(buf_bytes(&bytes), buf_bytes(&file->now->bytes)))
		fail(game, "%s read by %d is\n\t%s\nfor\n\t%s", path, process,
		     show(buf_bytes(&bytes)), show(buf_bytes(&file->now->bytes)));
}

static void check_file(struct game *game, int name, int process)
{
	struct file *file = file_named(&game->contract, name);
	const char *path = names[name].path;
	struct stat st;
	int r;

	/* Who opens it sees what was closed on any mount, at once. */
	if (count_mounts(game) > 1)
		check_content(game, file, name, process, READ_PLAIN);
	wait_until_shown(game, process, name);
	r = driver.stat_name(process, path, &st);
	expect(game, r, file ? 0 : -ENOENT, path);
	if (!file)
		return;
	if (!may_be_size(game->user, SLOTS, file, process, (size_t)st.st_size))
		fail(game, "%s: st_size is %lld for %zu", path, (long long)st.st_size,
		     file->now->bytes.size);
	check_attributes(game, file, &st);
	check_content(game, file, name, process, content_way(game, file, process));
	check_rows(game, file);
}

struct listing {
	struct game *game;
	const char *dir;
	size_t count;
	char wrong[300]; /* one that should not be there */
};

static void check_name(void *arg, const char *name)
{
	struct listing *listing = arg;
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", listing->dir, name);
	if (strcmp(path, "s/d") == 0 || strstr(path, "/anchor"))
		return;
	for (int i = 0; i < NAMES; i++)
		if (strcmp(names[i].path, path) == 0 && file_named(&listing->game->contract, i)) {
			listing->count++;
			return;
		}
	strcpy(listing->wrong, path);
}

static struct listing list_names(struct game *game)
{
	struct listing listing = { .game = game };

	listing.dir = "s";
	must(game, driver.names("s", check_name, &listing), "listing");
	listing.dir = "s/d";
	must(game, driver.names("s/d", check_name, &listing), "listing");
	return listing;
}

static void check_listings(struct game *game)
{
	int64_t until = driver.now() + SEEN_SOON;
	struct listing listing;
	size_t count = 0;

	for (int i = 0; i < NAMES; i++)
		count += file_named(&game->contract, i) && strchr(names[i].path, '/');
	do
		listing = list_names(game);
	while (count_mounts(game) > 1 && (*listing.wrong || listing.count != count) &&
	       driver.now() < until);
	if (*listing.wrong)
		fail(game, "%s is listed and should not be there", listing.wrong);
	expect(game, (ssize_t)listing.count, (ssize_t)count, "names listed");
}

/* What was saved to a file that another mount has removed is not stored, so for a moment there are
 * still the rows from before. */
static bool may_have_rows(const struct game *game, const struct file *file)
{
	if (file->ghost)
		return file->row_count || count_mounts(game) > 1;
	return file->name >= 0 && file->row_count;
}

static void check_key(void *arg, const char *key)
{
	struct game *game = arg;

	for (const struct file *file = game->contract.files; file; file = file->next)
		if (file->kind != ORDINARY && may_have_rows(game, file) &&
		    strcmp(file->key, key) == 0)
			return;
	fail(game, "there are rows of key %s, which no file has", key);
}

static void check_everything(struct game *game)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	struct file *file;

	for (int name = 0; name < NAMES; name++) {
		check_file(game, name, some_process(game, game->at));
		file = file_named(&game->contract, name);
		if (file)
			check_xattrs(game, file);
	}
	check_listings(game);
	must(game, driver.keys(check_key, game), "listing keys");
	if (driver.is_mount && game->looks++ % 8)
		return;
	if (driver.check(&said) < 0)
		fail(game, "check finds %s", show(buf_bytes(&said)));
}

/* ---- operations ---- */

static struct user_file *some_user(struct game *game, uint32_t number)
{
	for (size_t i = 0; i < EXTRA; i++) {
		struct user_file *user = &game->user[(number + i) % EXTRA];

		if (user->is_open)
			return user;
	}
	return NULL;
}

static int slot_of(const struct game *game, const struct user_file *user)
{
	return (int)(user - game->user);
}

static const char *name_of(const struct user_file *user)
{
	return user->file->name < 0 ? "(unlinked)" : names[user->file->name].path;
}

static const char *flags_of(int flags)
{
	static const struct {
		int flag;
		const char *name;
	} all[] = { { O_CREAT, "|O_CREAT" },
		    { O_TRUNC, "|O_TRUNC" },
		    { O_APPEND, "|O_APPEND" },
		    { O_EXCL, "|O_EXCL" },
		    { O_DIRECT, "|O_DIRECT" } };
	static const char *const modes[] = { "O_RDONLY", "O_WRONLY", "O_RDWR", "" };
	static char text[80];

	strcpy(text, modes[flags & O_ACCMODE]);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (flags & all[i].flag)
			strcat(text, all[i].name);
	return text;
}

static int open_as(struct game *game, int slot, int process, int name, int flags)
{
	struct user_file *user = &game->user[slot];
	int r;

	by(game, process);
	if (flags & O_EXCL)
		wait_until_shown(game, process, name);
	r = driver.open(slot, process, names[name].path, flags);
	say("%zu: open %d by %d: %s %s\n", game->at, slot, process, names[name].path,
	    flags_of(flags));
	expect(game, r, user_open(&game->contract, user, name, flags & ~O_DIRECT, process), "open");
	touch(game, name);
	return r;
}

static void close_slot(struct game *game, int slot)
{
	struct user_file *user = &game->user[slot];
	int r;

	say("%zu: close %d (%s)\n", game->at, slot, name_of(user));
	touch(game, user->file->name);
	r = driver.close(slot);
	expect(game, r, user_flush(&game->contract, user), "close");
	user_close(&game->contract, user);
}

static void write_slot(struct game *game, int slot, size_t offset, struct bytes data)
{
	struct user_file *user = &game->user[slot];
	ssize_t n = driver.write(slot, offset, data), wanted;

	say("%zu: write %d (%s) at %zu: %s\n", game->at, slot, name_of(user), offset, show(data));
	wanted = user_write(&game->contract, user, offset, data);
	expect(game, n, wanted, "write");
	user->position = offset + (size_t)MAX(n, 0);
	touch(game, user->file->name);
}

static const int open_flags[] = {
	O_RDONLY,
	O_RDONLY,
	O_RDWR,
	O_WRONLY,
	O_RDWR | O_CREAT,
	O_WRONLY | O_CREAT | O_TRUNC,
	O_WRONLY | O_CREAT | O_TRUNC,
	O_RDWR | O_CREAT | O_TRUNC,
	O_WRONLY | O_CREAT | O_APPEND,
	O_RDWR | O_CREAT | O_APPEND,
	O_WRONLY | O_TRUNC | O_APPEND | O_CREAT,
	O_WRONLY | O_CREAT | O_EXCL,
	O_RDONLY | O_CREAT,
	O_RDONLY | O_TRUNC,
};

static void do_open(struct game *game, const struct op *op)
{
	int flags = open_flags[op->c % ARRAY_SIZE(open_flags)];
	int slot = (int)(op->a % EXTRA);

	if (game->user[slot].is_open)
		close_slot(game, slot);
	if (driver.is_mount && op->c >> 8 & 1)
		flags |= O_DIRECT;
	open_as(game, slot, some_process(game, op->c >> 4), (int)(op->b % NAMES), flags);
}

static void do_close(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);

	if (user)
		close_slot(game, slot_of(game, user));
}

static size_t some_offset(const struct user_file *user, uint32_t how, uint32_t number)
{
	size_t size = user->state == SAVES ? user->stage.size : user->file->now->bytes.size;

	switch (how % 8) {
	case 0:
		return 0;
	case 1:
		return number % (size + 1);
	case 2:
		return size;
	case 3:
		return size + number % 20;
	default:
		return user->position;
	}
}

static void do_write(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);
	_cleanup_(buf_done) struct buf data = { 0 };

	for (uint32_t i = 0; user && i < SLOTS && (user->flags & O_ACCMODE) == O_RDONLY; i++)
		user = some_user(game, op->a + i);
	if (!user || (user->flags & O_ACCMODE) == O_RDONLY)
		return;
	make_content(game, user->file->kind, op->c, &data);
	if (!data.size)
		return;
	write_slot(game, slot_of(game, user), some_offset(user, op->b, op->b >> 4),
		   buf_bytes(&data));
}

static size_t some_size(uint32_t number)
{
	static const size_t sizes[] = { 1, 10, 100, 4096, 10000, 1 << 20, 16 << 20 };

	return sizes[number % ARRAY_SIZE(sizes)];
}

/* What another mount has added to a file and removed with it at once was never shown here. */
static bool went_elsewhere(const struct game *game, const struct user_file *user)
{
	return count_mounts(game) > 1 && user->file->name < 0 &&
	       user->file->left_on != user->process / PROCESSES;
}

static bool holds_back(const struct user_file *user)
{
	return user->dirty || user->piece.size;
}

/* Whether the kernel has the same size for two who see different bytes: both had opened the file
 * before it was a state, and one holds back what he has written. */
static bool shares_size(const struct game *game, const struct user_file *user)
{
	if (!user->was_ordinary || user->file->kind == ORDINARY)
		return false;
	for (int i = 0; i < SLOTS; i++) {
		const struct user_file *other = &game->user[i];

		if (other != user && other->is_open && other->file == user->file &&
		    other->was_ordinary && (holds_back(user) || holds_back(other)))
			return true;
	}
	return false;
}

/* And the same pages. */
static bool shares_pages(const struct game *game, const struct user_file *user)
{
	return driver.is_mount && shares_size(game, user);
}

static void read_slot(struct game *game, int slot, int way, size_t offset, size_t size)
{
	struct user_file *user = &game->user[slot];
	_cleanup_(buf_done) struct buf seen = { 0 };
	ssize_t n;

	/* What is open already shows it a moment later. */
	wait_until_shown(game, user->process, user->file->name);
	/* What another mount replaces is kept for who only reads. */
	user->unsure |= count_mounts(game) > 1 && (user->flags & O_ACCMODE) == O_RDWR;
	n = driver.read(slot, way, offset, size, &seen);
	say("%zu: read %d (%s) way %d at %zu, %zu bytes: %s\n", game->at, slot, name_of(user), way,
	    offset, size, show(buf_bytes(&seen)));
	if ((user->flags & O_ACCMODE) == O_WRONLY) {
		expect(game, n, driver.is_mount ? -EBADF : n, "read");
		return;
	}
	if (n < 0)
		expect(game, n, 0, "read");
	if (!may_read(user, way != READ_PLAIN, offset, size, buf_bytes(&seen)) &&
	    !shares_pages(game, user) &&
	    (!went_elsewhere(game, user) || !may_have_missed(user, offset, size, buf_bytes(&seen))))
		fail(game, "%s read by %d at %zu is %s; the newest is %s", name_of(user), slot,
		     offset, show(buf_bytes(&seen)),
		     show(user->dirty ? buf_bytes(&user->stage) :
					buf_bytes(&user->file->now->bytes)));
}

/* The kernel has one size for all writers, by which mappings and sendfile go; who has opened with
 * O_TRUNC is among them. */
static void do_read(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);
	size_t offset;

	if (!user || (user->flags & O_ACCMODE) == O_WRONLY)
		return;
	offset = op->c % 4 == 0 || !user->reads_on ? 0 :
		 op->c % 4 == 1			   ? op->b % (user->file->now->bytes.size + 10) :
						     user->read_to;
	read_slot(game, slot_of(game, user),
		  driver.is_mount && (user->flags & (O_ACCMODE | O_TRUNC)) == O_RDONLY ?
			  (int)(op->c >> 8) % READ_WAYS :
			  READ_PLAIN,
		  offset, some_size(op->b >> 8));
}

static void do_sync(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);

	if (!user)
		return;
	say("%zu: fsync %d (%s)\n", game->at, slot_of(game, user), name_of(user));
	touch(game, user->file->name);
	expect(game, driver.sync(slot_of(game, user)), user_flush(&game->contract, user), "fsync");
}

static void do_stranger(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);

	if (!user)
		return;
	say("%zu: a child closes %d (%s)\n", game->at, slot_of(game, user), name_of(user));
	must(game, driver.stranger(slot_of(game, user)), "a child's close");
	touch(game, user->file->name);
}

/* In the middle of what others have replaced it would cut that, and so nothing; from the start it
 * reads the newest content. */
static bool may_read_old(const struct user_file *user)
{
	return (user->flags & O_ACCMODE) == O_RDWR && !user->dirty && user->from != user->file->now;
}

static void do_cut_open(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);
	size_t size;

	if (!user || (user->flags & O_ACCMODE) == O_RDONLY)
		return;
	if (may_read_old(user))
		read_slot(game, slot_of(game, user), READ_PLAIN, 0, 1);
	size = op->c % 3 ? op->b % (some_offset(user, 2, 0) + 10) : 0;
	say("%zu: ftruncate %d (%s) to %zu\n", game->at, slot_of(game, user), name_of(user), size);
	touch(game, user->file->name);
	expect(game, driver.cut(slot_of(game, user), size),
	       user_truncate(&game->contract, user, size), "ftruncate");
}

static void do_cut(struct game *game, const struct op *op)
{
	int name = (int)(op->a % NAMES), process = some_process(game, op->c);
	const struct file *file = file_named(&game->contract, name);
	size_t size = file && op->c % 3 ? op->b % (file->now->bytes.size + 10) : 0;

	say("%zu: truncate %s to %zu\n", game->at, names[name].path, size);
	touch(game, name);
	by(game, process);
	wait_until_shown(game, process, name);
	expect(game, driver.cut_name(process, names[name].path, size),
	       file_truncate_to(&game->contract, name, size), "truncate");
}

static void do_unlink(struct game *game, const struct op *op)
{
	int name = (int)(op->a % NAMES), process = some_process(game, op->c);

	say("%zu: unlink %s by %d\n", game->at, names[name].path, process);
	touch(game, name);
	by(game, process);
	expect(game, driver.unlink(process, names[name].path), file_unlink(&game->contract, name),
	       "unlink");
}

static void rename_names(struct game *game, int process, int name, int name_to, unsigned flags)
{
	say("%zu: rename %s to %s by %d%s\n", game->at, names[name].path, names[name_to].path,
	    process,
	    flags == RENAME_EXCHANGE  ? ", exchanging" :
	    flags == RENAME_NOREPLACE ? ", without replacing" :
					"");
	touch(game, name);
	touch(game, name_to);
	by(game, process);
	wait_until_shown(game, process, name);
	wait_until_shown(game, process, name_to);
	expect(game, driver.rename(process, names[name].path, names[name_to].path, flags),
	       file_rename(&game->contract, name, name_to, flags), "rename");
}

static void do_rename(struct game *game, const struct op *op)
{
	static const unsigned flags[] = { 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE };

	rename_names(game, some_process(game, op->c >> 4), (int)(op->a % NAMES),
		     (int)(op->b % NAMES), flags[op->c % ARRAY_SIZE(flags)]);
}

/* What is saved again: often the same with a line more. */
static void make_save(struct game *game, int name, const struct op *op, struct buf *data)
{
	const struct file *file = file_named(&game->contract, name);

	if (file && op->b & 1 && buf_append_bytes(data, buf_bytes(&file->now->bytes)) < 0)
		abort();
	if (file && op->b & 2)
		data->size -= MIN(data->size, (size_t)(op->b >> 8) % 5);
	if (!(op->b & 4))
		make_content(game, names[name].kind, op->c, data);
}

/* As clients do. */
static void do_save(struct game *game, const struct op *op)
{
	int name = (int)(op->a % NAMES), process = some_process(game, op->a >> 8), to = name;
	_cleanup_(buf_done) struct buf data = { 0 };
	int flags = O_WRONLY | O_CREAT | O_TRUNC;
	size_t cut;

	make_save(game, name, op, &data);
	if ((op->b >> 4) % 4 == 1) {
		if (file_named(&game->contract, name))
			do_unlink(game,
				  &(struct op){ .a = (uint32_t)name, .c = (uint32_t)process });
		flags = O_WRONLY | O_CREAT | O_EXCL;
	}
	if ((op->b >> 4) % 4 == 2)
		to = 6;
	if (open_as(game, EXTRA, process, to, flags) < 0)
		return;
	cut = data.size ? op->c % data.size : 0;
	if (cut)
		write_slot(game, EXTRA, 0, bytes_make(data.data, cut));
	/* With -o strict a write may be refused. */
	if (data.size && game->user[EXTRA].position == cut)
		write_slot(game, EXTRA, cut, bytes_make(data.data + cut, data.size - cut));
	close_slot(game, EXTRA);
	if (to != name)
		rename_names(game, process, to, name, 0);
}

static void do_append(struct game *game, const struct op *op)
{
	int name = (int)(op->a % NAMES), process = some_process(game, op->a >> 8);

	open_as(game, EXTRA, process, name, O_WRONLY | O_CREAT | O_APPEND);
	for (uint32_t i = 0; i <= op->b % 3; i++) {
		_cleanup_(buf_done) struct buf data = { 0 };

		make_content(game, names[name].kind, op->c + i, &data);
		if (data.size)
			write_slot(game, EXTRA, 0, buf_bytes(&data));
	}
	close_slot(game, EXTRA);
}

static void do_times(struct game *game, const struct op *op)
{
	int64_t mtime = INT64_C(1000000000000000000) + op->b * INT64_C(1000000007);
	struct user_file *user = op->c & 1 ? some_user(game, op->a) : NULL;
	struct file *file = user ? user->file : file_named(&game->contract, (int)(op->a % NAMES));
	int process = user ? user->process : process_here(game), r;

	if (!file || (!user && file->name < 0))
		return;
	if (!user)
		wait_until_shown(game, process, file->name);
	/* Once the kernel asks for the file anew, which a descriptor cannot give. */
	if (user && (r = driver.times(slot_of(game, user), mtime)) == -ESTALE &&
	    count_mounts(game) > 1)
		r = driver.times(slot_of(game, user), mtime);
	if (!user)
		r = driver.times_name(names[file->name].path, mtime);
	say("%zu: set the time of %s\n", game->at, user ? name_of(user) : names[file->name].path);
	must(game, r, "utimensat");
	file->mtime = mtime;
	/* Writers on other mounts give it the time at which they have written. */
	for (size_t i = 0; i < SLOTS; i++)
		if (game->user[i].is_open && game->user[i].file == file &&
		    game->user[i].process / PROCESSES == process / PROCESSES)
			game->user[i].keeps_times = true;
	touch(game, file->name);
}

static void do_mode(struct game *game, const struct op *op)
{
	int name = (int)(op->a % NAMES);
	mode_t mode = 0600 | (op->b & 077);

	say("%zu: chmod %o %s on mount %d\n", game->at, mode, names[name].path, game->here);
	by(game, process_here(game));
	wait_until_shown(game, process_here(game), name);
	expect(game, driver.mode(names[name].path, mode),
	       file_set_mode(&game->contract, name, mode), "chmod");
	touch(game, name);
}

static void do_xattr(struct game *game, const struct op *op)
{
	int name = (int)(op->a % NAMES);
	struct file *file = file_named(&game->contract, name);
	char value[16];

	snprintf(value, sizeof(value), "%u", op->b % 1000);
	say("%zu: setxattr %s\n", game->at, names[name].path);
	wait_until_shown(game, process_here(game), name);
	expect(game, driver.set_xattr(names[name].path, "user.a", value), file ? 0 : -ENOENT,
	       "setxattr");
	if (file) {
		strcpy(file->xattr, value);
		check_xattrs(game, file);
	}
}

static void do_stat(struct game *game, const struct op *op)
{
	struct user_file *user = some_user(game, op->a);
	struct stat st;

	if (!user)
		return;
	wait_until_shown(game, user->process, user->file->name);
	must(game, driver.stat(slot_of(game, user), &st), "fstat");
	say("%zu: fstat %d (%s): %lld bytes\n", game->at, slot_of(game, user), name_of(user),
	    (long long)st.st_size);
	if (!may_be_own_size(user, (size_t)st.st_size) && !shares_size(game, user) &&
	    !may_be_size(game->user, SLOTS, user->file, user->process, (size_t)st.st_size) &&
	    (!went_elsewhere(game, user) || !may_have_missed_size(user, (size_t)st.st_size)))
		fail(game, "fstat %d: %lld bytes", slot_of(game, user), (long long)st.st_size);
}

static void note_key(void *arg, const char *key)
{
	struct game *game = arg;

	game->rows_left |= !file_with_key(&game->contract, key);
}

static bool has_ghosts(const struct game *game)
{
	for (const struct file *file = game->contract.files; file; file = file->next)
		if (file->ghost)
			return true;
	return false;
}

static void settle_now(struct game *game)
{
	int64_t until = driver.now() + SEEN_SOON;

	say("%zu: settle\n", game->at);
	if (has_ghosts(game))
		must(game, driver.settle(), "settling");
	do {
		game->rows_left = false;
		must(game, driver.keys(note_key, game), "listing keys");
	} while (game->rows_left && driver.now() < until);
	settle(&game->contract);
	game->all = true;
}

static void do_settle(struct game *game, const struct op *op)
{
	(void)op;
	settle_now(game);
}

static void do_pause(struct game *game, const struct op *op)
{
	(void)op;
	if (!driver.pause)
		return;
	/* Of two writers of one file nobody knows who is published first. */
	for (size_t i = 0; i < SLOTS; i++)
		for (size_t k = 0; k < i; k++)
			if (game->user[i].is_open && game->user[k].is_open && game->user[i].dirty &&
			    game->user[k].dirty && game->user[i].file == game->user[k].file)
				return;
	settle_now(game);
	say("%zu: pause\n", game->at);
	must(game, driver.pause(), "pausing");
	for (size_t i = 0; i < SLOTS; i++)
		if (game->user[i].is_open)
			user_pause(&game->contract, &game->user[i]);
}

static void look_at_what_is_left(struct game *game)
{
	for (int name = 0; name < NAMES; name++) {
		_cleanup_(buf_done) struct buf bytes = { 0 };
		struct file *file = file_named(&game->contract, name);
		struct bytes newest;

		if (!file || !file->earlier_count)
			continue;
		must(game, driver.content(0, names[name].path, READ_PLAIN, &bytes),
		     names[name].path);
		newest = buf_bytes(&file->now->bytes);
		if (!may_be_left(file, buf_bytes(&bytes)))
			fail(game, "%s behind a kill is %s; it was %s", names[name].path,
			     show(buf_bytes(&bytes)), show(newest));
	}
}

static void restart_now(struct game *game, int mount, bool kill)
{
	if (count_mounts(game) > 1)
		settle_now(game);
	for (int slot = 0; driver.is_mount && !kill && slot < SLOTS; slot++)
		if (game->user[slot].is_open && game->user[slot].process / PROCESSES == mount)
			close_slot(game, slot);
	say("%zu: %s %d\n", game->at, kill ? "kill" : "remount", mount);
	must(game, driver.restart(mount, kill), kill ? "after a kill" : "remounting");
	for (size_t i = 0; i < SLOTS; i++)
		if (game->user[i].is_open && game->user[i].process / PROCESSES == mount)
			user_abandon(&game->contract, &game->user[i], !kill);
	restart(&game->contract, kill);
	look_at_what_is_left(game);
	game->all = true;
}

static void do_remount(struct game *game, const struct op *op)
{
	if (op->a % 4 == 0)
		restart_now(game, game->here, false);
}

static void do_kill(struct game *game, const struct op *op)
{
	if (op->a % 4 == 0)
		restart_now(game, game->here, true);
}

static bool is_seen(struct game *game, int mount, int name)
{
	const struct file *file = file_named(&game->contract, name);
	_cleanup_(buf_done) struct buf bytes = { 0 };
	struct stat st;
	int r = driver.stat_name(mount * PROCESSES + PROCESSES - 1, names[name].path, &st);

	if (!file)
		return r == -ENOENT;
	return r == 0 && (size_t)st.st_size == file->now->bytes.size &&
	       driver.content(mount * PROCESSES, names[name].path, READ_PLAIN, &bytes) == 0 &&
	       bytes_equal(buf_bytes(&bytes), buf_bytes(&file->now->bytes));
}

/* What others change is seen soon. */
static void wait_until_seen(struct game *game, int name)
{
	int64_t until = driver.now() + SEEN_SOON;

	for (int i = 0; driver.is_mount && i < count_mounts(game); i++)
		while (!is_seen(game, i, name) && driver.now() < until)
			usleep(2000);
}

static void do_sql(struct game *game, const struct op *op)
{
	static const char *const rows[] = { "1", "{\"by\": \"sql\"}", "[1, 2, 3]", "\"\xc3\xa4\"",
					    " 5 " };
	struct file *file = file_named(&game->contract, (int)(op->a % NAMES));
	struct bytes data = bytes_str(rows[(op->b >> 4) % ARRAY_SIZE(rows)]);
	enum sql what = (enum sql)(op->b % SQL_KINDS);
	char key[32];
	size_t index;
	int name;

	if (game->profile->options.memory || !file || (what == SQL_DELETE && op->c % 4))
		return;
	strcpy(key, file->key);
	name = file->name;
	if (!sql_changes(&game->contract, file, what, op->c, data, &index))
		return;
	say("%zu: SQL %s row %zu of key %s, %s\n", game->at,
	    (const char *const[]){ "adds", "updates", "deletes", "deletes all from" }[what], index,
	    key, what < SQL_DELETE_LAST ? show(data) : "");
	if (what >= SQL_DELETE_LAST)
		data = (struct bytes){ 0 };
	must(game, driver.sql(key, what == SQL_DELETE ? -1 : (int64_t)index, data), "SQL");
	wait_until_seen(game, name);
	touch(game, name);
}

static const struct move {
	unsigned weight;
	void (*make)(struct game *game, const struct op *op);
} moves[] = {
	{ 14, do_open },  { 8, do_close },    { 22, do_write },	  { 16, do_read },
	{ 4, do_sync },	  { 2, do_stranger }, { 4, do_cut_open }, { 3, do_cut },
	{ 5, do_unlink }, { 6, do_rename },   { 10, do_save },	  { 8, do_append },
	{ 3, do_times },  { 1, do_mode },     { 1, do_xattr },	  { 4, do_stat },
	{ 1, do_settle }, { 1, do_pause },    { 1, do_remount },  { 1, do_kill },
	{ 7, do_sql },
};

static void draw_ops(uint64_t seed, struct op *ops, size_t count)
{
	uint64_t state = seed;
	size_t total = 0;

	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		total += moves[i].weight;
	for (size_t i = 0; i < count; i++) {
		size_t chosen = random_below(&state, total);

		ops[i] =
			(struct op){ 0, (uint32_t)random_next(&state),
				     (uint32_t)random_next(&state), (uint32_t)random_next(&state) };
		while (chosen >= moves[ops[i].type].weight)
			chosen -= moves[ops[i].type++].weight;
	}
}

/* ---- games ---- */

static void age_ghosts(struct game *game)
{
	bool old = false;

	for (struct file *file = game->contract.files; file; file = file->next)
		old |= file->ghost && game->contract.now - file->ghost_at > GHOST_OLD;
	if (old)
		settle_now(game);
}

/* Whether it is not known if what was made came in time to go on where the unlinked file was. */
static bool came_late(const struct game *game)
{
	return game->contract.inherits_from &&
	       driver.now() - game->contract.inherits_from > GHOST_GONE;
}

/* A file of rows that another mount has taken the name from is another one from then on, and may be
 * empty when that mount has changed it just before. */
static void let_go(struct game *game)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		const struct user_file *user = &game->user[slot];

		if (user->is_open && user->file->name < 0 && user->file->kind != ORDINARY &&
		    user->process / PROCESSES != user->file->left_on)
			close_slot(game, slot);
	}
}

static void tick(struct game *game)
{
	driver.tick(game->here);
	game->contract.now = driver.now();
}

/* False when the game cannot go on. */
static bool make_move(struct game *game, const struct op *op)
{
	game->here = (int)((op->a ^ op->b ^ op->c) >> 8) % count_mounts(game);
	tick(game);
	game->touched_count = 0;
	game->all = game->at % CHECK_ALL == CHECK_ALL - 1;
	age_ghosts(game);
	game->contract.inherits_from = 0;
	moves[op->type].make(game, op);
	let_go(game);
	if (came_late(game))
		return false;
	if (game->all) {
		check_everything(game);
		return true;
	}
	for (unsigned i = 0; i < game->touched_count; i++)
		check_file(game, game->touched[i], some_process(game, op->c));
	return true;
}

static void end_game(struct game *game)
{
	for (int slot = 0; slot < SLOTS; slot++) {
		if (!game->user[slot].is_open)
			continue;
		tick(game);
		close_slot(game, slot);
	}
	settle_now(game);
	check_everything(game);
	for (int i = 0; i < count_mounts(game); i++)
		restart_now(game, i, false);
	check_everything(game);
}

/* Directories that are left empty by others go. */
static void make_anchor(struct game *game, const char *path)
{
	must(game, driver.open(EXTRA, 0, path, O_WRONLY | O_CREAT), path);
	must(game, driver.close(EXTRA), path);
}

/* In a process of its own. */
static void play(const struct profile *profile, const struct op *ops, size_t count)
{
	struct game game = { .profile = profile, .ops = ops };

	game.contract.strict = profile->options.strict;
	game.contract.exact = profile->options.exact;
	game.contract.caches = driver.is_mount;
	must(&game, driver.start(&profile->options), "starting");
	must(&game, driver.make_dir("s"), "mkdir");
	must(&game, driver.make_dir("s/d"), "mkdir");
	make_anchor(&game, "s/anchor");
	make_anchor(&game, "s/d/anchor");
	for (game.at = 0; game.at < count; game.at++)
		if (!make_move(&game, &ops[game.at]))
			break;
	if (game.at == count)
		end_game(&game);
	outcome->at = game.at;
	/* Of a game that ends early. */
	for (int slot = 0; slot < SLOTS; slot++)
		if (game.user[slot].is_open)
			user_close(&game.contract, &game.user[slot]);
	contract_done(&game.contract);
	driver.finish();
}

static bool play_aside(const struct profile *profile, const struct op *ops, size_t count)
{
	int status = 0;
	pid_t pid;

	memset(outcome, 0, sizeof(*outcome));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(GAME_SECONDS);
		play(profile, ops, count);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	if (driver.clear)
		driver.clear();
	if (status && !outcome->failed) {
		outcome->at = count - 1;
		snprintf(outcome->text, sizeof(outcome->text), "the game ended with status %#x",
			 (unsigned)status);
	}
	return status == 0;
}

/* Leave operations out as long as it fails. */
static size_t shrink(const struct profile *profile, struct op *ops, size_t count)
{
	struct op *fewer = calloc(count, sizeof(*fewer));
	size_t part = (count + 1) / 2, games = 0;

	if (!fewer)
		return count;
	while (part && games < SHRINKS) {
		bool any = false;

		for (size_t from = 0; from < count && games < SHRINKS; games++) {
			size_t left = MIN(part, count - from);

			memcpy(fewer, ops, from * sizeof(*ops));
			memcpy(fewer + from, ops + from + left,
			       (count - from - left) * sizeof(*ops));
			if (play_aside(profile, fewer, count - left)) {
				from += left;
				continue;
			}
			count = MIN(count - left, outcome->at + 1);
			memcpy(ops, fewer, count * sizeof(*ops));
			any = true;
		}
		if (!any || part > 1)
			part /= 2;
	}
	free(fewer);
	return count;
}

static bool play_seed(const struct profile *profile, uint64_t seed, size_t count, size_t *played)
{
	struct op *ops = calloc(count, sizeof(*ops));
	bool good;

	if (!ops)
		abort();
	draw_ops(seed, ops, count);
	good = play_aside(profile, ops, count);
	*played += outcome->at;
	if (!good) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC), terminal = dup(2);

		printf("%s, SESSFS_TEST_SEED=%llu, operation %zu of %zu: %s\n", profile->title,
		       (unsigned long long)seed, outcome->at, count, outcome->text);
		fflush(stdout);
		count = MIN(count, outcome->at + 1);
		dup2(null, 2);
		count = shrink(profile, ops, count);
		dup2(terminal, 2);
		telling = true;
		dup2(1, 2);
		play_aside(profile, ops, count);
		dup2(terminal, 2);
		telling = false;
		close(null);
		close(terminal);
		printf("this fails with %zu operations: %s\n", count, outcome->text);
		fflush(stdout);
	}
	free(ops);
	return good;
}

/* The first one is always the same, the others are not. */
static uint64_t some_seed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_nsec * 1000 + (uint64_t)getpid() % 1000 * 1000000;
}

static size_t length_of(const struct profile *profile)
{
	const char *given = getenv("SESSFS_RANDOM_LENGTH");

	return given ? strtoull(given, NULL, 0) : profile->ops;
}

static void play_all(uint64_t seed, const char *only, size_t *played, unsigned counts[2])
{
	for (size_t i = 0; i < driver.profile_count; i++) {
		const struct profile *profile = &driver.profiles[i];

		if (only ? strcmp(only, profile->title) != 0 : profile->first && seed != FIRST)
			continue;
		counts[!play_seed(profile, seed, length_of(profile), played)]++;
		if (counts[1] >= FAILURES)
			return;
	}
}

/* The comparison itself: each defect must be noticed within a game. */
static void play_defects(uint64_t seed, unsigned counts[2])
{
	const struct driver good = driver;
	const struct profile *profile = &driver.profiles[1];
	struct op *ops = calloc(profile->ops, sizeof(*ops));

	if (!ops)
		abort();
	draw_ops(seed, ops, profile->ops);
	for (size_t i = 0; i < good.defect_count; i++) {
		bool noticed;

		good.defects[i].bring(&driver);
		noticed = !play_aside(profile, ops, profile->ops);
		driver = good;
		counts[!noticed]++;
		if (!noticed)
			printf("not noticed: %s\n", good.defects[i].title);
		else
			printf("noticed at operation %zu: %s\n", outcome->at,
			       good.defects[i].title);
	}
	free(ops);
}

int main(void)
{
	const char *given = getenv("SESSFS_TEST_SEED"), *number = getenv("SESSFS_RANDOM_OPS");
	const char *only = getenv("SESSFS_RANDOM_PROFILE");
	size_t wanted = number ? strtoull(number, NULL, 0) : OPS, played = 0;
	uint64_t seed = given ? strtoull(given, NULL, 0) : some_seed();
	unsigned counts[2] = { 0 };

	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (outcome == MAP_FAILED)
		return 2;
	if (!given) {
		play_defects(1, counts);
		play_all(FIRST, only, &played, counts);
	}
	do {
		printf("SESSFS_TEST_SEED=%llu\n", (unsigned long long)seed);
		fflush(stdout);
		play_all(seed++, only, &played, counts);
	} while (played < wanted && !given && counts[1] < FAILURES);
	printf("%zu operations\n%u passed, %u failed\n", played, counts[0], counts[1]);
	return counts[1] != 0;
}
