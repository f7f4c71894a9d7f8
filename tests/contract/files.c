/* SPDX-License-Identifier: MIT */
/* Nodes, entries, attributes, chunks, pieces, marks. */
#include "tests/contract/contract.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

static int node_error(struct backend *backend, uint64_t ino)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_node node = { 0 };
	int r = backend->ops->node_get(backend, snapshot, ino, &node);

	unlook(backend, snapshot);
	backend_node_done(&node);
	return r;
}

EveryStore(nodes, include_the_root_from_the_beginning)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_node root = { 0 };

	cr_assert_eq(backend->ops->node_get(backend, snapshot, BACKEND_ROOT, &root), 0);
	cr_assert(S_ISDIR(root.mode));
	cr_assert_eq(root.nlink, 2);
	cr_assert_gt(root.mtime, 0);
	unlook(backend, snapshot);
}

EveryStore(nodes, keep_every_field)
{
	const struct backend_node put = { .ino = (uint64_t)1 << 40,
					  .parent = 7,
					  .entry = 9,
					  .kind = BACKEND_LIST,
					  .flags = BACKEND_NO_NEWLINE | BACKEND_ADOPTED,
					  .mode = 0100640,
					  .uid = 4294967294u,
					  .gid = 12,
					  .nlink = 1,
					  .rdev = 0x801,
					  .size = (uint64_t)5 << 40,
					  .atime = -5,
					  .mtime = 1234567890123456789,
					  .ctime = 3,
					  .btime = 4,
					  .generation = INT64_MAX,
					  .session = BYTES("s\0x"),
					  .key = BYTES(""),
					  .target = BYTES("\xff\0y") };
	struct backend_snapshot *snapshot;
	struct backend_node got = { 0 };

	cr_assert_eq(COMMIT(backend, node_put(&put)), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->node_get(backend, snapshot, put.ino, &got), 0);
	unlook(backend, snapshot);

	cr_assert_eq(got.parent, put.parent);
	cr_assert_eq(got.entry, put.entry);
	cr_assert_eq(got.kind, put.kind);
	cr_assert_eq(got.flags, put.flags);
	cr_assert_eq(got.mode, put.mode);
	cr_assert_eq(got.uid, put.uid);
	cr_assert_eq(got.gid, put.gid);
	cr_assert_eq(got.nlink, put.nlink);
	cr_assert_eq(got.rdev, put.rdev);
	cr_assert_eq(got.size, put.size);
	cr_assert_eq(got.atime, put.atime);
	cr_assert_eq(got.mtime, put.mtime);
	cr_assert_eq(got.ctime, put.ctime);
	cr_assert_eq(got.btime, put.btime);
	cr_assert_eq(got.generation, put.generation);
	cr_assert(bytes_equal(got.session, put.session));
	cr_assert(got.key.data && got.key.size == 0, "an empty key is a key");
	cr_assert(bytes_equal(got.target, put.target));
	backend_node_done(&got);
}

EveryStore(nodes, without_a_session_come_back_without)
{
	struct backend_node node = plain_node(5), got = { 0 };
	struct backend_snapshot *snapshot;

	COMMIT(backend, node_put(&node));
	snapshot = look(backend);
	cr_assert_eq(backend->ops->node_get(backend, snapshot, 5, &got), 0);
	unlook(backend, snapshot);

	cr_assert_null(got.session.data);
	cr_assert_null(got.key.data);
	cr_assert_null(got.target.data);
	backend_node_done(&got);
}

static uint64_t found(struct backend *backend, struct bytes session, struct bytes key)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_node node = { 0 };
	int r = backend->ops->node_find(backend, snapshot, session, key, &node);
	uint64_t ino = node.ino;

	unlook(backend, snapshot);
	backend_node_done(&node);
	cr_assert(r == 0 || r == -ENOENT, "node_find: %d", r);
	return r == 0 ? ino : 0;
}

/* Of node 5: mode, links, owner, times, generation. */
static const char *fields_of(struct backend *backend)
{
	static char text[128];
	struct backend_snapshot *snapshot = look(backend);
	struct backend_node node;

	cr_assert_eq(backend->ops->node_get(backend, snapshot, 5, &node), 0);
	unlook(backend, snapshot);
	snprintf(text, sizeof(text), "%o %u %u:%u %lld %lld %lld %llu", node.mode, node.nlink,
		 node.uid, node.gid, (long long)node.atime, (long long)node.mtime,
		 (long long)node.ctime, (unsigned long long)node.generation);
	backend_node_done(&node);
	return text;
}

EveryStore(nodes, take_fields_one_by_one)
{
	static const struct {
		unsigned fields;
		const char *expected;
	} cases[] = {
		{ BACKEND_ATIME, "100644 1 1:2 13 4 5 6" },
		{ BACKEND_MTIME, "100644 1 1:2 3 14 5 6" },
		{ BACKEND_CTIME, "100644 1 1:2 3 4 15 6" },
		{ BACKEND_MODE, "100600 1 1:2 3 4 5 6" },
		{ BACKEND_UID, "100644 1 11:2 3 4 5 6" },
		{ BACKEND_GID, "100644 1 1:12 3 4 5 6" },
		{ BACKEND_GENERATION, "100644 1 1:2 3 4 5 16" },
		{ UINT8_MAX, "100600 1 11:12 13 14 15 16" },
	};
	struct backend_node before = state_node(5, S, K), after;

	before.mode = S_IFREG | 0644;
	before.uid = 1;
	before.gid = 2;
	before.atime = 3;
	before.mtime = 4;
	before.ctime = 5;
	before.generation = 6;
	after = before;
	after.mode = S_IFREG | 0600;
	after.uid = 11;
	after.gid = 12;
	after.atime = 13;
	after.mtime = 14;
	after.ctime = 15;
	after.generation = 16;
	after.parent = 9;
	after.kind = BACKEND_ORDINARY;
	after.session = BYTES("other");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		COMMIT(backend, node_put(&before));
		cr_assert_eq(COMMIT(backend, node_set(&after, cases[i].fields, 0)), 0);
		cr_expect_str_eq(fields_of(backend), cases[i].expected);
	}
	cr_assert_eq(COMMIT(backend, node_set(&after, 0, 2)), 0);
	cr_assert_eq(COMMIT(backend, node_set(&after, 0, -1)), 0);
	cr_expect_str_eq(fields_of(backend), "100600 2 11:12 13 14 15 16");
	cr_expect_eq(found(backend, S, K), 5, "where it lies and what it is stays");
	after.ino = 6;
	cr_expect_eq(COMMIT(backend, node_set(&after, UINT8_MAX, 1)), 0);
	cr_expect_eq(node_error(backend, 6), -ENOENT);
}

EveryStore(nodes, are_found_by_session_and_key)
{
	const struct bytes none = { 0 }, empty = BYTES("");
	struct backend_node a = state_node(5, S, K), b = state_node(6, S, none),
			    c = state_node(7, S, empty);

	cr_assert_eq(COMMIT(backend, node_put(&a), node_put(&b), node_put(&c)), 0);

	cr_assert_eq(found(backend, S, K), 5);
	cr_assert_eq(found(backend, S, none), 6);
	cr_assert_eq(found(backend, S, empty), 7);
	cr_assert_eq(found(backend, BYTES("other"), none), 0);
}

EveryStore(nodes, are_no_longer_found_when_they_are_orphans_or_have_moved)
{
	struct backend_node node = state_node(5, S, K);

	COMMIT(backend, node_put(&node));
	node.key = BYTES("moved");
	COMMIT(backend, node_put(&node));
	cr_assert_eq(found(backend, S, K), 0);
	cr_assert_eq(found(backend, S, node.key), 5);

	node.nlink = 0;
	COMMIT(backend, node_put(&node));
	cr_assert_eq(found(backend, S, node.key), 0);
	cr_assert_eq(node_error(backend, 5), 0);
}

EveryStore(nodes, of_one_key_are_live_one_at_a_time)
{
	struct backend_node first = state_node(5, S, K), second = state_node(6, S, K);

	COMMIT(backend, node_put(&first));
	cr_assert_eq(COMMIT(backend, node_put(&second)), -EEXIST);

	first.nlink = 0;
	cr_assert_eq(COMMIT(backend, node_put(&first), node_put(&second)), 0);
	cr_assert_eq(found(backend, S, K), 6);
}

EveryStore(nodes, of_one_session_directory_are_live_one_at_a_time)
{
	const struct bytes none = { 0 };
	struct backend_node first = state_node(5, S, none), second = state_node(6, S, none);

	COMMIT(backend, node_put(&first));

	cr_assert_eq(COMMIT(backend, node_put(&second)), -EEXIST);
	cr_assert_eq(COMMIT(backend, node_delete(5), node_put(&second)), 0);
}

EveryStore(nodes, are_listed_in_order_all_or_only_orphans)
{
	struct backend_node a = plain_node(12), b = plain_node(3), c = plain_node(300);

	b.nlink = c.nlink = 0;
	COMMIT(backend, node_put(&a), node_put(&b), node_put(&c));

	cr_assert_str_eq(nodes_of(backend, 0, false), "1 3 12 300");
	cr_assert_str_eq(nodes_of(backend, 3, false), "12 300");
	cr_assert_str_eq(nodes_of(backend, 0, true), "3 300");
	cr_assert_str_eq(nodes_of(backend, 3, true), "300");
}

EveryStore(nodes, take_everything_but_rows_and_entries_along_when_deleted)
{
	struct backend_node node = state_node(5, S, K), other = plain_node(6);
	struct backend_snapshot *snapshot;
	struct backend_mark mark;

	COMMIT(backend, node_put(&node), node_put(&other), entry_put(1, 1, BYTES("f"), 5),
	       row_insert(S, K, 0, BYTES("a")), xattr_put(5, BYTES("user.a"), BYTES("1")),
	       xattr_put(6, BYTES("user.b"), BYTES("2")), chunk_put(5, 0, BYTES("x")),
	       chunk_put(6, 0, BYTES("y")), piece_put(5, 0, 0, BYTES("p")), mark_put(5, 0, 0));

	cr_assert_eq(COMMIT(backend, node_delete(5)), 0);

	cr_assert_eq(node_error(backend, 5), -ENOENT);
	cr_assert_eq(found(backend, S, K), 0);
	cr_assert_str_eq(xattrs_of(backend, 5), "");
	cr_assert_str_eq(chunks_of(backend, 5, 0, INT64_MAX), "");
	cr_assert_str_eq(pieces_of(backend, 5, INT64_MIN), "");
	snapshot = look(backend);
	cr_assert_eq(backend->ops->mark_find(backend, snapshot, 5, 99, &mark), -ENOENT);
	cr_assert_eq(backend->ops->mark_find_index(backend, snapshot, 5, 99, &mark), -ENOENT);
	unlook(backend, snapshot);
	cr_assert_str_eq(rows_of(backend, S, K), "0=a");
	cr_assert_str_eq(xattrs_of(backend, 6), "user.b");
	cr_assert_str_eq(chunks_of(backend, 6, 0, 0), "0=y");
}

EveryStore(nodes, that_are_not_there_may_be_deleted)
{
	cr_assert_eq(COMMIT(backend, node_delete(77)), 0);
	cr_assert_eq(node_error(backend, 77), -ENOENT);
}

EveryStore(entries, are_found_by_any_bytes)
{
	const struct bytes name = BYTES("\xff\xfe name\n");
	struct backend_node node = plain_node(5), got = { 0 };
	struct backend_snapshot *snapshot;
	_cleanup_(buf_done) struct buf shown = { 0 };
	uint64_t id = 0;

	cr_assert_eq(COMMIT(backend, node_put(&node), entry_put(1, 17, name, 5)), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->entry_find(backend, snapshot, 1, name, &id, &got), 0);
	cr_assert_eq(backend->ops->entry_name(backend, snapshot, 1, 17, &shown), 0);
	cr_assert_eq(backend->ops->entry_find(backend, snapshot, 2, name, &id, &got), -ENOENT);
	cr_assert_eq(backend->ops->entry_name(backend, snapshot, 1, 18, &shown), -ENOENT);
	unlook(backend, snapshot);

	cr_assert_eq(id, 17);
	cr_assert_eq(got.ino, 5);
	cr_assert(bytes_equal(buf_bytes(&shown), name));
	backend_node_done(&got);
}

EveryStore(entries, are_listed_by_id_each_with_its_node)
{
	struct backend_node a = plain_node(5), b = plain_node(6);

	COMMIT(backend, node_put(&a), node_put(&b), entry_put(1, 300, BYTES("a"), 5),
	       entry_put(1, 2, BYTES("z"), 6), entry_put(1, 20, BYTES("m"), 5),
	       entry_put(9, 4, BYTES("elsewhere"), 5));

	cr_assert_str_eq(entries_of(backend, 1, 0), "2:z=6 20:m=5 300:a=5");
	cr_assert_str_eq(entries_of(backend, 1, 2), "20:m=5 300:a=5");
	cr_assert_str_eq(entries_of(backend, 1, 300), "");
}

EveryStore(entries, are_refused_when_name_or_id_is_taken)
{
	struct backend_node node = plain_node(5);

	COMMIT(backend, node_put(&node), entry_put(1, 2, BYTES("a"), 5));

	cr_assert_eq(COMMIT(backend, entry_put(1, 3, BYTES("a"), 5)), -EEXIST);
	cr_assert_eq(COMMIT(backend, entry_put(1, 2, BYTES("b"), 5)), -EEXIST);
	cr_assert_eq(COMMIT(backend, entry_put(2, 2, BYTES("a"), 5)), 0);
}

EveryStore(entries, free_their_name_when_deleted)
{
	struct backend_node node = plain_node(5);
	const struct backend_op delete = { .type = BACKEND_ENTRY_DELETE, .parent = 1, .at = 2 };

	COMMIT(backend, node_put(&node), entry_put(1, 2, BYTES("a"), 5));

	cr_assert_eq(COMMIT(backend, delete, delete, entry_put(1, 3, BYTES("a"), 5)), 0);
	cr_assert_str_eq(entries_of(backend, 1, 0), "3:a=5");
}

EveryStore(attributes, keep_any_bytes_under_any_name)
{
	struct backend_snapshot *snapshot;
	_cleanup_(buf_done) struct buf value = { 0 };

	COMMIT(backend, xattr_put(5, BYTES("user.b\xff"), BYTES("\0\xff")),
	       xattr_put(5, BYTES("user.a"), BYTES("")), xattr_put(6, BYTES("user.c"), BYTES("x")));
	snapshot = look(backend);

	cr_assert_eq(backend->ops->xattr_get(backend, snapshot, 5, BYTES("user.b\xff"), &value), 0);
	cr_assert(bytes_equal(buf_bytes(&value), BYTES("\0\xff")));
	cr_assert_eq(backend->ops->xattr_get(backend, snapshot, 5, BYTES("user.a"), &value), 0);
	cr_assert_eq(value.size, 2, "the value is appended");
	cr_assert_eq(backend->ops->xattr_get(backend, snapshot, 5, BYTES("user.c"), &value),
		     -ENODATA);
	unlook(backend, snapshot);
	cr_assert_str_eq(xattrs_of(backend, 5), "user.a user.b\xff");
}

EveryStore(attributes, are_replaced_and_deleted)
{
	const struct backend_op delete = { .type = BACKEND_XATTR_DELETE,
					   .ino = 5,
					   .name = BYTES("user.a") };
	_cleanup_(buf_done) struct buf value = { 0 };
	struct backend_snapshot *snapshot;

	COMMIT(backend, xattr_put(5, BYTES("user.a"), BYTES("old")));
	COMMIT(backend, xattr_put(5, BYTES("user.a"), BYTES("new")));
	snapshot = look(backend);
	cr_assert_eq(backend->ops->xattr_get(backend, snapshot, 5, BYTES("user.a"), &value), 0);
	unlook(backend, snapshot);
	cr_assert(bytes_equal(buf_bytes(&value), BYTES("new")));

	cr_assert_eq(COMMIT(backend, delete, delete), 0);
	cr_assert_str_eq(xattrs_of(backend, 5), "");
}

EveryStore(chunks, are_read_by_range_and_replaced_one_by_one)
{
	COMMIT(backend, chunk_put(5, 3, BYTES("d")), chunk_put(5, 0, BYTES("a")),
	       chunk_put(5, 1, BYTES("b")), chunk_put(6, 1, BYTES("other")));
	COMMIT(backend, chunk_put(5, 1, BYTES("B\0")));

	cr_assert_str_eq(chunks_of(backend, 5, 0, INT64_MAX), "0=a 1=B\\0 3=d");
	cr_assert_str_eq(chunks_of(backend, 5, 1, 2), "1=B\\0");
	cr_assert_str_eq(chunks_of(backend, 5, 4, 9), "");
}

EveryStore(chunks, are_measured_by_range)
{
	static const char bytes[BACKEND_CHUNK];

	COMMIT(backend, chunk_put(5, 3, bytes_make(bytes, BACKEND_CHUNK)),
	       chunk_put(5, 0, BYTES("a\0b")), chunk_put(5, 1, BYTES("")),
	       chunk_put(6, 1, BYTES("other")));

	cr_assert_str_eq(chunk_sizes_of(backend, 5, 0, INT64_MAX), "0=3 1=0 3=32768");
	cr_assert_str_eq(chunk_sizes_of(backend, 5, 1, 2), "1=0");
	cr_assert_str_eq(chunk_sizes_of(backend, 5, 4, 9), "");
}

EveryStore(chunks, are_deleted_by_an_inclusive_range)
{
	const struct backend_op delete = {
		.type = BACKEND_CHUNK_DELETE, .ino = 5, .at = 1, .to = INT64_MAX
	};

	COMMIT(backend, chunk_put(5, 0, BYTES("a")), chunk_put(5, 1, BYTES("b")),
	       chunk_put(5, 9, BYTES("c")), chunk_put(6, 1, BYTES("other")));

	cr_assert_eq(COMMIT(backend, delete), 0);
	cr_assert_str_eq(chunks_of(backend, 5, 0, INT64_MAX), "0=a");
	cr_assert_str_eq(chunks_of(backend, 6, 0, INT64_MAX), "1=other");
}

EveryStore(chunks, hold_32768_bytes_and_not_one_more)
{
	static const char bytes[BACKEND_CHUNK + 1];

	cr_assert_eq(COMMIT(backend, chunk_put(5, 0, bytes_make(bytes, BACKEND_CHUNK))), 0);
	cr_assert_eq(COMMIT(backend, chunk_put(5, 1, bytes_make(bytes, BACKEND_CHUNK + 1))),
		     -EINVAL);
}

EveryStore(pieces, stand_in_the_order_of_index_and_sequence)
{
	COMMIT(backend, piece_put(5, 2, 1, BYTES("d")), piece_put(5, 0, 5, BYTES("b")),
	       piece_put(5, 0, -1, BYTES("a")), piece_put(5, 2, 0, BYTES("c")));
	COMMIT(backend, piece_put(5, 2, 1, BYTES("D")));

	cr_assert_str_eq(pieces_of(backend, 5, 0), "0.-1=a 0.5=b 2.0=c 2.1=D");
	cr_assert_str_eq(pieces_of(backend, 5, 1), "2.0=c 2.1=D");
	cr_assert_str_eq(pieces_from(backend, 5, 0, 5), "0.5=b 2.0=c 2.1=D");
	cr_assert_str_eq(pieces_from(backend, 5, 0, INT64_MAX), "2.0=c 2.1=D");
	cr_assert_str_eq(pieces_from(backend, 5, 2, 1), "2.1=D");
}

EveryStore(pieces, are_deleted_from_a_sequence_of_an_index_on)
{
	const struct backend_op delete = {
		.type = BACKEND_PIECE_DELETE, .ino = 5, .at = 1, .to = 2, .seq = 1
	};

	COMMIT(backend, piece_put(5, 0, 9, BYTES("a")), piece_put(5, 1, 0, BYTES("b")),
	       piece_put(5, 1, 1, BYTES("c")), piece_put(5, 2, 0, BYTES("d")),
	       piece_put(5, 3, 0, BYTES("e")), piece_put(6, 1, 1, BYTES("other")));

	cr_assert_eq(COMMIT(backend, delete), 0);
	cr_assert_str_eq(pieces_of(backend, 5, 0), "0.9=a 1.0=b 3.0=e");
	cr_assert_str_eq(pieces_of(backend, 6, 0), "1.1=other");
}

static int64_t index_at(struct backend *backend, uint64_t offset)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_mark mark = { .index = -1 };
	int r = backend->ops->mark_find(backend, snapshot, 5, offset, &mark);

	unlook(backend, snapshot);
	cr_assert(r == 0 || r == -ENOENT);
	return mark.index;
}

EveryStore(marks, are_found_at_or_before_an_offset)
{
	COMMIT(backend, mark_put(5, 0, 0), mark_put(5, 1000, 10), mark_put(5, 70000, 20),
	       mark_put(6, 500, 99));

	cr_assert_eq(index_at(backend, 0), 0);
	cr_assert_eq(index_at(backend, 999), 0);
	cr_assert_eq(index_at(backend, 1000), 10);
	cr_assert_eq(index_at(backend, UINT64_MAX), 20);
}

EveryStore(marks, are_found_at_or_before_an_index)
{
	struct backend_snapshot *snapshot;
	struct backend_mark mark;

	COMMIT(backend, mark_put(5, 300, 10), mark_put(5, 70000, 20), mark_put(6, 500, 15));
	snapshot = look(backend);

	cr_assert_eq(backend->ops->mark_find_index(backend, snapshot, 5, 19, &mark), 0);
	cr_assert_eq(mark.index, 10);
	cr_assert_eq(mark.offset, 300);
	cr_assert_eq(backend->ops->mark_find_index(backend, snapshot, 5, 20, &mark), 0);
	cr_assert_eq(mark.offset, 70000);
	cr_assert_eq(backend->ops->mark_find_index(backend, snapshot, 5, 9, &mark), -ENOENT);
	unlook(backend, snapshot);
}

EveryStore(marks, are_replaced_and_deleted_from_an_offset_on)
{
	const struct backend_op delete = { .type = BACKEND_MARK_DELETE, .ino = 5, .offset = 100 };
	struct backend_snapshot *snapshot;
	struct backend_mark mark;

	COMMIT(backend, mark_put(5, 0, 0), mark_put(5, 100, 10), mark_put(5, 200, 20));
	COMMIT(backend, mark_put(5, 100, 11));
	cr_assert_eq(index_at(backend, 150), 11);

	cr_assert_eq(COMMIT(backend, delete), 0);
	cr_assert_eq(index_at(backend, UINT64_MAX), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->mark_find_index(backend, snapshot, 5, 99, &mark), 0);
	cr_assert_eq(mark.index, 0);
	unlook(backend, snapshot);
}

EveryStore(ids, in_use_are_known_by_their_highest)
{
	struct backend_node node = plain_node(812);
	struct backend_snapshot *snapshot = look(backend);
	uint64_t ino = 0, entry = 99;

	cr_assert_eq(backend->ops->last_ids(backend, snapshot, &ino, &entry), 0);
	cr_assert_eq(ino, BACKEND_ROOT);
	cr_assert_eq(entry, 0);
	unlook(backend, snapshot);

	COMMIT(backend, node_put(&node), entry_put(3, 70, BYTES("a"), 812),
	       entry_put(1, 900, BYTES("a"), 812), entry_put(500, 12, BYTES("a"), 812));
	snapshot = look(backend);
	cr_assert_eq(backend->ops->last_ids(backend, snapshot, &ino, &entry), 0);
	cr_assert(ino >= 812 && ino < 812 + 4096, "%" PRIu64, ino);
	cr_assert_eq(entry, 900);
	unlook(backend, snapshot);
}

EveryStore(ids, of_what_was_deleted_are_not_forgotten)
{
	struct backend_node node = plain_node(5000);
	struct backend_snapshot *snapshot;
	uint64_t ino = 0, entry;

	cr_assert_eq(COMMIT(backend, node_put(&node)), 0);
	cr_assert_eq(COMMIT(backend, node_delete(5000)), 0);
	snapshot = look(backend);
	cr_assert_eq(backend->ops->last_ids(backend, snapshot, &ino, &entry), 0);
	cr_assert_geq(ino, 5000);
	unlook(backend, snapshot);
}

EveryStore(space, is_told_with_used_below_total)
{
	struct backend_space space = { 0 };

	cr_assert_eq(backend->ops->space(backend, &space), 0);
	cr_assert_gt(space.total, 0);
	cr_assert_gt(space.used, 0);
	cr_assert_leq(space.free, space.total);
}

static void no_report(void *arg, const char *sentence)
{
	(void)arg;
	cr_assert_fail("%s", sentence);
}

EveryStore(checks, find_nothing_in_a_sound_store)
{
	struct backend_node node = state_node(5, S, K), dir = plain_node(4);
	uint64_t damage = 1;

	dir.kind = BACKEND_SESSION;
	dir.mode = S_IFDIR | 0755;
	dir.nlink = 2;
	dir.session = S;
	dir.parent = BACKEND_ROOT;
	node.parent = 4;
	dir.entry = node.entry = 2;
	COMMIT(backend, node_put(&dir), entry_put(1, 2, BYTES("s"), 4), node_put(&node),
	       entry_put(4, 2, BYTES("a"), 5), chunk_put(5, 0, BYTES("x")),
	       xattr_put(5, BYTES("user.a"), BYTES("1")), row_insert(S, K, 0, BYTES("{}")));

	cr_assert_eq(backend_check(backend, no_report, NULL, &damage), 0);
	cr_assert_eq(damage, 0);
}

EveryStore(sync, succeeds_with_and_without_commits)
{
	cr_assert_eq(backend->ops->sync(backend), 0);
	COMMIT(backend, row_insert(S, K, 0, BYTES("{}")));
	cr_assert_eq(backend->ops->sync(backend), 0);
	cr_assert_eq(backend->ops->sync(backend), 0);
}

/* Tails, as text. */

static void say_tail(struct buf *said, const struct backend_tail *tail)
{
	if (!tail->known) {
		cr_assert_eq(buf_append_str(said, "unknown"), 0);
		return;
	}
	cr_assert_eq(buf_printf(said, "%llu rows of %llu bytes", (unsigned long long)tail->rows,
				(unsigned long long)tail->bytes),
		     0);
	if (tail->rows)
		buf_printf(said, " to %lld of %llu", (long long)tail->last,
			   (unsigned long long)tail->last_bytes);
	if (tail->mark.index != INT64_MIN)
		buf_printf(said, " behind %llu", (unsigned long long)tail->mark.offset);
	if (tail->pieces)
		buf_append_str(said, " and pieces");
}

static const char *tail_of(struct backend *backend, const struct backend_node *node)
{
	static struct buf said;
	struct backend_snapshot *snapshot = look(backend);
	struct backend_tail tail;

	buf_clear(&said);
	cr_assert_eq(backend_tail_get(backend, snapshot, node, &tail), 0);
	say_tail(&said, &tail);
	unlook(backend, snapshot);
	cr_assert_eq(buf_append_byte(&said, '\0'), 0);
	return said.data;
}

EveryStore(tails, are_what_stands_behind_the_last_mark)
{
	struct backend_node node = state_node(5, S, K);

	node.kind = BACKEND_LIST;
	cr_expect_str_eq(tail_of(backend, &node), "0 rows of 0 bytes");
	COMMIT(backend, row_insert(S, K, 0, BYTES("1")), row_insert(S, K, 1, BYTES("22")),
	       row_insert(S, K, 2, BYTES("333")));
	cr_expect_str_eq(tail_of(backend, &node), "3 rows of 6 bytes to 2 of 3");
	COMMIT(backend, mark_put(5, 2, 1));
	cr_expect_str_eq(tail_of(backend, &node), "2 rows of 5 bytes to 2 of 3 behind 2");
	COMMIT(backend, piece_put(5, 0, 0, BYTES("x")));
	cr_expect_str_eq(tail_of(backend, &node), "2 rows of 5 bytes to 2 of 3 behind 2");
	COMMIT(backend, piece_put(5, 3, 0, BYTES("x")));
	cr_expect_str_eq(tail_of(backend, &node),
			 "2 rows of 5 bytes to 2 of 3 behind 2 and pieces");
	node.kind = BACKEND_SINGLE;
	cr_expect_str_eq(tail_of(backend, &node), "1 rows of 1 bytes to 0 of 1", "its first row");
}

/* The plain file's is not wanted. */
static unsigned is_state(void *arg, const struct backend_node *node)
{
	(void)arg;
	return node->session.data ? BACKEND_TAIL : 0;
}

static int say_listed(void *arg, const struct backend_entry *entry, const struct backend_node *node,
		      const struct backend_tail *tail)
{
	cr_expect_eq(entry->ino, node->ino);
	cr_assert_eq(buf_printf(arg, "%.*s: ", (int)entry->name.size, entry->name.data), 0);
	say_tail(arg, tail);
	cr_assert_eq(buf_append_str(arg, "; "), 0);
	return 0;
}

EveryStore(tails, come_with_the_entries_that_lead_to_them)
{
	struct backend_node plain = plain_node(4), state = state_node(5, S, K);
	_cleanup_(buf_done) struct buf said = { 0 };
	struct backend_snapshot *snapshot;

	COMMIT(backend, node_put(&plain), node_put(&state), entry_put(1, 7, BYTES("p"), 4),
	       entry_put(1, 8, BYTES("k"), 5), row_insert(S, K, 0, BYTES("22")));
	snapshot = look(backend);
	cr_expect_eq(backend_entry_list_tails(backend, snapshot, 1, 0, 2, is_state, say_listed,
					      &said),
		     0);
	cr_assert_eq(buf_append_byte(&said, '\0'), 0);
	cr_expect_str_eq(said.data, "p: unknown; k: 1 rows of 2 bytes to 0 of 2; ");
	buf_clear(&said);
	cr_expect_eq(backend_entry_list_tails(backend, snapshot, 1, 0, 1, is_state, say_listed,
					      &said),
		     0);
	cr_assert_eq(buf_append_byte(&said, '\0'), 0);
	cr_expect_str_eq(said.data, "p: unknown; ", "no more were wanted");
	unlook(backend, snapshot);
}

static unsigned all_of_it(void *arg, const struct backend_node *node)
{
	return is_state(arg, node) | BACKEND_WHOLE;
}

EveryStore(entries, are_looked_up_together_with_what_lies_behind_them)
{
	struct backend_node plain = plain_node(4), long_one = plain_node(5);
	struct backend_node list = state_node(6, S, K), document = state_node(7, S, BYTES("d"));
	_cleanup_(buf_done) struct buf large = { 0 };
	struct backend_looked looked[] = {
		{ .parent = 1, .name = BYTES("x"), .wanted = all_of_it },
		{ .parent = 1, .name = BYTES("p"), .wanted = all_of_it },
		{ .parent = 1, .name = BYTES("long"), .wanted = all_of_it },
		{ .parent = 1, .name = BYTES("l"), .wanted = all_of_it },
		{ .parent = 1, .name = BYTES("d"), .wanted = all_of_it },
		{ .parent = 1, .name = BYTES("d"), .wanted = is_state },
		{ .parent = 1, .name = BYTES("d") },
	};
	struct backend_snapshot *snapshot;

	plain.size = 3;
	long_one.size = BACKEND_CHUNK + 1;
	list.kind = BACKEND_LIST;
	document.kind = BACKEND_SINGLE;
	COMMIT(backend, node_put(&plain), node_put(&long_one), node_put(&list), node_put(&document),
	       entry_put(1, 7, BYTES("p"), 4), entry_put(1, 8, BYTES("long"), 5),
	       entry_put(1, 9, BYTES("l"), 6), entry_put(1, 10, BYTES("d"), 7),
	       chunk_put(4, 0, BYTES("abc")), row_insert(S, K, 0, BYTES("1")),
	       row_insert(S, BYTES("d"), 0, BYTES("{}")));
	snapshot = look(backend);
	cr_assert_eq(backend_entry_look(backend, snapshot, looked, ARRAY_SIZE(looked)), 0);
	unlook(backend, snapshot);
	cr_expect_eq(looked[0].error, -ENOENT);
	for (size_t i = 1; i < ARRAY_SIZE(looked); i++)
		cr_expect_eq(looked[i].error, 0);
	cr_expect_eq(looked[1].id, 7);
	cr_expect_eq(looked[1].node.ino, 4);
	cr_expect(looked[1].whole && bytes_equal(buf_bytes(&looked[1].bytes), BYTES("abc")));
	cr_expect(!looked[2].whole, "more than a chunk");
	cr_expect(!looked[3].whole && looked[3].tail.known && looked[3].tail.bytes == 1);
	cr_expect(looked[4].whole && bytes_equal(buf_bytes(&looked[4].bytes), BYTES("{}")));
	cr_expect(looked[4].tail.known && looked[4].tail.bytes == 2);
	cr_expect(!looked[5].whole && looked[5].tail.known);
	cr_expect(!looked[6].whole && !looked[6].tail.known);
	backend_looked_done(looked, ARRAY_SIZE(looked));

	cr_assert_eq(buf_append_zeros(&large, BACKEND_ITEM_LEAST + 1), 0);
	memset(large.data, '1', large.size); /* servers have text */
	COMMIT(backend, row_put(S, BYTES("d"), 0, buf_bytes(&large)));
	snapshot = look(backend);
	cr_assert_eq(backend_entry_look(backend, snapshot, &looked[4], 1), 0);
	unlook(backend, snapshot);
	cr_expect(!looked[4].whole, "a large row");
	cr_expect_eq(looked[4].tail.bytes, BACKEND_ITEM_LEAST + 1);
	backend_looked_done(&looked[4], 1);
}

static int say_key(void *arg, struct bytes session, struct bytes key,
		   const struct backend_key_stat *stat)
{
	return buf_printf(arg, "%.*s/%.*s %d-%d ", (int)session.size, session.data, (int)key.size,
			  key.data, (int)stat->first, (int)stat->last);
}

EveryStore(keys, are_told_of_one_session)
{
	static const struct {
		const char *session, *after, *keys;
	} sessions[] = {
		{ "t", NULL, "t/ 0-0 t/k 1-2 t/l 0-0 " },
		{ "t", "", "t/k 1-2 t/l 0-0 " },
		{ "t", "k", "t/l 0-0 " },
		{ "t", "l", "" },
		{ "s", NULL, "s/k 0-0 " },
		{ "none", NULL, "" },
	};
	struct backend_snapshot *snapshot;

	COMMIT(backend, row_insert(BYTES("s"), BYTES("k"), 0, BYTES("1")),
	       row_insert(BYTES("t"), BYTES(""), 0, BYTES("1")),
	       row_insert(BYTES("t"), BYTES("k"), 1, BYTES("1")),
	       row_insert(BYTES("t"), BYTES("k"), 2, BYTES("1")),
	       row_insert(BYTES("t"), BYTES("l"), 0, BYTES("1")),
	       row_insert(BYTES("u"), BYTES("k"), 0, BYTES("1")));
	snapshot = look(backend);
	for (size_t i = 0; i < ARRAY_SIZE(sessions); i++) {
		_cleanup_(buf_done) struct buf keys = { 0 };
		const struct bytes after =
			sessions[i].after ? bytes_str(sessions[i].after) : (struct bytes){ 0 };

		cr_expect_eq(backend_session_keys(backend, snapshot, bytes_str(sessions[i].session),
						  after, say_key, &keys),
			     0);
		buf_append_byte(&keys, '\0');
		cr_expect_str_eq(keys.data, sessions[i].keys);
	}
	unlook(backend, snapshot);
}

EveryStore(keys, are_looked_at_together)
{
	const unsigned all = BACKEND_KEY_ROWS | BACKEND_KEY_NODE | BACKEND_KEY_ORPHAN;
	struct backend_node list = state_node(6, S, K), orphan = state_node(7, S, BYTES("o"));
	struct backend_node dir = plain_node(8);
	struct backend_key_looked looked[] = {
		{ .session = S, .key = K, .wanted = all },
		{ .session = S, .key = BYTES("o"), .wanted = all },
		{ .session = S, .key = BYTES("none"), .wanted = all, .found = all },
		{ .session = S, .wanted = BACKEND_KEY_NODE },
		{ .session = BYTES("t"), .wanted = BACKEND_KEY_NODE },
		{ .session = S, .key = K, .wanted = BACKEND_KEY_NODE },
		{ .session = S, .key = K, .wanted = 0 },
	};
	const unsigned found[] = { BACKEND_KEY_ROWS | BACKEND_KEY_NODE,
				   BACKEND_KEY_ORPHAN,
				   0,
				   BACKEND_KEY_NODE,
				   0,
				   BACKEND_KEY_NODE,
				   0 };
	struct backend_snapshot *snapshot;

	NEEDS(backend, shared, orphan_find);
	orphan.nlink = 0;
	dir.mode = S_IFDIR | 0755;
	dir.kind = BACKEND_SESSION;
	dir.session = S;
	COMMIT(backend, node_put(&list), node_put(&orphan), node_put(&dir),
	       row_insert(S, K, 3, BYTES("1")), row_insert(S, K, 5, BYTES("1")));
	snapshot = look(backend);
	cr_assert_eq(backend_key_look(backend, snapshot, looked, ARRAY_SIZE(looked)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(looked); i++)
		cr_expect_eq(looked[i].found, found[i], "%zu: %u", i, looked[i].found);
	unlook(backend, snapshot);
	cr_expect_eq(looked[0].stat.first, 3);
	cr_expect_eq(looked[0].stat.last, 5);
}
