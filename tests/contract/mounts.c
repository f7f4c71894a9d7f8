/* SPDX-License-Identifier: MIT */
/* Several mounts of one store: what a store owes them. */
#include "tests/contract/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct backend *one, *two;

#define Mounts(name)                                                                               \
	static void mounts_##name##_body(int kind);                                                \
	ParameterizedTestParameters(mounts, name)                                                  \
	{                                                                                          \
		return every_shared_kind();                                                        \
	}                                                                                          \
	ParameterizedTest(const int *kind, mounts, name, .fini = close_stores)                     \
	{                                                                                          \
		one = shared_store(*kind, NULL);                                                   \
		two = shared_store(*kind, one);                                                    \
		mounts_##name##_body(*kind);                                                       \
	}                                                                                          \
	static void mounts_##name##_body(__attribute__((unused)) int kind)

/* See who else is there. */
void look_around(struct backend *backend)
{
	for (int i = 0; backend_change_wait(backend, 0); i++)
		cr_assert_lt(i, 500, "there is always something new");
}

static struct backend_op op_of(enum backend_op_type type, uint64_t ino)
{
	return (struct backend_op){ .type = type, .ino = ino };
}

static struct backend_op guard_rows(struct bytes session, struct bytes key)
{
	return (struct backend_op){ .type = BACKEND_GUARD, .session = session, .key = key };
}

static struct backend_op guard_key(struct bytes session, struct bytes key)
{
	return (struct backend_op){
		.type = BACKEND_GUARD, .session = session, .key = key, .at = 1
	};
}

static uint64_t last_told;

static int tell(void *arg, const struct backend_feed *feed)
{
	struct buf *told = arg;
	static const char *const what[] = { "node", "entry", "rows", "anything" };

	last_told = feed->n;
	buf_printf(told, "%s%s", told->size ? ", " : "", what[feed->what]);
	if (feed->ino)
		buf_printf(told, " %llu", (unsigned long long)feed->ino);
	if (feed->moved)
		buf_printf(told, " moved");
	if (feed->bytes)
		buf_printf(told, " bytes");
	if (feed->name.data)
		buf_printf(told, " %.*s", (int)feed->name.size, feed->name.data);
	if (feed->session.data)
		buf_printf(told, " %.*s/%.*s", (int)feed->session.size, feed->session.data,
			   (int)feed->key.size, feed->key.data ? feed->key.data : "");
	if (feed->what == BACKEND_FEED_ROWS)
		buf_printf(told, " from %lld%s", (long long)feed->first,
			   feed->added ? " added" : "");
	if (feed->behind)
		buf_printf(told, " behind");
	if (feed->dated)
		buf_printf(told, " dated %llu",
			   (unsigned long long)(feed->what == BACKEND_FEED_ENTRY ? feed->ino :
										   feed->node));
	return 0;
}

/* What waits for a mount, as text. */
static const char *waiting(struct backend *backend)
{
	static struct buf told;
	struct backend_snapshot *snapshot = look(backend);

	buf_clear(&told);
	last_told = 0;
	cr_assert_eq(backend_feed_list(backend, snapshot, tell, &told), 0);
	unlook(backend, snapshot);
	cr_assert_eq(buf_append_byte(&told, '\0'), 0);
	return told.data;
}

void digest(struct backend *backend)
{
	waiting(backend);
	backend_feed_done(backend, last_told);
}

Mounts(each_hears_what_the_others_have_changed)
{
	struct backend_node node = state_node(5, S, K);

	cr_expect_eq(COMMIT(one, node_put(&node), entry_put(1, 7, BYTES("k"), 5),
			    row_insert(S, K, 3, BYTES("{}")), row_insert(S, K, 4, BYTES("{}"))),
		     0);
	cr_expect_str_eq(waiting(one), "");
	cr_expect_str_eq(waiting(two), "node 5 moved sess/messages, entry 1 k, "
				       "rows sess/messages from 3 added");
	digest(two);
	cr_expect_str_eq(waiting(two), "");
	node.mtime++;
	cr_expect_eq(COMMIT(two, node_put(&node), piece_put(5, 0, 0, BYTES("x"))), 0);
	cr_expect_str_eq(waiting(one), "node 5 bytes sess/messages");
}

Mounts(each_hears_whether_rows_that_have_moved_are_what_they_were)
{
	const struct backend_op move = {
		.type = BACKEND_KEY_MOVE,
		.session = S,
		.key = K,
		.session_to = S,
		.key_to = BYTES("to"),
	};

	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("{}"))), 0);
	digest(two);
	cr_expect_eq(COMMIT(one, move), 0);
	cr_expect_str_eq(waiting(two), "rows moved sess/messages from -9223372036854775808, "
				       "rows moved sess/to from -9223372036854775808");
	digest(two);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("{}"))), 0);
	digest(two);
	cr_expect_eq(COMMIT(one, move, row_insert(S, BYTES("to"), 1, BYTES("1"))), 0);
	cr_expect_str_eq(waiting(two), "rows moved sess/messages from -9223372036854775808, "
				       "rows sess/to from -9223372036854775808");
}

static struct backend_op behind(struct backend_op op)
{
	op.behind = true;
	return op;
}

Mounts(each_hears_whether_a_file_has_only_got_more_bytes_behind)
{
	struct backend_node node = state_node(5, S, K), moved = node;

	COMMIT(one, node_put(&node), row_insert(S, K, 0, BYTES("1")));
	digest(two);
	moved.generation = 7;
	cr_expect_eq(COMMIT(one, behind(piece_put(5, 1, 0, BYTES("x"))),
			    behind(row_put(S, K, 0, BYTES("12"))), behind(node_put(&moved))),
		     0);
	cr_expect_str_eq(waiting(two), "node 5 bytes sess/messages behind, "
				       "rows sess/messages from 0 behind dated 5");
	digest(two);
	cr_expect_eq(COMMIT(one, behind(row_insert(S, K, 1, BYTES("3"))),
			    behind(node_set(&moved, BACKEND_GENERATION, 0))),
		     0);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 1 added behind dated 5");
	digest(two);
	cr_expect_eq(COMMIT(one, behind(piece_put(5, 1, 0, BYTES("x"))),
			    piece_put(5, 0, 0, BYTES("y"))),
		     0);
	cr_expect_str_eq(waiting(two), "node 5 bytes sess/messages", "only one of them is");
}

Mounts(who_sets_fields_does_not_wait_for_who_sets_others)
{
	struct backend_node node = plain_node(5), mode, time;

	COMMIT(one, node_put(&node), entry_put(1, 7, BYTES("f"), 5));
	digest(two);
	mode = time = node;
	mode.mode = S_IFREG | 0600;
	time.mtime = 77;
	cr_expect_eq(COMMIT(one, node_set(&mode, BACKEND_MODE, 0)), 0);
	cr_expect_str_eq(waiting(two), "node 5");
	cr_expect_eq(COMMIT(two, node_set(&time, BACKEND_MTIME, 1)), 0);
	cr_expect_eq(COMMIT(two, node_put(&time)), -ESTALE, "who puts all of it does");
	digest(two);
	cr_expect_eq(COMMIT(two, node_put(&node)), 0);
	cr_expect_eq(COMMIT(one, node_set(&mode, BACKEND_MODE, 0)), 0);
	node.parent = 9;
	digest(one);
	digest(two);
	cr_expect_eq(COMMIT(one, node_put(&node)), 0);
	cr_expect_eq(COMMIT(two, node_set(&time, BACKEND_MTIME, 0)), -ESTALE, "it has moved");
}

Mounts(a_row_and_the_time_of_its_file_are_one_note)
{
	struct backend_node node = state_node(5, S, K), other = state_node(6, S, BYTES("o"));

	COMMIT(one, node_put(&node), node_put(&other));
	digest(two);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("{}")),
			    node_set(&node, BACKEND_MTIME, 0)),
		     0);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 0 added dated 5");
	cr_expect_eq(COMMIT(two, node_put(&node)), -ESTALE);
	cr_expect_eq(COMMIT(two, node_set(&node, BACKEND_MODE, 0)), 0);
	cr_expect_eq(COMMIT(two, op_of(BACKEND_GUARD, 5)), 0);
	digest(two);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 1, BYTES("{}")),
			    node_set(&other, BACKEND_MTIME, 0)),
		     0);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 1 added, node 6 sess/o");
}

Mounts(a_generation_that_moves_is_told_with_the_rows)
{
	struct backend_node node = state_node(5, S, K), moved, got;
	struct backend_snapshot *snapshot;

	COMMIT(one, node_put(&node), row_insert(S, K, 0, BYTES("1")));
	digest(two);
	moved = node;
	moved.generation = 9;
	cr_expect_eq(COMMIT(one, row_put(S, K, 0, BYTES("12")),
			    node_set(&moved, BACKEND_GENERATION, 0)),
		     0);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 0 dated 5");
	cr_expect_eq(COMMIT(two, node_put(&node)), -ESTALE, "it would be put back");
	digest(two);
	snapshot = look(two);
	cr_assert_eq(two->ops->node_get(two, snapshot, 5, &got), 0);
	unlook(two, snapshot);
	cr_expect_eq(got.generation, 9);
	backend_node_done(&got);
}

Mounts(a_name_and_the_time_of_its_directory_are_one_note)
{
	struct backend_node dir = plain_node(4), node = plain_node(5);

	dir.mode = S_IFDIR | 0755;
	COMMIT(one, node_put(&dir), entry_put(1, 7, BYTES("d"), 4));
	digest(two);
	cr_expect_eq(COMMIT(one, node_put(&node), entry_put(4, 8, BYTES("f"), 5),
			    chunk_put(5, 0, BYTES("x")), node_set(&dir, BACKEND_MTIME, 0)),
		     0);
	cr_expect_str_eq(waiting(two), "node 5 moved bytes, entry 4 f dated 4");
	cr_expect_eq(COMMIT(two, node_put(&dir)), -ESTALE);
	cr_expect_eq(COMMIT(two, node_set(&dir, BACKEND_MTIME, 0)), 0);
}

Mounts(a_time_and_then_the_rows_of_its_file_are_one_note)
{
	struct backend_node node = state_node(5, S, K);

	COMMIT(one, node_put(&node));
	digest(two);
	cr_expect_eq(COMMIT(one, node_put(&node), row_put(S, K, 3, BYTES("{}")),
			    row_delete(S, K, 5, 6), row_put(S, K, 2, BYTES("{}"))),
		     0);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 2 dated 5");
}

Mounts(rows_that_go_elsewhere_have_changed_from_the_first_place_on)
{
	struct backend_node node = state_node(5, S, K);
	struct backend_op shift = {
		.type = BACKEND_ROWS_SHIFT, .session = S, .key = K, .ino = 5, .at = 4, .to = -3
	};

	COMMIT(one, node_put(&node), row_insert(S, K, 0, BYTES("1")),
	       row_insert(S, K, 4, BYTES("2")));
	digest(two);
	cr_expect_eq(COMMIT(one, shift), 0);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 1, node 5 bytes sess/messages");
	cr_expect_eq(COMMIT(two, row_insert(S, K, 2, BYTES("3"))), -ESTALE);
	shift.at = 1;
	shift.to = 1;
	cr_expect_eq(COMMIT(two, shift), -ESTALE);
	digest(two);
	cr_expect_eq(COMMIT(two, shift), 0);
	cr_expect_str_eq(waiting(one), "rows sess/messages from 1, node 5 bytes sess/messages");
}

/* What is for who follows what happens, as text. */
static int follow(void *arg, const struct backend_feed *feed)
{
	struct buf *told = arg;

	last_told = feed->n;
	cr_expect_eq(feed->pid, getpid());
	cr_expect_neq(feed->mount, 0);
	cr_expect_gt(feed->at, (int64_t)1700000000 * 1000000000);
	buf_printf(told, "%sfile %llu in %llu", told->size ? ", " : "",
		   (unsigned long long)feed->node, (unsigned long long)feed->parent);
	if (feed->name.data)
		buf_printf(told, " named %.*s", (int)feed->name.size, feed->name.data);
	if (feed->path.data)
		buf_printf(told, " at %.*s", (int)feed->path.size, feed->path.data);
	if (feed->gone)
		buf_printf(told, " gone");
	if (feed->foreign)
		buf_printf(told, " foreign");
	if (feed->what == BACKEND_FEED_ROWS)
		buf_printf(told, " +%llu to %lld", (unsigned long long)feed->count,
			   (long long)feed->end);
	if (feed->what == BACKEND_FEED_ROWS && feed->deleted != INT64_MAX)
		buf_printf(told, " -%lld", (long long)feed->deleted);
	return 0;
}

const char *followed(struct backend *backend)
{
	static struct buf told;
	struct backend_snapshot *snapshot = look(backend);

	buf_clear(&told);
	cr_assert_eq(backend_feed_list(backend, snapshot, follow, &told), 0);
	unlook(backend, snapshot);
	backend_feed_done(backend, last_told);
	cr_assert_eq(buf_append_byte(&told, '\0'), 0);
	return told.data;
}

static struct backend_op entry_delete(uint64_t parent, int64_t id)
{
	return (struct backend_op){ .type = BACKEND_ENTRY_DELETE, .parent = parent, .at = id };
}

struct backend_node placed(struct backend_node node, uint64_t parent, uint64_t entry)
{
	node.parent = parent;
	node.entry = entry;
	return node;
}

Mounts(each_note_tells_what_was_done_to_which_file)
{
	struct backend_node dir = placed(plain_node(4), 1, 6);
	struct backend_node node = placed(state_node(5, S, K), 4, 7);

	dir.mode = S_IFDIR | 0755;
	COMMIT(one, node_put(&dir), node_put(&node), entry_put(1, 6, BYTES("d"), 4),
	       entry_put(4, 7, BYTES("k"), 5));
	cr_expect_str_eq(followed(two), "file 4 in 0, file 5 in 0, "
					"file 4 in 1 named d at d, file 5 in 4 named k at d/k");
	COMMIT(one, row_insert(S, K, 0, BYTES("1")), row_insert(S, K, 1, BYTES("2")));
	cr_expect_str_eq(followed(two), "file 5 in 0 +2 to 2");
	COMMIT(one, row_put(S, K, 0, BYTES("3")), row_delete(S, K, 1, INT64_MAX));
	cr_expect_str_eq(followed(two), "file 5 in 0 +1 to 1 -1");
	COMMIT(one, row_insert(S, BYTES("other"), 0, BYTES("1")));
	cr_expect_str_eq(followed(two), "file 0 in 0 +1 to 1", "no file has these");
	COMMIT(one, entry_delete(4, 7), entry_put(1, 8, BYTES("to"), 5));
	cr_expect_str_eq(followed(two),
			 "file 5 in 4 named k at d/k gone, file 5 in 1 named to at to");
	COMMIT(one, entry_delete(1, 8), row_delete(S, K, 0, INT64_MAX), node_delete(5));
	cr_expect_str_eq(followed(two), "file 5 in 1 named to at to gone, "
					"file 0 in 0 +0 to 0 -0, "
					"file 5 in 0 gone");
}

Mounts(what_is_too_much_to_be_told_is_anything)
{
	enum { KEYS = 100000, NAME = 16 };
	struct backend_op *ops = calloc(KEYS, sizeof(*ops));
	char *names = calloc(KEYS, NAME);

	for (int i = 0; i < KEYS; i++) {
		snprintf(names + i * NAME, NAME, "k%d", i);
		ops[i] = row_insert(S, bytes_str(names + i * NAME), 0, BYTES("1"));
	}
	cr_expect_eq(backend_commit(one, ops, KEYS, 0), 0);
	cr_expect_str_eq(waiting(two), "anything");
	cr_expect_eq(COMMIT(two, row_insert(S, K, 0, BYTES("1"))), -ESTALE);
	digest(two);
	cr_expect_eq(COMMIT(two, row_insert(S, K, 0, BYTES("1"))), 0);
	cr_expect_str_eq(waiting(one), "rows sess/messages from 0 added");
	free(ops);
	free(names);
}

/* More than is kept as it is, of which a part has been digested. */
Mounts(what_comes_behind_too_much_is_told_too)
{
	enum { NODES = 1000, PARTS = 5, SIZE = 1000 };
	static char name[SIZE];
	static struct backend_node nodes[NODES * PARTS];
	static struct backend_op ops[NODES * PARTS];
	uint64_t n;

	memset(name, 'x', SIZE);
	for (int i = 0; i < NODES * PARTS; i++) {
		nodes[i] = state_node((uint64_t)i + 10, bytes_make(name, SIZE),
				      bytes_make(name, SIZE));
		ops[i] = (struct backend_op){ .type = BACKEND_NODE_SET,
					      .node = &nodes[i],
					      .at = BACKEND_MTIME };
	}
	for (int i = 0; i < PARTS; i++)
		cr_expect_eq(backend_commit(one, ops + i * NODES, NODES, 0), 0);
	backend_change_wait(two, 0);
	waiting(two);
	n = last_told;
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0);
	backend_change_wait(two, 0);
	backend_feed_done(two, n);
	cr_expect_eq(COMMIT(two, row_insert(S, K, 1, BYTES("1"))), -ESTALE);
	cr_expect_str_eq(waiting(two), "rows sess/messages from 0 added");
}

Mounts(nobody_reads_on_before_he_has_digested)
{
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0);
	cr_expect_eq(snapshot_error(one), 0);
	cr_expect_eq(snapshot_error(two), -ESTALE);
	digest(two);
	cr_expect_eq(snapshot_error(two), 0);
	cr_expect_str_eq(rows_of(two, S, K), "0=1");
}

Mounts(a_batch_fails_by_what_it_changes_or_depends_on_alone)
{
	struct backend_node node = plain_node(5), other = plain_node(6);

	cr_expect_eq(COMMIT(one, node_put(&node), node_put(&other)), 0);
	digest(two);
	cr_expect_eq(COMMIT(one, xattr_put(5, BYTES("user.a"), BYTES("1"))), 0);
	cr_expect_eq(COMMIT(two, xattr_put(5, BYTES("user.b"), BYTES("2"))), -ESTALE);
	cr_expect_eq(COMMIT(two, xattr_put(6, BYTES("user.b"), BYTES("2"))), 0);
	cr_expect_eq(COMMIT(two, op_of(BACKEND_GUARD, 5)), 0, "it has not moved");
	cr_expect_str_eq(xattrs_of(one, 5), xattrs_of(two, 5));
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0);
	cr_expect_eq(COMMIT(two, row_insert(S, K, 1, BYTES("1"))), -ESTALE);
	cr_expect_eq(COMMIT(two, guard_rows(S, K)), -ESTALE);
	cr_expect_eq(COMMIT(two, xattr_put(5, BYTES("user.b"), BYTES("2"))), -ESTALE, "as before");
	cr_expect_eq(COMMIT(two, row_insert(S, BYTES("other"), 0, BYTES("1"))), 0);
	node.parent = 6;
	digest(two);
	cr_expect_eq(COMMIT(one, node_put(&node)), 0, "what waits is about other things");
	cr_expect_eq(COMMIT(two, op_of(BACKEND_GUARD, 5)), -ESTALE);
	digest(two);
	cr_expect_eq(COMMIT(two, op_of(BACKEND_GUARD, 5)), 0);
}

/* What one mount does to a session, and another one that has not seen it: y, that is refused; -, it
 * is not.  Node 4 is a directory in which are 5, a list with two rows, and 6, an ordinary file. */
enum { PAIRS = 14 };
static const char *const pairs[PAIRS] = {
	"yyy---------y-", /* a row is appended */
	"yyy---------y-", /* a row is put */
	"yyy---------y-", /* a row is deleted */
	"yyyyy--y----y-", /* bytes come behind that make no row */
	"--------------", /* a mark */
	"---yy--y------", /* the time of the list */
	"------y-yy----", /* the mode of the directory */
	"yyyyyy-y---yy-", /* the list has another last line */
	"--------y-----", /* a name comes */
	"---------y----", /* a name goes */
	"----------y--y", /* bytes of the file */
	"--------------", /* the list is depended on */
	"--------------", /* its rows are depended on */
	"----------y--y", /* the file is deleted */
};

static struct backend_op pair_op(unsigned what, uint64_t base, struct bytes session,
				 struct backend_node *node)
{
	*node = placed(what == 6 ? plain_node(base + 4) : state_node(base + 5, session, K),
		       what == 6 ? 1 : base + 4, base + 7);
	if (what == 6)
		node->mode = S_IFDIR | 0700;
	if (what == 7)
		node->flags = BACKEND_NO_NEWLINE;
	switch (what) {
	case 0:
		return behind(row_insert(session, K, 2, BYTES("3")));
	case 1:
		return row_put(session, K, 0, BYTES("9"));
	case 2:
		return row_delete(session, K, 1, 1);
	case 3:
		return piece_put(base + 5, 2, 0, BYTES("x"));
	case 4:
		return mark_put(base + 5, 4, 1);
	case 5:
		return node_set(node, BACKEND_MTIME, 0);
	case 6:
		return node_set(node, BACKEND_MODE, 0);
	case 7:
		return node_put(node);
	case 8:
		return entry_put(base + 4, (int64_t)base + 9, BYTES("new"), base + 6);
	case 9:
		return entry_delete(base + 4, (int64_t)base + 8);
	case 10:
		return chunk_put(base + 6, 0, BYTES("z"));
	case 11:
		return op_of(BACKEND_GUARD, base + 5);
	case 12:
		return guard_rows(session, K);
	default:
		return node_delete(base + 6);
	}
}

static void make_pair_session(uint64_t base, struct bytes session)
{
	struct backend_node dir = placed(plain_node(base + 4), 1, base + 1);
	struct backend_node list = placed(state_node(base + 5, session, K), base + 4, base + 7);
	struct backend_node file = placed(plain_node(base + 6), base + 4, base + 8);

	dir.mode = S_IFDIR | 0755;
	cr_assert_eq(COMMIT(one, node_put(&dir), node_put(&list), node_put(&file),
			    entry_put(1, (int64_t)base + 1, session, base + 4),
			    entry_put(base + 4, (int64_t)base + 7, BYTES("l"), base + 5),
			    entry_put(base + 4, (int64_t)base + 8, BYTES("f"), base + 6),
			    row_insert(session, K, 0, BYTES("1")),
			    row_insert(session, K, 1, BYTES("2"))),
		     0);
}

Mounts(of_two_batches_in_each_order_the_second_is_refused_by_what_they_have_in_common)
{
	for (unsigned first = 0; first < PAIRS; first++) {
		char row[PAIRS + 1] = "";

		for (unsigned second = 0; second < PAIRS; second++) {
			uint64_t base = 100 + 20 * (uint64_t)(first * PAIRS + second);
			struct backend_node node, other;
			char name[24];
			int r;

			snprintf(name, sizeof(name), "s%llu", (unsigned long long)base);
			make_pair_session(base, bytes_str(name));
			digest(two);
			cr_assert_eq(COMMIT(one, pair_op(first, base, bytes_str(name), &node)), 0);
			r = COMMIT(two, pair_op(second, base, bytes_str(name), &other));
			row[second] = r == -ESTALE ? 'y' : '-';
			digest(two);
			digest(one);
		}
		cr_expect_str_eq(row, pairs[first], "%u: %s", first, row);
	}
}

/* Rows that are appended to the list of node 5, of which so many are known; *ret_first becomes the
 * index of the first. */
static int append(struct backend *backend, int64_t known, const char *texts, int64_t *ret_first)
{
	struct backend_append appended = {
		.session = S, .key = K, .expected = known, .first = -1, .bytes = 99
	};
	struct backend_op ops[8];
	struct backend_batch batch = { .ops = ops, .append = &appended };
	int r;

	ops[batch.count++] = mark_put(5, 1000 + (uint64_t)known, known);
	for (; *texts; texts++)
		ops[batch.count++] =
			behind(row_insert(S, K, known++, bytes_make((char *)texts, 1)));
	ops[batch.count++] = op_of(BACKEND_GUARD, 5);
	r = backend->ops->commit(backend, &batch, 0);
	*ret_first = appended.first;
	if (r == 0)
		cr_expect_eq(appended.bytes, 2 * (uint64_t)(appended.first - appended.expected));
	return r;
}

static int64_t mark_at(struct backend *backend, uint64_t offset)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_mark mark = { .index = -1 };
	int r = backend->ops->mark_find(backend, snapshot, 5, offset, &mark);

	unlook(backend, snapshot);
	return r == 0 && mark.offset == offset ? mark.index : -1;
}

static void make_list(struct backend_node *node)
{
	*node = state_node(5, S, K);
	node->kind = BACKEND_LIST;
	COMMIT(one, node_put(node), row_insert(S, K, 0, BYTES("0")));
	digest(two);
	look_around(one);
}

Mounts(appends_go_behind_those_that_are_not_digested)
{
	struct backend_node node;
	int64_t first;

	make_list(&node);
	cr_expect_eq(append(one, 1, "ab", &first), 0);
	cr_expect_eq(first, 1);
	cr_expect_eq(append(two, 1, "cd", &first), 0);
	cr_expect_eq(first, 3);
	cr_expect_eq(append(one, 3, "e", &first), 0);
	cr_expect_eq(first, 5);
	cr_expect_eq(append(two, 5, "f", &first), 0);
	cr_expect_eq(first, 6);
	cr_expect_str_eq(waiting(one), "rows sess/messages from 3 added behind, "
				       "rows sess/messages from 6 added behind");
	cr_expect_str_eq(waiting(two), "rows sess/messages from 1 added behind, "
				       "rows sess/messages from 5 added behind");
	cr_expect_str_eq(rows_of(two, S, K), "0=0 1=a 2=b 3=c 4=d 5=e 6=f");
	cr_expect_eq(mark_at(one, 1001), 1);
	cr_expect_eq(mark_at(one, 1003), -1, "it is the place of other bytes");
	digest(two);
	cr_expect_eq(append(two, 7, "g", &first), 0);
	cr_expect_eq(first, 7);
	cr_expect_eq(mark_at(one, 1007), 7);
}

Mounts(appends_go_behind_nothing_else_that_is_not_digested)
{
	const unsigned times = BACKEND_MTIME | BACKEND_CTIME;
	struct backend_node node;
	int64_t first;

	make_list(&node);
	COMMIT(one, node_set(&node, times, 0));
	cr_expect_eq(append(two, 1, "a", &first), 0, "times are not in the way");
	digest(one);
	digest(two);
	COMMIT(one, behind(piece_put(5, 2, 0, BYTES("torn"))));
	cr_expect_eq(append(two, 2, "b", &first), -ESTALE);
	digest(two);
	COMMIT(one, row_put(S, K, 0, BYTES("1")));
	cr_expect_eq(append(two, 2, "b", &first), -ESTALE, "it is saved");
	digest(two);
	COMMIT(one, row_insert(S, K, 2, BYTES("1")));
	cr_expect_eq(append(two, 2, "b", &first), -ESTALE, "it is saved with one row more");
	digest(two);
	node.flags = BACKEND_NO_NEWLINE;
	COMMIT(one, node_put(&node));
	cr_expect_eq(append(two, 3, "b", &first), -ESTALE);
	digest(two);
	node.key = BYTES("other");
	COMMIT(one, node_put(&node));
	cr_expect_eq(append(two, 3, "b", &first), -ESTALE, "it has gone elsewhere");
	digest(two);
	cr_expect_str_eq(rows_of(two, S, K), "0=1 1=a 2=1");
}

Mounts(nobody_commits_as_the_only_one_who_is_not)
{
	look_around(one);
	cr_expect(backend_is_shared(one));
	cr_expect_eq(COMMIT(one, op_of(BACKEND_GUARD, 0)), -ESTALE);
	shut(two);
	look_around(one);
	cr_expect(!backend_is_shared(one));
	cr_expect_eq(COMMIT(one, op_of(BACKEND_GUARD, 0)), 0);
	cr_expect_eq(COMMIT(one, row_insert(S, K, 0, BYTES("1"))), 0);
	two = shared_store(kind, one);
	cr_expect_str_eq(waiting(two), "", "who joins reads what is there");
	cr_expect_str_eq(rows_of(two, S, K), "0=1");
}

static struct backend_op lease(uint64_t ino, int64_t entry)
{
	return (struct backend_op){ .type = BACKEND_LEASE, .ino = ino, .at = entry, .to = 10 };
}

static void last_ids(struct backend *backend, uint64_t *ret_ino, uint64_t *ret_entry)
{
	struct backend_snapshot *snapshot = look(backend);

	cr_assert_eq(backend->ops->last_ids(backend, snapshot, ret_ino, ret_entry), 0);
	unlook(backend, snapshot);
}

Mounts(numbers_are_leased_to_one)
{
	uint64_t ino, entry, later_ino, later_entry;

	last_ids(one, &ino, &entry);
	cr_expect_eq(COMMIT(one, lease(ino, (int64_t)entry)), 0);
	cr_expect_eq(COMMIT(two, lease(ino, (int64_t)entry)), -ESTALE);
	last_ids(two, &later_ino, &later_entry);
	cr_expect_geq(later_ino, ino + 10);
	cr_expect_geq(later_entry, entry + 10);
	cr_expect_eq(COMMIT(two, lease(later_ino, (int64_t)later_entry)), 0);
}

static int count(void *arg, const struct backend_node *node)
{
	(void)node;
	++*(unsigned *)arg;
	return 0;
}

static unsigned unneeded(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	unsigned found = 0;

	cr_assert_eq(backend_orphan_list(backend, snapshot, count, &found), 0);
	unlook(backend, snapshot);
	return found;
}

Mounts(a_file_without_a_name_is_needed_by_who_has_it_in_use)
{
	struct backend_node node = plain_node(5);

	look_around(one);
	look_around(two);
	node.nlink = 0;
	cr_expect_eq(COMMIT(one, node_put(&node)), 0);
	cr_expect_eq(unneeded(one), 1, "nobody uses it");
	cr_expect_eq(backend_use(two, 5, true), -ESTALE);
	cr_expect_eq(unneeded(one), 1, "two may not, before it has heard of it");
	digest(two);
	cr_expect_eq(backend_use(two, 5, true), 0);
	cr_expect_eq(unneeded(one), 0);
	cr_expect_eq(unneeded(two), 0);
	cr_expect_eq(backend_use(one, 5, true), 0);
	cr_expect_eq(backend_use(two, 5, false), 0);
	cr_expect_eq(unneeded(two), 0, "one uses it");
	cr_expect_eq(backend_use(two, 5, true), 0);
	cr_expect_eq(backend_use(one, 5, false), 0);
	cr_expect_eq(unneeded(one), 0, "two uses it");
	shut(two);
	cr_expect_eq(unneeded(one), 1);
}

Mounts(the_file_that_has_left_its_key_is_found)
{
	struct backend_node node = state_node(5, S, K), found;
	struct backend_snapshot *snapshot;

	node.nlink = 0;
	cr_expect_eq(COMMIT(one, node_put(&node)), 0);
	cr_expect_eq(COMMIT(two, guard_key(S, K)), -ESTALE, "it has not heard of it");
	digest(two);
	cr_expect_eq(COMMIT(two, guard_key(S, K)), -EEXIST);
	cr_expect_eq(COMMIT(one, guard_key(S, K)), -EEXIST);
	cr_expect_eq(COMMIT(two, guard_key(S, BYTES("other"))), 0);
	cr_expect_eq(COMMIT(two, guard_rows(S, K)), 0);
	snapshot = look(two);
	cr_expect_eq(backend_orphan_find(two, snapshot, S, BYTES("other"), &found), -ENOENT);
	cr_assert_eq(backend_orphan_find(two, snapshot, S, K, &found), 0);
	cr_expect_eq(found.ino, 5);
	backend_node_done(&found);
	unlook(two, snapshot);
}

static struct backend_op lock(const struct backend_lock *locks, size_t count)
{
	return (struct backend_op){
		.type = BACKEND_LOCK,
		.ino = 5,
		.at = 1,
		.data = bytes_make((const char *)locks, count * sizeof(*locks)),
	};
}

static int lock_found(struct backend *backend, const struct backend_lock *wanted)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_lock found;
	int r = backend_lock_find(backend, snapshot, 5, wanted, &found);

	unlook(backend, snapshot);
	return r < 0 ? r : (int)found.pid;
}

Mounts(locks_of_one_keep_the_other_out)
{
	const struct backend_lock writer = { .start = 10, .end = 19, .pid = 7, .exclusive = 1 };
	const struct backend_lock reader = { .start = 0, .end = 99, .pid = 8 };
	const struct backend_lock beside = { .start = 20, .end = 29, .exclusive = 1 };
	const struct backend_lock whole = { .whole = 1, .exclusive = 1 };
	const struct backend_lock both[] = { reader, beside };
	struct backend_node node = plain_node(5);

	COMMIT(one, node_put(&node));
	digest(two);
	cr_expect_eq(COMMIT(one, lock(&writer, 1)), 0);
	cr_expect_eq(COMMIT(two, lock(&reader, 1)), -EAGAIN);
	cr_expect_eq(lock_found(two, &reader), 7);
	cr_expect_eq(lock_found(one, &reader), -ENOENT, "one's own");
	cr_expect_eq(COMMIT(two, lock(&beside, 1)), 0);
	cr_expect_eq(COMMIT(two, lock(&whole, 1)), 0, "of another sort");
	cr_expect_eq(COMMIT(two, lock(both, 2)), -EAGAIN);
	cr_expect_eq(COMMIT(one, lock(&reader, 1)), 0, "two has given up what it had");
	cr_expect_eq(COMMIT(two, lock(&reader, 1)), 0);
	cr_expect_eq(COMMIT(one, lock(&writer, 1)), -EAGAIN);
	shut(two);
	cr_expect_eq(COMMIT(one, lock(&writer, 1)), 0, "who has ended holds nothing");
}

Mounts(a_file_is_mapped_on_one_and_locked_on_no_other)
{
	const struct backend_lock right = { .end = INT64_MAX,
					    .whole = BACKEND_MAPPED,
					    .exclusive = 1 };
	const struct backend_lock range = { .start = 10, .end = 19, .pid = 7 };
	const struct backend_lock whole = { .whole = 1 };
	const struct backend_lock of_one[] = { right, range };
	const struct backend_lock of_two[] = { whole, range };
	struct backend_node node = plain_node(5);

	COMMIT(one, node_put(&node));
	digest(two);
	cr_expect_eq(COMMIT(one, lock(&right, 1)), 0);
	cr_expect_eq(COMMIT(two, lock(&right, 1)), -EAGAIN);
	cr_expect_eq(COMMIT(two, lock(&range, 1)), -EAGAIN);
	cr_expect_eq(COMMIT(two, lock(&whole, 1)), -EAGAIN);
	cr_expect_eq(lock_found(two, &right), 0);
	cr_expect_eq(lock_found(two, &range), 0);
	cr_expect_eq(lock_found(two, &whole), 0);
	cr_expect_eq(lock_found(one, &right), -ENOENT, "one's own");
	cr_expect_eq(COMMIT(one, lock(of_one, 2)), 0, "locks beside it");
	cr_expect_eq(COMMIT(one, lock(NULL, 0)), 0);
	cr_expect_eq(COMMIT(two, lock(of_two, 2)), 0, "nothing is mapped");
	cr_expect_eq(lock_found(one, &right), -ENOENT, "locks do not map");
	cr_expect_eq(COMMIT(one, lock(&right, 1)), 0, "locks that others hold are not in its way");
	cr_expect_eq(COMMIT(two, lock(of_two, 2)), -EAGAIN, "but they get no more");
	shut(one);
	cr_expect_eq(COMMIT(two, lock(&right, 1)), 0, "who has ended maps nothing");
}

Mounts(who_has_locks_that_he_has_not_told_keeps_all_others_out)
{
	const struct backend_lock reader = { .end = 99 };
	struct backend_node node = plain_node(5);

	COMMIT(one, node_put(&node));
	digest(two);
	cr_expect_gt(backend_hold(one, true), 0);
	cr_expect_eq(COMMIT(two, lock(&reader, 1)), -EAGAIN);
	cr_expect_eq(COMMIT(one, lock(&reader, 1)), 0);
	cr_expect_gt(backend_hold(one, false), 0);
	cr_expect_eq(COMMIT(two, lock(&reader, 1)), 0);
}

/* Or both would think that they have the same lock. */
Mounts(who_says_that_there_are_locks_sees_who_has_come)
{
	shut(two);
	look_around(one);
	cr_expect(!backend_is_shared(one));
	two = shared_store(kind, one);
	cr_expect_gt(backend_hold(one, true), 0);
	cr_expect(backend_is_shared(one));
}

struct backend_op guard_unused(uint64_t ino)
{
	return (struct backend_op){ .type = BACKEND_GUARD, .ino = ino, .at = BACKEND_UNUSED };
}

Mounts(what_anybody_has_in_use_nobody_removes)
{
	struct backend_node node = plain_node(5), other = plain_node(6);

	COMMIT(one, node_put(&node), node_put(&other));
	digest(two);
	look_around(one);
	cr_expect_eq(COMMIT(one, guard_unused(5)), 0);
	cr_expect_eq(backend_use(two, 5, true), 0);
	cr_expect_eq(COMMIT(one, guard_unused(5)), -EBUSY);
	cr_expect_eq(COMMIT(one, guard_unused(6), guard_unused(5), node_delete(6)), -EBUSY);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EBUSY, "one's own");
	cr_expect_eq(COMMIT(one, guard_unused(6)), 0);
	cr_expect_eq(backend_use(one, 5, true), 0, "several may use it");
	cr_expect_eq(backend_use(two, 5, false), 0);
	cr_expect_eq(COMMIT(two, guard_unused(5)), -EBUSY);
	cr_expect_eq(backend_use(one, 5, false), 0);
	cr_expect_eq(COMMIT(two, guard_unused(5)), 0);
	cr_expect_eq(backend_use(two, 6, true), 0, "what was looked at is free again");
	cr_expect_eq(COMMIT(one, guard_unused(6)), -EBUSY);
	shut(two);
	cr_expect_eq(COMMIT(one, guard_unused(6)), 0, "who has ended uses nothing");
}

Mounts(nobody_comes_to_use_what_was_removed_before_he_knows)
{
	struct backend_node node = plain_node(5);

	COMMIT(one, node_put(&node));
	digest(two);
	look_around(one);
	cr_expect_eq(COMMIT(one, guard_unused(5), node_delete(5)), 0);
	cr_expect_eq(backend_use(two, 5, true), -ESTALE);
	cr_expect_eq(COMMIT(one, guard_unused(5)), 0, "it is not in use");
	digest(two);
	cr_expect_eq(backend_use(two, 5, true), 0);
	cr_expect_eq(COMMIT(one, guard_unused(5)), -EBUSY);
}

Mounts(a_batch_that_was_not_told_of_a_change_removes_nothing)
{
	struct backend_node node = plain_node(5);

	COMMIT(one, node_put(&node));
	digest(two);
	look_around(one);
	COMMIT(two, xattr_put(5, BYTES("user.a"), BYTES("1")));
	cr_expect_eq(COMMIT(one, guard_unused(5)), -ESTALE);
}

/* What it has told while there was another one is true no longer. */
Mounts(a_mount_that_is_alone_needs_what_it_has_in_use_now)
{
	struct backend_node node = plain_node(5);

	look_around(one);
	look_around(two);
	cr_assert_eq(COMMIT(two, node_put(&node)), 0);
	cr_expect_eq(backend_use(two, 5, true), 0);
	node.nlink = 0;
	cr_assert_eq(COMMIT(two, node_put(&node)), 0);
	shut(one);
	look_around(two);
	usleep(1500000); /* in which it says that it tells no more */
	cr_expect_eq(unneeded(two), 0);
	cr_expect_eq(COMMIT(two, guard_unused(5), node_delete(5)), -EBUSY);
	backend_use(two, 5, false);
	cr_expect_eq(unneeded(two), 1);
	cr_expect_eq(COMMIT(two, guard_unused(5), node_delete(5)), 0);
}

/* A file loses its name and is deleted by one mount, another one begins to use it, ends that, and
 * hears of what the first has done; each does its own steps in this order. */
enum race_step { UNLINKS, DELETES, USES, ENDS, HEARS, RACE_STEPS };

struct race {
	struct backend *remover, *user;
	struct backend_node node;
	bool unlinked, deleted, heard, held;
	char order[RACE_STEPS + 1];
};

static bool is_there(struct backend *backend, uint64_t ino)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_node node;
	int r = backend->ops->node_get(backend, snapshot, ino, &node);

	unlook(backend, snapshot);
	if (r == 0)
		backend_node_done(&node);
	return r == 0;
}

static void race_on(struct race *race, enum race_step step)
{
	const uint64_t ino = race->node.ino;
	int r;

	switch (step) {
	case UNLINKS:
		race->node.nlink = 0;
		cr_expect_eq(COMMIT(race->remover, node_put(&race->node)), 0);
		race->unlinked = true;
		break;
	case DELETES:
		r = COMMIT(race->remover, guard_unused(ino), node_delete(ino));
		cr_expect_eq(r, race->held ? -EBUSY : 0, "%s: %d", race->order, r);
		race->deleted = r == 0;
		break;
	case USES:
		if (race->heard) /* it opens nothing without a name */
			break;
		r = backend_use(race->user, ino, true);
		cr_expect_eq(r, race->unlinked ? -ESTALE : 0, "%s: %d", race->order, r);
		race->held = r >= 0;
		break;
	case ENDS:
		if (race->held)
			backend_use(race->user, ino, false);
		race->held = false;
		break;
	default:
		digest(race->user);
		race->heard = race->unlinked;
	}
	cr_expect_eq(is_there(race->user, ino), !race->deleted, "%s", race->order);
	cr_expect_eq(unneeded(race->remover), race->unlinked && !race->deleted && !race->held, "%s",
		     race->order);
}

static void race_in_order(struct race race, const enum race_step order[RACE_STEPS])
{
	for (int i = 0; i < RACE_STEPS; i++)
		race.order[i] = "udUEh"[order[i]];
	cr_assert_eq(COMMIT(race.remover, node_put(&race.node)), 0);
	digest(race.user);
	for (int i = 0; i < RACE_STEPS; i++)
		race_on(&race, order[i]);
	if (!race.deleted)
		race_on(&race, DELETES);
	digest(race.user);
	digest(race.remover);
}

/* All orders that leave those of each party in theirs; how many. */
static unsigned race_all(struct race *race, enum race_step *order, int count, int unlinks, int uses,
			 int hears)
{
	unsigned orders = 0;

	if (count == RACE_STEPS) {
		race->node.ino++;
		race_in_order(*race, order);
		return 1;
	}
	if (unlinks < 2) {
		order[count] = unlinks ? DELETES : UNLINKS;
		orders += race_all(race, order, count + 1, unlinks + 1, uses, hears);
	}
	if (uses < 2) {
		order[count] = uses ? ENDS : USES;
		orders += race_all(race, order, count + 1, unlinks, uses + 1, hears);
	}
	if (!hears) {
		order[count] = HEARS;
		orders += race_all(race, order, count + 1, unlinks, uses, 1);
	}
	return orders;
}

Mounts(a_file_is_deleted_in_no_order_while_it_is_in_use)
{
	enum race_step order[RACE_STEPS];
	struct race race = { .remover = one, .user = two, .node = plain_node(100) };

	look_around(one);
	look_around(two);
	cr_expect_eq(race_all(&race, order, 0, 0, 0, 0), 30);
	race.remover = two;
	race.user = one;
	cr_expect_eq(race_all(&race, order, 0, 0, 0, 0), 30);
}

/* Each has seen an unlinked file with its rows.  One deletes it; the other makes a file of its key
 * instead, or deletes it as well. */
static void delete_and_make(struct backend *deleter, struct backend *maker, bool deletes_first,
			    bool makes, uint64_t ino)
{
	struct backend_node ghost = state_node(ino, S, K), node = state_node(ino + 1, S, K);
	const struct backend_op deletes[] = { guard_unused(ino),
					      row_delete(S, K, INT64_MIN, INT64_MAX),
					      node_delete(ino) };
	const struct backend_op replaces[] = { row_delete(S, K, INT64_MIN, INT64_MAX),
					       node_delete(ino), node_put(&node),
					       row_insert(S, K, 0, BYTES("\"new\"")) };
	int r;

	ghost.nlink = 0;
	cr_assert_eq(COMMIT(deleter, node_put(&ghost), row_insert(S, K, 0, BYTES("\"old\""))), 0);
	digest(maker);
	for (int i = 0; i < 2; i++) {
		struct backend *backend = (i == 0) == deletes_first ? deleter : maker;

		r = backend == maker && makes ? backend_commit(backend, replaces, 4, 0) :
						backend_commit(backend, deletes, 3, BACKEND_ANYWAY);
		cr_expect_eq(r, i ? -ESTALE : 0, "%d %d: %d", deletes_first, makes, r);
	}
	cr_expect_str_eq(rows_of(one, S, K), makes && !deletes_first ? "0=\"new\"" : "");
	cr_expect_eq(unneeded(one), 0);
	digest(one);
	digest(two);
	if (makes && !deletes_first)
		COMMIT(one, row_delete(S, K, INT64_MIN, INT64_MAX), node_delete(ino + 1));
	digest(two);
}

Mounts(of_two_who_end_an_unlinked_file_the_second_deletes_nothing)
{
	look_around(one);
	look_around(two);
	for (int i = 0; i < 8; i++)
		delete_and_make(i & 4 ? two : one, i & 4 ? one : two, i & 1, i & 2,
				100 + 10 * (uint64_t)i);
}

Mounts(a_setting_of_one_is_the_other_s_too_and_wakes_it)
{
	look_around(two);
	cr_expect_eq(COMMIT(one, setting(BYTES("ttl"), BYTES("60"))), 0);
	cr_expect_eq(backend_change_wait(two, 10000), 1);
	cr_expect_eq(snapshot_error(two), 0, "there is nothing to digest");
	cr_expect_str_eq(settings_of(two), "ttl=60");
	cr_expect_eq(COMMIT(two, setting(BYTES("ttl"), BYTES(""))), 0);
	cr_expect_str_eq(settings_of(one), "");
}

Mounts(one_is_on_duty_until_it_ends)
{
	cr_expect(backend_on_duty(one));
	cr_expect_not(backend_on_duty(two));
	cr_expect(backend_on_duty(one), "it stays so");
	shut(one);
	cr_expect(backend_on_duty(two));
}
