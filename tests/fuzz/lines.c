/* SPDX-License-Identifier: MIT */

/*
 * A list that is written in parts, cut anywhere: its bytes and its rows are those of the whole,
 * however it was written, and what is appended later follows the rules of torn lines.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "fs/base/lines.h"
#include "tests/fuzz/place.h"

const char fuzz_name[] = "lines";
const unsigned fuzz_runs = 1500;
const struct bytes fuzz_words[] = {
	BYTES("\n"),	   BYTES("\r\n"), BYTES("{\"a\":1}\n"), BYTES("1\n"), BYTES("{\"torn\":"),
	BYTES("null"),	   BYTES("\"\n"), BYTES("\n\n"),	BYTES("]"),   BYTES("[4,\n"),
	BYTES("\0\0\0\0"), BYTES("\xff"), BYTES("\xc3"),	BYTES(" "),   { NULL, 0 },
};

static const char *const seeds[] = {
	"{\"a\": 1}\n{\"b\": 2}\n{\"c\": 3}\n",
	"{\"a\": 1}\n\n# no\n  \n{\"torn\": [1,\n{\"b\": 2}",
	"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n",
	"{\"torn\":",
	"x\r\n1\r\n\r\n\xff\xfe\n\"\xc3\xa9\"\n[1, 2",
	"\n",
	"",
};

enum way {
	WAY_APPEND,   /* O_APPEND */
	WAY_STREAM,   /* in sequence, into a new list */
	WAY_SAVE,     /* over an older content */
	WAY_BACKWARD, /* the parts in the wrong order */
	WAY_SYNC,     /* O_APPEND, with fsync after each part */
	WAYS,
};

bool fuzz_seed(unsigned n, struct buf *seed)
{
	static const uint8_t cuts[][5] = {
		{ 4, 1, 0, 7, 3 },
		{ 4, 9, 9, 9, 9 },
		{ 4, 30, 2, 1, 1 },
		{ 4, 0, 0, 0, 0 },
	};
	uint8_t way = (uint8_t)(n % WAYS);

	n /= WAYS;
	if (n >= ARRAY_SIZE(seeds) * ARRAY_SIZE(cuts))
		return false;
	fuzz_put(seed, &way, 1);
	fuzz_put(seed, cuts[n % ARRAY_SIZE(cuts)], sizeof(cuts[0]));
	n /= ARRAY_SIZE(cuts);
	fuzz_put(seed, "\1{", 2);
	fuzz_put(seed, seeds[n], strlen(seeds[n]));
	return true;
}

static const struct caller caller = { .uid = 1000, .gid = 1000 };

static struct handle *open_list(struct tree *tree, struct inode *dir, const char *name, int flags)
{
	const struct tree_new what = { .mode = S_IFREG | 0644, .will_save = true };
	struct inode *inode;
	struct handle *handle;
	int r = tree_lookup(tree, dir, bytes_str(name), &inode);

	if (r == -ENOENT)
		r = tree_make(tree, &caller, dir, bytes_str(name), &what, &inode);
	fuzz_check(r == 0, "%s: %s", name, strerror(-r));
	r = tree_open_file(tree, inode, FACE_ANY, flags, getpid(), &handle);
	fuzz_check(r == 0, "%s: %s", name, strerror(-r));
	inode_forget(tree, inode, 1);
	return handle;
}

static void write_part(struct tree *tree, struct handle *handle, size_t offset, struct bytes part)
{
	ssize_t n = handle_write(tree, handle, getpid(), offset, part);

	fuzz_check(n == (ssize_t)part.size, "wrote %zd of %zu", n, part.size);
}

static void close_list(struct tree *tree, struct handle *handle)
{
	int r = handle_flush(tree, handle, getpid());

	fuzz_check(r == 0, "flush: %s", strerror(-r));
	handle_free(tree, handle);
}

enum { PARTS_MAX = 32 };

struct parts {
	size_t at[PARTS_MAX + 1];
	size_t count;
};

/* Cuts come first in the input: each is the size of a part, the last part is the rest. */
static void take_parts(struct bytes cuts, size_t size, struct parts *parts)
{
	size_t at = 0;

	parts->count = 0;
	for (size_t i = 0; i < cuts.size && i < PARTS_MAX - 1 && at < size; i++) {
		parts->at[parts->count++] = at;
		at += MIN((size_t)(unsigned char)cuts.data[i], size - at);
	}
	parts->at[parts->count++] = at;
	parts->at[parts->count] = size;
}

struct comparison {
	struct bytes rest;
	int64_t index;
};

static int compare_row(void *arg, int64_t index, struct bytes data)
{
	struct comparison *comparison = arg;
	struct line line;

	fuzz_check(index == comparison->index++, "item %" PRId64, index);
	while (lines_next(&comparison->rest, &line))
		if (lines_is_row(line.text, NULL)) {
			fuzz_check(bytes_equal(line.text, data), "item %" PRId64, index);
			return 0;
		}
	fuzz_check(false, "item %" PRId64 " is no line", index);
	return 0;
}

/* Unless the file is a draft, its rows are its lines that are JSON. */
static void check_rows(struct tree *tree, struct bytes text)
{
	const struct backend_ops *ops = tree->backend->ops;
	struct comparison comparison = { .rest = text };
	struct backend_snapshot *snapshot;
	struct backend_node node;
	struct line line;
	bool draft;

	fuzz_need(ops->snapshot_begin(tree->backend, 0, &snapshot) == 0);
	fuzz_check(ops->node_find(tree->backend, snapshot, BYTES("s"), BYTES("l"), &node) == 0,
		   "no node");
	draft = node.flags & BACKEND_DRAFT;
	backend_node_done(&node);
	if (!draft) {
		fuzz_check(ops->row_read(tree->backend, snapshot, BYTES("s"), BYTES("l"), INT64_MIN,
					 compare_row, &comparison) == 0,
			   "row_read");
		while (lines_next(&comparison.rest, &line))
			fuzz_check(!lines_is_row(line.text, NULL), "a line is no row: %.*s",
				   (int)line.text.size, line.text.data);
	}
	ops->snapshot_end(tree->backend, snapshot);
}

/* Up to the last newline. */
static struct bytes whole_part(struct bytes text)
{
	while (text.size && text.data[text.size - 1] != '\n')
		text.size--;
	return text;
}

static void write_parts(struct tree *tree, struct handle *handle, enum way way,
			const struct parts *parts, struct bytes text)
{
	for (size_t i = 0; i < parts->count; i++) {
		size_t n = way == WAY_BACKWARD ? parts->count - 1 - i : i;
		size_t at = parts->at[n];

		write_part(tree, handle, at, bytes_make(text.data + at, parts->at[n + 1] - at));
		/* What is whole is there for everybody when the write returns. */
		if (way == WAY_APPEND || way == WAY_STREAM)
			check_rows(tree, whole_part(bytes_make(text.data, parts->at[n + 1])));
		if (way == WAY_SYNC)
			fuzz_check(handle_sync(tree, handle) == 0, "sync");
	}
}

static void write_list(struct tree *tree, struct inode *dir, enum way way,
		       const struct parts *parts, struct bytes text)
{
	bool appends = way == WAY_APPEND || way == WAY_SYNC;
	struct handle *handle;

	if (way == WAY_SAVE) {
		handle = open_list(tree, dir, "l.jsonl", O_WRONLY);
		write_part(tree, handle, 0, BYTES("7\n{\"old\": 1}\n# no\n8\n"));
		close_list(tree, handle);
	}
	handle = open_list(tree, dir, "l.jsonl",
			   O_WRONLY | (appends	       ? O_APPEND :
				       way == WAY_SAVE ? O_TRUNC :
							 0));
	write_parts(tree, handle, way, parts, text);
	close_list(tree, handle);
}

static void check_bytes(struct tree *tree, struct inode *dir, struct bytes expected)
{
	struct handle *handle = open_list(tree, dir, "l.jsonl", O_RDONLY);
	_cleanup_(buf_done) struct buf bytes = { 0 };
	size_t before;

	do {
		before = bytes.size;
		fuzz_check(handle_read(tree, handle, bytes.size, 100, &bytes) == 0, "read");
	} while (bytes.size > before);
	handle_free(tree, handle);
	fuzz_check(bytes_equal(buf_bytes(&bytes), expected), "%zu bytes for %zu:\n%.*s\n--\n%.*s",
		   bytes.size, expected.size, (int)bytes.size, bytes.data, (int)expected.size,
		   expected.data);
}

static void check_list(struct tree *tree, struct inode *dir, struct bytes text)
{
	_cleanup_(buf_done) struct buf said = { 0 };

	check_bytes(tree, dir, text);
	check_rows(tree, text);
	fuzz_check(place_violations(tree->backend, &said) == 0, "check says:\n%.*s", (int)said.size,
		   said.data);
}

/* Another writer appends a text: a torn line is closed off when the text's first line is valid and
 * would not be valid glued to it. */
static void append_text(struct tree *tree, struct inode *dir, struct buf *list, struct bytes text)
{
	struct handle *handle = open_list(tree, dir, "l.jsonl", O_WRONLY | O_APPEND);
	_cleanup_(buf_done) struct buf glued = { 0 };
	struct bytes rest = text;
	size_t tail = list->size;
	struct line line;

	write_part(tree, handle, 0, text);
	close_list(tree, handle);
	while (tail && list->data[tail - 1] != '\n')
		tail--;
	if (tail < list->size && lines_next(&rest, &line)) {
		fuzz_put(&glued, list->data + tail, list->size - tail);
		fuzz_put(&glued, line.text.data, line.text.size);
		if (!lines_is_row(buf_bytes(&glued), NULL) && lines_is_row(line.text, NULL))
			fuzz_put(list, "\n", 1);
	}
	fuzz_put(list, text.data, text.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* No clock publishes anything. */
	const struct tree_options options = { .set_pause = true };
	const struct tree_new session = { .mode = S_IFDIR | 0755 };
	struct fuzz_input in = fuzz_input(data, size);
	enum way way = (enum way)take_below(&in, WAYS);
	struct bytes cuts = take_bytes(&in, PARTS_MAX);
	struct bytes more = take_bytes(&in, 250);
	struct bytes text = bytes_make(in.at, fuzz_left(&in));
	_cleanup_(buf_done) struct buf list = { 0 };
	struct parts parts;
	struct inode *dir;
	struct tree *tree;

	if (size > 4096)
		return -1;
	tree = place_memory(&options);
	fuzz_need(tree_make(tree, &caller, tree_inode(tree, BACKEND_ROOT), BYTES("s"), &session,
			    &dir) == 0);
	take_parts(cuts, text.size, &parts);
	write_list(tree, dir, way, &parts, text);
	fuzz_put(&list, text.data, text.size);
	check_list(tree, dir, buf_bytes(&list));
	append_text(tree, dir, &list, more);
	check_list(tree, dir, buf_bytes(&list));
	inode_forget(tree, dir, 1);
	place_check_inodes(tree);
	tree_close(tree);
	return 0;
}
