/* SPDX-License-Identifier: MIT */

/*
 * Random operations of one writer at a time on one file, against its bytes in plain memory: what is
 * read back is what was written, and rows are what the bytes say.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "fs/base/lines.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

struct game {
	const char *path;
	const char *key; /* NULL: an ordinary file */
	struct buf model;
	uint64_t state;
	unsigned step;
	char done[600]; /* what was done last, for a failure */
};

static size_t below(struct game *game, size_t limit)
{
	return random_below(&game->state, limit);
}

static void note(struct game *game, const char *what, size_t a, size_t b)
{
	char text[64];
	size_t used = strlen(game->done);

	snprintf(text, sizeof(text), " %u:%s(%zu,%zu)", game->step, what, a, b);
	if (used + strlen(text) >= sizeof(game->done)) {
		memmove(game->done, game->done + 200, used - 200 + 1);
		used -= 200;
	}
	strcpy(game->done + used, text);
}

static const char *const scraps[] = {
	"1\n",	 "{\"a\": [1, 2]}\n", "\n",  "# no\n", "{\"torn\":", "\"text", "\"\n", "3", "]\n",
	"[4,\n", "null\n\n5\n",	      " \n", "\r\n",   "x",	     "{}",
};

/* Some bytes to be written, mostly lines. */
static void make_scrap(struct game *game, struct buf *scrap)
{
	size_t count = 1 + below(game, 4);

	for (size_t i = 0; i < count; i++)
		cr_assert_eq(buf_append_str(scrap, scraps[below(game, ARRAY_SIZE(scraps))]), 0);
	if (below(game, 40) == 0) {
		cr_assert_eq(buf_append_byte(scrap, '"'), 0);
		for (size_t i = below(game, 9000); i; i--)
			cr_assert_eq(buf_append_str(scrap, "0123456789"), 0);
		cr_assert_eq(buf_append_str(scrap, "\"\n"), 0);
	}
}

static void model_write(struct game *game, size_t offset, struct bytes data)
{
	struct buf *model = &game->model;

	if (offset + data.size > model->size)
		cr_assert_eq(buf_append_zeros(model, offset + data.size - model->size), 0);
	if (data.size)
		memcpy(model->data + offset, data.data, data.size);
}

static void model_truncate(struct game *game, size_t size)
{
	if (size > game->model.size)
		cr_assert_eq(buf_append_zeros(&game->model, size - game->model.size), 0);
	game->model.size = size;
}

/* ---- what is done ---- */

/* A torn line may be closed off by a newline that the model has not: as contract.md says, when the
 * first line is valid alone and would not be valid glued. */
static void model_seal(struct game *game, struct bytes data)
{
	_cleanup_(buf_done) struct buf glued = { 0 };
	struct buf *model = &game->model;
	size_t tail = model->size;
	struct line line;

	while (tail && model->data[tail - 1] != '\n')
		tail--;
	if (tail == model->size || !lines_next(&data, &line))
		return;
	cr_assert_eq(buf_append(&glued, model->data + tail, model->size - tail), 0);
	cr_assert_eq(buf_append_bytes(&glued, line.text), 0);
	if (!lines_is_row(buf_bytes(&glued), NULL) && lines_is_row(line.text, NULL))
		cr_assert_eq(buf_append_byte(model, '\n'), 0);
}

static void do_append(struct game *game)
{
	struct handle *handle = open_at(game->path, O_WRONLY | O_CREAT | O_APPEND);
	_cleanup_(buf_done) struct buf all = { 0 };
	size_t writes = 1 + below(game, 4), sizes = 0;
	bool is_list = strstr(game->path, ".jsonl");

	for (size_t i = 0; i < writes; i++) {
		_cleanup_(buf_done) struct buf scrap = { 0 };

		make_scrap(game, &scrap);
		write_at(handle, 0, buf_bytes(&scrap));
		cr_assert_eq(buf_append_bytes(&all, buf_bytes(&scrap)), 0);
		sizes += scrap.size;
	}
	close_handle(handle);
	note(game, "append", writes, sizes);
	if (is_list)
		model_seal(game, buf_bytes(&all));
	cr_assert_eq(buf_append_bytes(&game->model, buf_bytes(&all)), 0);
}

static void do_save(struct game *game)
{
	struct handle *handle = open_at(game->path, O_WRONLY | O_CREAT | O_TRUNC);

	model_truncate(game, 0);
	for (size_t writes = below(game, 6); writes; writes--) {
		_cleanup_(buf_done) struct buf scrap = { 0 };

		make_scrap(game, &scrap);
		write_at(handle, game->model.size, buf_bytes(&scrap));
		cr_assert_eq(buf_append_bytes(&game->model, buf_bytes(&scrap)), 0);
	}
	close_handle(handle);
	note(game, "save", game->model.size, 0);
}

/* Write and cut anywhere, by one handle, which sees what it has done; but what begins with an empty
 * list holds the unfinished line back. */
static void do_edit(struct game *game)
{
	bool streams = !game->model.size;
	struct handle *handle = open_at(game->path, O_RDWR | O_CREAT);

	for (size_t writes = 1 + below(game, 3); writes; writes--) {
		_cleanup_(buf_done) struct buf scrap = { 0 };
		_cleanup_(buf_done) struct buf seen = { 0 };
		size_t offset = below(game, game->model.size + 20);

		if (below(game, 4) == 0) {
			const struct stat size = { .st_size = (off_t)offset };

			cr_assert_eq(set_attr_by(handle, &size, TREE_SET_SIZE), 0);
			model_truncate(game, offset);
			note(game, "cut", offset, 0);
		} else {
			make_scrap(game, &scrap);
			write_at(handle, offset, buf_bytes(&scrap));
			model_write(game, offset, buf_bytes(&scrap));
			note(game, "write", offset, scrap.size);
		}
		if (streams || below(game, 3) == 0) {
			cr_assert_eq(handle_sync(world_tree, handle), 0);
			note(game, "sync", 0, 0);
		}
		cr_assert_eq(handle_read(world_tree, handle, 0, game->model.size + 10, &seen), 0);
		cr_assert(bytes_equal(buf_bytes(&seen), buf_bytes(&game->model)),
			  "the writer sees %zu bytes for %zu:\n%.*s\nfor\n%.*s\nafter%s", seen.size,
			  game->model.size, (int)MIN(seen.size, 400u), seen.data,
			  (int)MIN(game->model.size, 400u), game->model.data, game->done);
	}
	close_handle(handle);
}

static void do_cut(struct game *game)
{
	size_t size = below(game, game->model.size + 10);
	const struct stat st = { .st_size = (off_t)size };

	if (looked_up(game->path) < 0)
		return;
	cr_assert_eq(set_attr(game->path, &st, TREE_SET_SIZE), 0);
	model_truncate(game, size);
	note(game, "truncate", size, 0);
}

/* Save the same bytes, or almost, as clients do. */
static void do_rewrite(struct game *game)
{
	_cleanup_(buf_done) struct buf scrap = { 0 };
	struct handle *handle;

	make_scrap(game, &scrap);
	cr_assert_eq(buf_append_bytes(&game->model, buf_bytes(&scrap)), 0);
	switch (below(game, 3)) {
	case 0:
		handle = open_at(game->path, O_WRONLY | O_CREAT | O_TRUNC);
		break;
	case 1:
		if (looked_up(game->path) == 0)
			cr_assert_eq(unlinked(game->path), 0);
		handle = open_at(game->path, O_WRONLY | O_CREAT | O_EXCL);
		break;
	default:
		handle = open_at("s/new.tmp", O_WRONLY | O_CREAT | O_EXCL);
	}
	write_at(handle, 0, buf_bytes(&game->model));
	close_handle(handle);
	if (looked_up("s/new.tmp") == 0)
		cr_assert_eq(renamed("s/new.tmp", game->path, 0), 0);
	note(game, "rewrite", game->model.size, 0);
}

static void do_unlink(struct game *game)
{
	if (looked_up(game->path) < 0)
		return;
	cr_assert_eq(unlinked(game->path), 0);
	if (below(game, 2))
		world_settle();
	model_truncate(game, 0);
	note(game, "unlink", 0, 0);
}

static void do_convert(struct game *game)
{
	static const char *const others[] = { "s/x.json", "s/x.jsonl", "s/x.txt", "x", "s/x.hash" };
	const char *other = others[below(game, ARRAY_SIZE(others))];

	if (looked_up(game->path) < 0)
		return;
	cr_assert_eq(renamed(game->path, other, 0), 0);
	cr_assert(bytes_equal(bytes_of(other), buf_bytes(&game->model)), "as %s:%s", other,
		  game->done);
	cr_assert_eq(renamed(other, game->path, 0), 0);
	note(game, other, 0, 0);
}

static void do_reopen(struct game *game)
{
	world_reopen();
	note(game, "reopen", 0, 0);
}

struct move {
	unsigned weight;
	void (*make)(struct game *game);
};

static const struct move moves[] = {
	{ 30, do_append },  { 10, do_save },  { 15, do_edit },	 { 5, do_cut },
	{ 10, do_rewrite }, { 3, do_unlink }, { 5, do_convert }, { 3, do_reopen },
};

static void make_move(struct game *game)
{
	size_t total = 0, chosen;

	for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
		total += moves[i].weight;
	chosen = below(game, total);
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		if (chosen < moves[i].weight) {
			moves[i].make(game);
			return;
		}
		chosen -= moves[i].weight;
	}
}

/* ---- what must hold ---- */

struct comparison {
	struct bytes rest; /* of the model */
	bool equal;
};

static int compare_row(void *arg, int64_t index, struct bytes data)
{
	struct comparison *comparison = arg;
	struct line line;

	(void)index;
	while (lines_next(&comparison->rest, &line))
		if (lines_is_row(line.text, NULL)) {
			comparison->equal &= bytes_equal(line.text, data);
			return 0;
		}
	comparison->equal = false;
	return 0;
}

/* Unless the file is a draft, its rows are its lines that are JSON. */
static void check_rows(struct game *game)
{
	struct comparison comparison = { .rest = buf_bytes(&game->model), .equal = true };
	struct backend_snapshot *snapshot;
	struct backend_node node;
	struct line line;
	bool draft;
	int r;

	r = world_store->ops->snapshot_begin(world_store, 0, &snapshot);
	cr_assert_eq(r, 0);
	r = world_store->ops->node_find(world_store, snapshot, BYTES("s"), bytes_str(game->key),
					&node);
	cr_assert_eq(r, 0, "%s:%s", strerror(-r), game->done);
	draft = node.flags & BACKEND_DRAFT;
	backend_node_done(&node);
	if (!draft)
		r = world_store->ops->row_read(world_store, snapshot, BYTES("s"),
					       bytes_str(game->key), INT64_MIN, compare_row,
					       &comparison);
	world_store->ops->snapshot_end(world_store, snapshot);
	cr_assert_eq(r, 0);
	while (!draft && lines_next(&comparison.rest, &line))
		comparison.equal &= !lines_is_row(line.text, NULL);
	cr_assert(comparison.equal, "the rows are not the lines:%s", game->done);
}

static void check_file(struct game *game)
{
	struct bytes bytes;

	if (looked_up(game->path) == -ENOENT)
		return;
	bytes = bytes_of(game->path);
	cr_assert(bytes_equal(bytes, buf_bytes(&game->model)),
		  "step %u: %zu bytes for %zu:\n%.*s\nfor\n%.*s\nafter%s", game->step, bytes.size,
		  game->model.size, (int)MIN(bytes.size, 500u), bytes.data,
		  (int)MIN(game->model.size, 500u), game->model.data, game->done);
	cr_assert_eq(stat_of(game->path).st_size, (off_t)game->model.size, "the size:%s",
		     game->done);
	if (game->key && strstr(game->path, ".jsonl"))
		check_rows(game);
}

static void play(const char *path, const char *key, unsigned steps)
{
	struct game game = { .path = path, .key = key };

	game.state = random_seed(path);
	steps = (unsigned)rounds("SESSFS_RANDOM_STEPS", steps / 3, steps);
	for (game.step = 0; game.step < steps; game.step++) {
		make_move(&game);
		check_file(&game);
		if (game.step % 16 == 15)
			world_check();
	}
	buf_done(&game.model);
}

EveryStore(random, operations_on_a_list_leave_its_bytes)
{
	play("s/l.jsonl", "l", 600);
}

EveryStore(random, operations_on_a_document_leave_its_bytes)
{
	play("s/k.json", "k", 400);
}

EveryStore(random, operations_on_a_sidecar_leave_its_bytes)
{
	play("s/k.hash", "k:_hash", 200);
}

EveryStore(random, operations_on_an_ordinary_file_leave_its_bytes)
{
	play("s/o.txt", NULL, 300);
}
