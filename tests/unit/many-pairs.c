/* SPDX-License-Identifier: MIT */

/*
 * Two operations that are in each other's way, on two of three mounts of one store: one before, in
 * the middle of, or behind the other.  Of directories there is no cycle, what was made is in a
 * directory that is there, no line is lost or doubled, rows have no hole, and what was removed does
 * not come back.
 *
 * SESSFS_PAIRS=N sets how often each pair is played; a failure names the seed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/tree/tree.h"
#include "tests/unit/many.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"

enum {
	MOUNTS = 3,
	ROUNDS = 40,
	ROUNDS_SOAK = 200,
	CHECKED = 1000,
	LINES = 20 /* at the most */,
	PENDING = 1
};

struct pair {
	const char *name;
	void (*prepare)(void);
	int (*act[2])(void);
	/* What each of the two has returned. */
	void (*judge)(const int *r);
};

static uint64_t state;
static unsigned turn;
static bool behind;		/* one came behind the other */
static int later;		/* which has committed later */
static const char *file;	/* of this round */
static char content[8 * LINES]; /* of the file */
static struct handle *handle;
static int handle_mount;

static size_t below(size_t limit)
{
	return random_below(&state, limit);
}

static void use_any(void)
{
	many_use((int)below(MOUNTS));
}

/* Each mount has heard of everything, and so has its kernel. */
static void settle_all(void)
{
	for (int i = 0; i < MOUNTS; i++) {
		many_use(i);
		cr_assert_eq(world_tree->take_in(world_tree), 0);
		while (tree_is_notifying(world_tree))
			usleep(50);
	}
}

#define ON_ALL(expression)                                                                         \
	do {                                                                                       \
		settle_all();                                                                      \
		for (int i_ = 0; i_ < MOUNTS; i_++) {                                              \
			many_use(i_);                                                              \
			cr_assert(expression, "round %u, mount %d", turn, i_);                     \
		}                                                                                  \
	} while (0)

static const char *rows_expected(void)
{
	static char rows[sizeof(content) + 8 * LINES];
	const char *line = content;
	size_t used = 0;

	rows[0] = '\0';
	for (int i = 0; *line; i++, line = strchr(line, '\n') + 1)
		used += (size_t)sprintf(rows + used, "%s%d=%.*s", i ? " " : "", i,
					(int)strcspn(line, "\n"), line);
	return rows;
}

static void expect_content(void)
{
	ON_ALL(strcmp(content_of(file), content) == 0);
	if (strcmp(file, "s/l.jsonl") == 0)
		ON_ALL(strcmp(rows_of("s", "l"), rows_expected()) == 0);
}

static void expect_one(const int *r)
{
	cr_assert((r[0] == 0) != (r[1] == 0), "round %u: %d and %d", turn, r[0], r[1]);
}

/* ---- directories into each other ---- */

static void make_two(void)
{
	make_dir("s/a");
	make_dir("s/b");
}

static int move_a(void)
{
	return renamed("s/a", "s/b/a", 0);
}

static int move_b(void)
{
	return renamed("s/b", "s/a/b", 0);
}

static void judge_moved(const int *r)
{
	const char *outer = r[0] == 0 ? "s/b" : "s/a", *inner = r[0] == 0 ? "s/b/a" : "s/a/b";

	expect_one(r);
	ON_ALL(strcmp(names_in("s"), outer + 2) == 0 && strcmp(names_in(outer), inner + 4) == 0);
	use_any();
	cr_assert_eq(removed_dir(inner), 0);
	use_any();
	cr_assert_eq(removed_dir(outer), 0);
}

/* ---- rmdir beside create ---- */

static const char *const made[] = { "s/a/k.json", "s/a/l.jsonl", "s/a/o", "s/a/d" };
static const char *made_now;

static void make_one(void)
{
	make_dir("s/a");
	made_now = made[below(ARRAY_SIZE(made))];
}

static int remove_it(void)
{
	return removed_dir("s/a");
}

static int make_in_it(void)
{
	return make_file(made_now,
			 strcmp(made_now, "s/a/d") == 0 ? S_IFDIR | 0755 : S_IFREG | 0644);
}

static void judge_made(const int *r)
{
	expect_one(r);
	ON_ALL(looked_up("s/a") == (r[0] ? 0 : -ENOENT));
	if (r[0] == 0)
		return;
	cr_assert_eq(r[0], -ENOTEMPTY);
	ON_ALL(strcmp(names_in("s/a"), made_now + 4) == 0);
	use_any();
	cr_assert_eq(strcmp(made_now, "s/a/d") ? unlinked(made_now) : removed_dir(made_now), 0);
	use_any();
	cr_assert_eq(removed_dir("s/a"), 0);
}

/* ---- chmod, and rewriting, beside an append ---- */

static mode_t mode;
static size_t lines;
static char line[12], rewritten[sizeof(content)];

static void begin_file(const char *path)
{
	file = path;
	content[0] = '\0';
	lines = 1 + below(LINES);
	for (size_t i = 0; i < lines; i++)
		sprintf(content + strlen(content), "[%zu]\n", i % 10);
	save(file, content);
	snprintf(line, sizeof(line), "%u\n", turn);
	mode = below(2) ? 0600 : 0640;
}

static void begin_any(void)
{
	begin_file(below(2) ? "s/l.jsonl" : "s/o");
}

static int append_line(void)
{
	append(file, line);
	return 0;
}

static int change_mode(void)
{
	const struct stat st = { .st_mode = mode };

	return set_attr(file, &st, TREE_SET_MODE);
}

/* Nothing of it is left anywhere. */
static void expect_gone(void)
{
	many_settle();
	ON_ALL(looked_up(file) == -ENOENT && strcmp(names_in("s"), "") == 0);
	many_use(0);
	cr_assert_str_eq(keys(), "");
}

static void end_file(void)
{
	expect_content();
	use_any();
	cr_assert_eq(unlinked(file), 0);
	expect_gone();
}

static void judge_mode(const int *r)
{
	cr_assert(r[0] == 0 && r[1] == 0);
	strcat(content, line);
	ON_ALL((stat_of(file).st_mode & 07777) == mode);
	end_file();
}

static void begin_list(void)
{
	begin_file("s/l.jsonl");
	/* Some lines stay, some go, and one comes. */
	strcpy(rewritten, content + 4 * below(lines + 1));
	strcat(rewritten, "\"kept\"\n");
}

static int rewrite(void)
{
	save(file, rewritten);
	return 0;
}

static int rewrite_by_rename(void)
{
	save("s/l.tmp", rewritten);
	return renamed("s/l.tmp", file, 0);
}

static void expect_rewritten(bool kept)
{
	strcpy(content, rewritten);
	if (kept)
		strcat(content, line);
	end_file();
}

/* The line is dropped by who rewrites the list later, and stands behind what he has written
 * otherwise. */
static void judge_rewritten(const int *r)
{
	cr_assert(r[0] == 0 && r[1] == 0);
	expect_rewritten(later == 1);
}

/* What was opened before is another file from then on. */
static void judge_renamed(const int *r)
{
	cr_assert(r[0] == 0 && r[1] == 0);
	expect_rewritten(later == 1 && behind);
}

/* ---- compaction beside an append, a save, and another compaction ---- */

/* Which lines of the list become one, by each of the two. */
static struct {
	size_t first;
	size_t last;
	char line[16];
} compaction[2];

static void begin_compactions(void)
{
	begin_list();
	for (unsigned i = 0; i < 2; i++) {
		compaction[i].first = below(2) ? below(lines + 1) : 0;
		compaction[i].last = compaction[i].first + below(LINES);
		snprintf(compaction[i].line, sizeof(compaction[i].line), "\"%u %u\"\n", i, turn);
	}
}

static void read_version(char *word, size_t size)
{
	_cleanup_(buf_done) struct buf version = { 0 };
	struct inode *inode = inode_at(file);

	cr_assert_eq(tree_get_xattr(world_tree, inode, BYTES("user.sessfs.version"), &version), 0);
	snprintf(word, size, "%.*s", (int)version.size, version.data);
	forget(inode);
}

/* By its version, or by who has read it. */
static int compact(int i, bool reads)
{
	const struct stat empty = { 0 };
	char path[128], version[64], condition[80] = "";
	struct handle *compactor;
	int r;

	read_version(version, sizeof(version));
	if (!reads)
		snprintf(condition, sizeof(condition), ",if=%s", version);
	snprintf(path, sizeof(path), "s/@items=%zu-%zu%s/l.jsonl", compaction[i].first,
		 compaction[i].last, condition);
	r = try_open(path, reads ? O_RDWR : O_WRONLY | O_TRUNC, &compactor);
	if (r < 0)
		return r;
	if (reads)
		read_by(compactor);
	if (reads)
		cr_assert_eq(set_attr_by(compactor, &empty, TREE_SET_SIZE), 0);
	write_at(compactor, 0, bytes_str(compaction[i].line));
	r = handle_flush(world_tree, compactor, getpid());
	handle_free(world_tree, compactor);
	return r;
}

static int compact_by_reading(void)
{
	return compact(0, true);
}

static int compact_by_version(void)
{
	return compact(1, false);
}

static char *line_at(char *text, size_t number)
{
	while (number-- && *text)
		text = strchr(text, '\n') + 1;
	return text;
}

static void compact_content(int i)
{
	char *from = line_at(content, compaction[i].first);
	char *to = line_at(content, compaction[i].last + 1), rest[sizeof(content)];

	strcpy(rest, to);
	strcpy(from, compaction[i].line);
	strcat(content, rest);
}

/* What is added counts for no compaction that came before it. */
static void judge_compacted(const int *r)
{
	cr_assert(r[0] == 0 && r[1] == 0, "round %u: %d and %d", turn, r[0], r[1]);
	if (behind && later == 0)
		strcat(content, line);
	compact_content(0);
	if (!behind || later == 1)
		strcat(content, line);
	end_file();
}

/* A compaction is refused if the list was saved in the middle of it. */
static void judge_saved(const int *r)
{
	bool refused = !behind && later == 0;

	cr_assert(r[0] == (refused ? -ESTALE : 0) && r[1] == 0, "round %u: %d and %d", turn, r[0],
		  r[1]);
	strcpy(content, rewritten);
	if (behind && later == 0)
		compact_content(0);
	end_file();
}

static void judge_both_compacted(const int *r)
{
	cr_assert(r[later] == (behind ? 0 : -ESTALE) && r[!later] == 0, "round %u: %d and %d", turn,
		  r[0], r[1]);
	compact_content(!later);
	if (behind)
		compact_content(later);
	end_file();
}

/* ---- compaction beside what is done to the name ---- */

static int compact_if_there(void)
{
	int r = looked_up(file);

	return r < 0 ? r : compact_by_reading();
}

static int rename_away(void)
{
	return renamed(file, "s/m.jsonl", 0);
}

/* It is the file that is compacted, whatever its name is by then. */
static void judge_renamed_away(const int *r)
{
	bool missed = behind && later == 0;

	cr_assert(r[0] == (missed ? -ENOENT : 0) && r[1] == 0, "round %u: %d and %d", turn, r[0],
		  r[1]);
	if (!missed)
		compact_content(0);
	use_any();
	cr_assert_eq(renamed("s/m.jsonl", file, 0), 0);
	end_file();
}

static int unlink_it(void)
{
	return unlinked(file);
}

static void judge_removed(const int *r)
{
	int expected = later == 1 ? 0 : behind ? -ENOENT : -ESTALE;

	cr_assert(r[0] == expected && r[1] == 0, "round %u: %d and %d", turn, r[0], r[1]);
	expect_gone();
}

/* ---- unlink beside open ---- */

static int flags;

static void begin_open(void)
{
	begin_any();
	flags = below(2) ? O_RDONLY : O_WRONLY | O_APPEND;
	handle = NULL;
}

static int open_it(void)
{
	const struct tree *tree = world_tree;

	for (handle_mount = 0; many_use(handle_mount), world_tree != tree; handle_mount++)
		;
	return try_open(file, flags, &handle);
}

static void judge_unlinked(const int *r)
{
	cr_assert_eq(r[1], 0);
	cr_assert(r[0] == 0 || r[0] == -ENOENT, "round %u: open says %d", turn, r[0]);
	settle_all();
	many_use(handle_mount);
	if (r[0] == 0 && flags == O_RDONLY)
		cr_assert_str_eq(read_by(handle), content);
	if (r[0] == 0 && flags != O_RDONLY)
		append_to(handle, line);
	if (r[0] == 0)
		close_handle(handle);
	expect_gone();
}

static const struct pair pairs[] = {
	{ "directories into each other", make_two, { move_a, move_b }, judge_moved },
	{ "rmdir beside create", make_one, { remove_it, make_in_it }, judge_made },
	{ "chmod beside append", begin_any, { change_mode, append_line }, judge_mode },
	{ "unlink beside open", begin_open, { open_it, unlink_it }, judge_unlinked },
	{ "rewriting beside append", begin_list, { rewrite, append_line }, judge_rewritten },
	{ "rename over beside append",
	  begin_list,
	  { rewrite_by_rename, append_line },
	  judge_renamed },
	{ "compaction beside append",
	  begin_compactions,
	  { compact_by_reading, append_line },
	  judge_compacted },
	{ "compaction beside rewriting",
	  begin_compactions,
	  { compact_by_reading, rewrite },
	  judge_saved },
	{ "compaction beside rename",
	  begin_compactions,
	  { compact_if_there, rename_away },
	  judge_renamed_away },
	{ "compaction beside rename over",
	  begin_compactions,
	  { compact_by_reading, rewrite_by_rename },
	  judge_saved },
	{ "compaction beside unlink",
	  begin_compactions,
	  { compact_if_there, unlink_it },
	  judge_removed },
	{ "compaction beside compaction",
	  begin_compactions,
	  { compact_by_reading, compact_by_version },
	  judge_both_compacted },
};

/* ---- playing ---- */

static const struct pair *pair;
static int other, result[2];

static void act_other(void)
{
	result[other] = pair->act[other]();
}

static void play(void)
{
	int first = (int)below(2), mount = (int)below(MOUNTS);
	int mount_other = (mount + 1 + (int)below(MOUNTS - 1)) % MOUNTS;

	use_any();
	pair->prepare();
	/* Sometimes a mount has yet to hear of what is there. */
	if (below(4))
		settle_all();
	other = !first;
	if (below(4))
		many_meanwhile(mount, mount_other, act_other);
	many_use(mount);
	result[first] = pair->act[first]();
	many_forget_meanwhile();
	behind = result[other] == PENDING;
	if (behind) {
		many_use(mount_other);
		act_other();
	}
	later = behind ? other : first;
	use_any();
	pair->judge(result);
}

/* A file is slower. */
static unsigned count_rounds(int kind)
{
	unsigned count = (unsigned)rounds("SESSFS_PAIRS", ROUNDS, ROUNDS_SOAK);

	return kind == WORLD_SQLITE ? count / 10 : count;
}

ParameterizedTestParameters(many_pairs, what_meets_is_as_if_one_came_behind_the_other)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many_pairs, what_meets_is_as_if_one_came_behind_the_other)
{
	unsigned count = count_rounds(*kind);

	state = random_seed("many-pairs");
	many_open(*kind, MOUNTS);
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		pair = &pairs[i];
		for (turn = 1; turn <= count; turn++) {
			result[0] = result[1] = PENDING;
			play();
			if (turn % CHECKED == 0)
				world_check();
		}
		fprintf(stderr, "%s: %u times\n", pair->name, count);
	}
	many_use(0);
	world_check();
	many_close();
}
