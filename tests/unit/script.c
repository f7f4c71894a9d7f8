/* SPDX-License-Identifier: MIT */
#include "tests/unit/script.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/unit/world.h"

/* A file that stays open over several steps. */
static struct handle *open_file;

static int opens(const char *path, int flags)
{
	return try_open(path, flags, &open_file);
}

static int writes(uint64_t offset, const char *text)
{
	ssize_t n = handle_write(world_tree, open_file, getpid(), offset, bytes_str(text));

	cr_assert(n < 0 || n == (ssize_t)strlen(text), "a short write");
	return (int)MIN(n, 0);
}

static int closes(void)
{
	int r = handle_flush(world_tree, open_file, getpid());

	if (r == 0)
		handle_free(world_tree, open_file);
	return r;
}

enum act {
	MKDIR,
	MAKE,
	OPEN,
	WRITE,
	CLOSE,
	SYNC,
	UNLINK,
	RMDIR,
	RENAME,
	EXCHANGE,
	LINK,
	MODE,
	CUT,
	CUT_OPEN,
	XATTR,
	READ,
	READ_OPEN,
	LIST,
	STAT,
	STATFS,
	TIMES
};

struct step {
	enum act act;
	const char *path;
	const char *text; /* or the other path */
	int number;	  /* flags, offset or size */
};

static const struct step script[] = {
	{ MKDIR, "t", NULL, 0 },
	/* a list by appends, with an unfinished line */
	{ OPEN, "t/l.jsonl", NULL, O_WRONLY | O_CREAT | O_APPEND },
	{ WRITE, NULL, "1\n2\n", 0 },
	{ WRITE, NULL, "x\n{\"a\"", 0 },
	{ WRITE, NULL, ":3}\n{\"torn", 0 },
	{ SYNC, NULL, NULL, 0 },
	{ WRITE, NULL, "\":4}\n5", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ OPEN, "t/l.jsonl", NULL, O_WRONLY | O_APPEND },
	{ WRITE, NULL, "6\n", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ STAT, "t/l.jsonl", "24", 0 },
	{ READ, "t/l.jsonl", "1\n2\nx\n{\"a\":3}\n{\"torn\":4}\n56\n", 0 },
	/* saves of it */
	{ OPEN, "t/l.jsonl", NULL, O_WRONLY | O_TRUNC },
	{ WRITE, NULL, "1\n9\n", 0 },
	{ SYNC, NULL, NULL, 0 },
	{ WRITE, NULL, "x\n3\n", 4 },
	{ CLOSE, NULL, NULL, 0 },
	{ READ, "t/l.jsonl", "1\n9\nx\n3\n", 0 },
	/* compaction of it, and an append through a view */
	{ OPEN, "t/@items=1-2/l.jsonl", NULL, O_RDWR },
	{ READ_OPEN, NULL, "9\n3\n", 0 },
	{ WRITE, NULL, "[9]\n", 0 },
	{ SYNC, NULL, NULL, 0 },
	{ WRITE, NULL, "[9]\n[3]\n", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ OPEN, "t/@last=1/l.jsonl", NULL, O_WRONLY | O_APPEND },
	{ WRITE, NULL, "4\n", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ READ, "t/l.jsonl", "1\nx\n[9]\n[3]\n4\n", 0 },
	{ READ, "t/@last=2/l.jsonl", "[3]\n4\n", 0 },
	{ UNLINK, "t/l.jsonl", NULL, 0 },
	{ OPEN, "t/l.jsonl", NULL, O_WRONLY | O_CREAT },
	{ WRITE, NULL, "1\n8\n{\"torn", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ CUT, "t/l.jsonl", NULL, 4 },
	{ OPEN, "t/l.jsonl", NULL, O_RDWR },
	{ WRITE, NULL, "7\n", 4 },
	{ CUT_OPEN, NULL, NULL, 6 },
	{ CLOSE, NULL, NULL, 0 },
	{ READ, "t/l.jsonl", "1\n8\n7\n", 0 },
	/* a document, saved in three ways */
	{ OPEN, "t/k.json", NULL, O_WRONLY | O_CREAT | O_TRUNC },
	{ WRITE, NULL, "{\"a\":1}", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ OPEN, "t/k.json", NULL, O_WRONLY | O_TRUNC },
	{ WRITE, NULL, "{\"a\":", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ OPEN, "t/k.json.tmp", NULL, O_WRONLY | O_CREAT },
	{ WRITE, NULL, "{\"b\":2}", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ RENAME, "t/k.json.tmp", "t/k.json", 0 },
	{ READ, "t/k.json", "{\"b\":2}", 0 },
	{ XATTR, "t/k.json", "user.a", 0 },
	{ MODE, "t/k.json", NULL, 0600 },
	/* ordinary files, links, an open file without a name */
	{ OPEN, "t/o.txt", NULL, O_RDWR | O_CREAT },
	{ WRITE, NULL, "some text", 70000 },
	{ CLOSE, NULL, NULL, 0 },
	{ CUT, "t/o.txt", NULL, 70004 },
	{ LINK, "t/o.txt", "p.txt", 0 },
	{ UNLINK, "t/o.txt", NULL, 0 },
	{ OPEN, "t/gone.jsonl", NULL, O_RDWR | O_CREAT | O_APPEND },
	{ WRITE, NULL, "1\n{\"a", 0 },
	{ UNLINK, "t/gone.jsonl", NULL, 0 },
	{ MAKE, "t/gone.jsonl", NULL, 0 },
	{ WRITE, NULL, "\":2}\n", 0 },
	{ CLOSE, NULL, NULL, 0 },
	{ UNLINK, "t/gone.jsonl", NULL, 0 },
	/* names */
	{ MKDIR, "t/d", NULL, 0 },
	{ RENAME, "t/l.jsonl", "t/d/m.jsonl", 0 },
	{ RENAME, "t/d", "t/e", 0 },
	{ RENAME, "t/k.json", "t/k.jsonl", 0 },
	{ RENAME, "t/k.jsonl", "t/k.json", 0 },
	{ EXCHANGE, "t/k.json", "t/e/m.jsonl", 0 },
	{ EXCHANGE, "t/k.json", "t/e/m.jsonl", 0 },
	{ MKDIR, "u", NULL, 0 },
	{ EXCHANGE, "t", "u", 0 },
	{ RMDIR, "t", NULL, 0 },
	{ RENAME, "u", "t", 0 },
	{ LIST, "t", "e k.json", 0 },
	{ LIST, "t/e", "m.jsonl", 0 },
	{ STATFS, NULL, NULL, 0 },
	{ TIMES, NULL, NULL, 0 },
};

static int reads(struct handle *handle, const char *path, const char *text)
{
	_cleanup_(buf_done) struct buf out = { 0 };
	int r = handle_read(world_tree, handle, 0, 4096, &out);

	if (r == 0)
		cr_assert(bytes_equal(buf_bytes(&out), bytes_str(text)), "%s is\n%.*s", path,
			  (int)out.size, out.data);
	return r;
}

int script_read(const char *path, const char *text)
{
	struct handle *handle;
	int r = try_open(path, O_RDONLY, &handle);

	if (r < 0)
		return r;
	r = reads(handle, path, text);
	handle_free(world_tree, handle);
	return r;
}

static int list_name(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		     uint64_t position)
{
	struct buf *names = arg;

	(void)shown;
	if (position <= 2)
		return 0;
	cr_assert_not_null(inode);
	forget(inode);
	if (names->size)
		cr_assert_eq(buf_append_byte(names, ' '), 0);
	return buf_append_bytes(names, name);
}

int script_list(const char *path, const char *text)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	struct inode *inode;
	int r = find_inode(path, &inode);

	if (r < 0)
		return r;
	r = tree_list(world_tree, inode, 0, UINT64_MAX, true, list_name, &names);
	forget(inode);
	if (r == 0)
		cr_assert(bytes_equal(buf_bytes(&names), bytes_str(text)), "%s has %.*s", path,
			  (int)names.size, names.data);
	return r;
}

static int do_stat(const struct step *step)
{
	struct inode *inode;
	struct stat st;
	int r = find_inode(step->path, &inode);

	if (r < 0)
		return r;
	r = tree_stat(world_tree, inode, &st);
	forget(inode);
	if (r == 0)
		cr_assert_gt(st.st_size, 0);
	return r;
}

static int do_xattr(const struct step *step)
{
	struct inode *inode;
	int r = find_inode(step->path, &inode);

	if (r < 0)
		return r;
	r = tree_set_xattr(world_tree, inode, bytes_str(step->text), BYTES("value"), XATTR_CREATE);
	forget(inode);
	return r;
}

static int run(const struct step *step)
{
	const struct stat st = { .st_mode = (mode_t)step->number, .st_size = step->number };
	struct statvfs space;

	switch (step->act) {
	case MKDIR:
		return make_file(step->path, S_IFDIR | 0755);
	case MAKE:
		return make_file(step->path, S_IFREG | 0644);
	case OPEN:
		return opens(step->path, step->number);
	case WRITE:
		return writes((uint64_t)step->number, step->text);
	case CLOSE:
		return closes();
	case SYNC:
		return handle_sync(world_tree, open_file);
	case UNLINK:
		return unlinked(step->path);
	case RMDIR:
		return removed_dir(step->path);
	case RENAME:
		return renamed(step->path, step->text, 0);
	case EXCHANGE:
		return renamed(step->path, step->text, RENAME_EXCHANGE);
	case LINK:
		return linked(step->path, step->text);
	case MODE:
		return set_attr(step->path, &st, TREE_SET_MODE);
	case CUT:
		return set_attr(step->path, &st, TREE_SET_SIZE);
	case CUT_OPEN:
		return set_attr_by(open_file, &st, TREE_SET_SIZE);
	case XATTR:
		return do_xattr(step);
	case READ:
		return script_read(step->path, step->text);
	case READ_OPEN:
		return reads(open_file, "what is open", step->text);
	case LIST:
		return script_list(step->path, step->text);
	case STAT:
		return do_stat(step);
	case STATFS:
		return tree_statfs(world_tree, NULL, &space);
	case TIMES:
		return handle_sync(world_tree, NULL);
	}
	return -EINVAL;
}

size_t script_steps(void)
{
	return ARRAY_SIZE(script);
}

int script_run(size_t i)
{
	return run(&script[i]);
}

bool script_syncs(size_t i)
{
	return script[i].act == SYNC || script[i].act == TIMES;
}

void script_check_end(void)
{
	cr_assert_str_eq(names_in(""), "p.txt t");
	cr_assert_str_eq(content_of("t/e/m.jsonl"), "1\n8\n7\n");
	cr_assert_str_eq(content_of("t/k.json"), "{\"b\":2}");
	cr_assert_str_eq(keys(), "t/e/m[0-2] t/k[0-0]");
	cr_assert_str_eq(rows_of("t", "e/m"), "0=1 1=8 2=7");
	cr_assert_str_eq(rows_of("t", "k"), "0={\"b\":2}");
	cr_assert_eq(stat_of("p.txt").st_size, 70004);
	cr_assert_eq(stat_of("p.txt").st_nlink, 1);
	cr_assert_eq(stat_of("t/k.json").st_mode, S_IFREG | 0600);
	cr_assert_eq(stat_of("t").st_nlink, 3);
}
