/* SPDX-License-Identifier: MIT */

/*
 * Several writers of one list at once, against the rules of lines in their shortest form: a writer
 * keeps its unfinished line to itself until it closes or syncs; a line goes on behind a torn one of
 * its own, or when both are JSON, or when neither is, and otherwise the torn one is closed off.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/lines.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

enum { WRITERS = 3, STEPS = 150, GAMES = 5, GAMES_SOAK = 20 };

struct writer {
	struct handle *handle;
	struct buf piece;
	bool owns; /* the list ended in its own piece */
	size_t end;
};

struct game {
	uint64_t state;
	struct buf content;
	struct buf rows; /* as rows_of() shows them */
	bool draft;
	struct writer writer[WRITERS];
	struct buf done; /* all steps, for a failure */
};

static const char *const scraps[] = {
	"1\n", "2",   "{\"a\":", "{\"b\":1}\n", "3}\n", "[4,", "5]\n",
	"\n",  " \n", "x\n",	 "\"t",		"\"\n", "6\n", "7\n8\n",
};

/* ---- the rules ---- */

static bool is_good(struct bytes line)
{
	return lines_is_row(line, NULL) || lines_is_blank(line);
}

static void add(struct buf *buf, struct bytes bytes)
{
	cr_assert_eq(buf_append_bytes(buf, bytes), 0);
}

static struct bytes tail_of(struct bytes bytes)
{
	size_t start = bytes.size;

	while (start && bytes.data[start - 1] != '\n')
		start--;
	return bytes_make(bytes.data + start, bytes.size - start);
}

static struct bytes first_line(struct bytes bytes)
{
	struct line line = { 0 };

	lines_next(&bytes, &line);
	return line.text;
}

/* Whether the tail of the list is closed off before a line. */
static bool is_closed_off(const struct game *game, const struct writer *writer, struct bytes line)
{
	struct bytes tail = tail_of(buf_bytes(&game->content));
	_cleanup_(buf_done) struct buf glued = { 0 };

	add(&glued, tail);
	add(&glued, line);
	return tail.size && !(writer->owns && writer->end == game->content.size) &&
	       !world_options.exact && !lines_is_row(buf_bytes(&glued), NULL) &&
	       lines_is_row(line, NULL);
}

/* The rows that the content has, unless it is a draft now. */
static void settle_rows(struct game *game, bool is_save)
{
	struct bytes rest = buf_bytes(&game->content), tail = tail_of(rest);
	bool bad = false;
	struct line line;
	unsigned index = 0;

	for (struct bytes all = rest; lines_next(&all, &line);)
		bad |= !is_good(line.text);
	is_save |= game->draft;
	game->draft =
		is_save && ((game->rows.size && !is_good(tail)) || (world_options.strict && bad));
	if (game->draft)
		return;
	buf_clear(&game->rows);
	while (lines_next(&rest, &line)) {
		if (!lines_is_row(line.text, NULL))
			continue;
		cr_assert_eq(buf_printf(&game->rows, "%s%u=", index ? " " : "", index), 0);
		add(&game->rows, line.text);
		index++;
	}
}

static void rule_join(struct game *game, struct writer *writer, struct bytes lines)
{
	if (is_closed_off(game, writer, first_line(lines)))
		add(&game->content, BYTES("\n"));
	add(&game->content, lines);
	settle_rows(game, false);
}

/* -o strict: how much of the data is taken, or the error. */
static ssize_t rule_strict(const struct game *game, const struct writer *writer, struct bytes data)
{
	struct bytes rest = data, tail = tail_of(buf_bytes(&game->content));
	bool own = writer->owns && writer->end == game->content.size;
	size_t good = 0;
	struct line line;

	while (lines_next(&rest, &line) && line.newline) {
		_cleanup_(buf_done) struct buf alone = { 0 };
		_cleanup_(buf_done) struct buf glued = { 0 };

		if (!good) {
			add(&alone, buf_bytes(&writer->piece));
			add(&glued, tail);
		}
		add(&alone, line.text);
		add(&glued, buf_bytes(&alone));
		if (!is_good(buf_bytes(&glued)) &&
		    (own || world_options.exact || !is_good(buf_bytes(&alone))))
			return good ? (ssize_t)good : -EINVAL;
		good += line.size;
	}
	return (ssize_t)data.size;
}

static ssize_t rule_write(struct game *game, struct writer *writer, struct bytes data)
{
	ssize_t taken = world_options.strict ? rule_strict(game, writer, data) : (ssize_t)data.size;
	_cleanup_(buf_done) struct buf lines = { 0 };
	struct bytes rest;

	if (taken < 0)
		return taken;
	add(&lines, buf_bytes(&writer->piece));
	add(&lines, bytes_make(data.data, (size_t)taken));
	rest = tail_of(buf_bytes(&lines));
	buf_clear(&writer->piece);
	add(&writer->piece, rest);
	lines.size -= rest.size;
	if (lines.size) {
		rule_join(game, writer, buf_bytes(&lines));
		writer->owns = false;
	}
	return taken;
}

static void rule_flush(struct game *game, struct writer *writer)
{
	if (!writer->piece.size)
		return;
	rule_join(game, writer, buf_bytes(&writer->piece));
	buf_clear(&writer->piece);
	writer->owns = true;
	writer->end = game->content.size;
}

/* ---- the game ---- */

static void make_text(struct game *game, struct buf *text)
{
	buf_clear(text);
	for (size_t i = 1 + random_below(&game->state, 3); i; i--)
		cr_assert_eq(buf_append_str(text,
					    scraps[random_below(&game->state, ARRAY_SIZE(scraps))]),
			     0);
}

static void note(struct game *game, const char *what, size_t number, struct bytes text)
{
	cr_assert_eq(buf_printf(&game->done, "  %s %zu '%.*s'\n", what, number, (int)text.size,
				text.data ? text.data : ""),
		     0);
}

static void do_write(struct game *game, struct writer *writer)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	ssize_t taken, expected;

	make_text(game, &text);
	note(game, "write", (size_t)(writer - game->writer), buf_bytes(&text));
	taken = handle_write(world_tree, writer->handle, getpid(), 0, buf_bytes(&text));
	expected = rule_write(game, writer, buf_bytes(&text));
	cr_assert_eq(taken, expected, "%zd bytes were taken, not %zd, of the last of\n%.*s", taken,
		     expected, (int)game->done.size, game->done.data);
}

static void do_flush(struct game *game, struct writer *writer)
{
	note(game, "flush", (size_t)(writer - game->writer), BYTES(""));
	cr_assert_eq(handle_flush(world_tree, writer->handle, getpid()), 0);
	rule_flush(game, writer);
}

static void do_open(struct game *game, struct writer *writer)
{
	note(game, "open", (size_t)(writer - game->writer), BYTES(""));
	if (writer->handle) {
		close_handle(writer->handle);
		rule_flush(game, writer);
	}
	writer->handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_APPEND);
	writer->owns = false;
}

static void do_save(struct game *game)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	struct handle *handle;
	int r;

	/* A list that is empty is streamed, which is another thing. */
	if (!game->content.size)
		return;
	make_text(game, &text);
	note(game, "save", 0, buf_bytes(&text));
	handle = open_at("s/l.jsonl", O_WRONLY | O_TRUNC);
	write_at(handle, 0, buf_bytes(&text));
	r = handle_flush(world_tree, handle, getpid());
	handle_free(world_tree, handle);
	buf_clear(&game->content);
	add(&game->content, buf_bytes(&text));
	settle_rows(game, true);
	cr_assert_eq(r, world_options.strict && game->draft ? -EINVAL : 0,
		     "%d by the last of\n%.*s", r, (int)game->done.size, game->done.data);
}

static void close_all(struct game *game)
{
	for (size_t i = 0; i < WRITERS; i++) {
		struct writer *writer = &game->writer[i];

		if (writer->handle)
			close_handle(writer->handle);
		writer->handle = NULL;
		rule_flush(game, writer);
		writer->owns = false;
	}
}

static const char *text_of(struct buf *buf)
{
	cr_assert_eq(buf_append_byte(buf, '\0'), 0);
	buf->size--;
	return buf->data;
}

static void compare(struct game *game, struct writer *writer)
{
	_cleanup_(buf_done) struct buf own = { 0 };

	cr_assert_str_eq(content_of("s/l.jsonl"), text_of(&game->content), "it is\n%s\nafter\n%s",
			 content_of("s/l.jsonl"), text_of(&game->done));
	cr_assert_str_eq(rows_of("s", "l"), text_of(&game->rows), "the rows are\n%s\nafter\n%s",
			 rows_of("s", "l"), text_of(&game->done));
	if (!writer->handle)
		return;
	add(&own, buf_bytes(&game->content));
	add(&own, buf_bytes(&writer->piece));
	cr_assert_str_eq(read_by(writer->handle), text_of(&own), "its writer sees\n%s\nafter\n%s",
			 read_by(writer->handle), text_of(&game->done));
}

static void step(struct game *game)
{
	struct writer *writer = &game->writer[random_below(&game->state, WRITERS)];
	size_t what = random_below(&game->state, 100);

	if (what < 3) {
		note(game, "remount", 0, BYTES(""));
		close_all(game);
		world_reopen();
	} else if (what < 10) {
		do_save(game);
	} else if (what < 20 || !writer->handle) {
		do_open(game, writer);
	} else if (what < 35) {
		do_flush(game, writer);
	} else {
		do_write(game, writer);
	}
	compare(game, writer);
}

static void play(uint64_t seed)
{
	struct game game = { .state = seed };

	save("s/l.jsonl", "");
	for (unsigned i = 0; i < STEPS; i++)
		step(&game);
	close_all(&game);
	world_check();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
	world_settle();
	for (size_t i = 0; i < WRITERS; i++)
		buf_done(&game.writer[i].piece);
	buf_done(&game.content);
	buf_done(&game.rows);
	buf_done(&game.done);
}

static void play_all(const char *name, int kind, bool strict, bool exact)
{
	unsigned count = (unsigned)rounds("SESSFS_LINE_GAMES", GAMES, GAMES_SOAK);
	uint64_t seed = random_seed(name);

	world_options.strict = strict;
	world_options.exact = exact;
	world_open(kind);
	make_dir("s");
	if (kind == WORLD_SQLITE) /* it is slower */
		count = (count + 4) / 5;
	for (unsigned i = 0; i < count; i++)
		play(seed + i);
	world_close();
}

Test(tree_lines, of_several_writers_are_joined_by_the_rules)
{
	play_all("lines", WORLD_MEMORY, false, false);
	play_all("lines", WORLD_SQLITE, false, false);
}

Test(tree_lines, of_several_writers_are_joined_as_they_are_with_exact)
{
	play_all("lines, exact", WORLD_MEMORY, false, true);
	play_all("lines, exact", WORLD_SQLITE, false, true);
}

Test(tree_lines, of_several_writers_are_judged_with_strict)
{
	play_all("lines, strict", WORLD_MEMORY, true, false);
	play_all("lines, strict", WORLD_SQLITE, true, false);
}

Test(tree_lines, of_several_writers_are_judged_with_strict_and_exact)
{
	play_all("lines, strict and exact", WORLD_MEMORY, true, true);
	play_all("lines, strict and exact", WORLD_SQLITE, true, true);
}
