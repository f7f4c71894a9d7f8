/* SPDX-License-Identifier: MIT */
/*
 * How many round trips a store on a server would be asked for (tests/stores/trace.h): what a call
 * costs after the first look-up of its directory, as the kernel makes them.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/stores/trace.h"
#include "fs/inode/inodes.h"
#include "fs/share/share.h"
#include "tests/unit/until.h"
#include "tests/unit/world.h"

static struct inode *dir; /* "s" */

static void trace(void)
{
	world_shared = true;
	world_wrap(trace_backend_open);
}

TestSuite(trips, .init = trace);

/* What was asked for since, as "3: entry_find 2, commit 1", with the rows behind it. */
static const char *asked(void)
{
	static char text[512];
	const struct trace_counts counts = trace_backend_counts(world_store);
	uint64_t trips = counts.commit;
	char *end = text;

	end += sprintf(end, "%llu:", (unsigned long long)counts.trips);
#define READ(slot, ...)                                                                            \
	trips += counts.slot;                                                                      \
	if (counts.slot)                                                                           \
		end += sprintf(end, " " #slot " %llu", (unsigned long long)counts.slot);
#define READ_ROWS READ
	BACKEND_READS
	BACKEND_SCANS
#define CALL(...)
	BACKEND_CHANGES
	BACKEND_SHARED
	BACKEND_JOINED
	if (counts.commit)
		end += sprintf(end, " commit %llu", (unsigned long long)counts.commit);
	if (counts.trips > trips)
		end += sprintf(end, " question %llu", (unsigned long long)(counts.trips - trips));
	if (counts.rows)
		sprintf(end, ", rows %llu", (unsigned long long)counts.rows);
	return text;
}

static void begin(void)
{
	if (!dir)
		dir = inode_at("s");
	trace_backend_reset(world_store, true);
}

static void end(void)
{
	forget(dir);
	dir = NULL;
}

/* Nothing is known but the directory. */
static void begin_cold(void)
{
	world_reopen();
	begin();
}

/* The requests of the kernel. */

static struct inode *look(const char *name, struct shown *ret_shown)
{
	struct inode *inode = NULL;

	cr_assert_eq(tree_lookup(world_tree, dir, bytes_str(name), &inode), 0, "%s", name);
	cr_assert_eq(tree_enter(world_tree, inode, FACE_ANY, getpid(), ret_shown), 0);
	return inode;
}

static struct handle *open_looked(struct inode *inode, const struct shown *shown, int flags)
{
	struct handle *handle = NULL;

	if (tree_is_shared(world_tree))
		cr_assert_eq(tree_take_in(world_tree), 0);
	cr_assert_eq(tree_open_file(world_tree, inode, nodeid_face(shown->nodeid), flags, getpid(),
				    &handle),
		     0);
	return handle;
}

static const struct caller caller = { .uid = 1000, .gid = 1000 };

static void make(const char *name, mode_t mode, struct inode **ret_inode)
{
	const struct tree_new what = { .mode = mode, .will_save = true };
	int r = tree_make(world_tree, &caller, dir, bytes_str(name), &what, ret_inode);

	cr_assert_eq(r, 0, "%s: %s", name, strerror(-r));
}

static struct handle *create(const char *name, int flags)
{
	struct handle *handle = NULL;
	struct inode *inode;
	struct shown shown;

	cr_assert_eq(tree_lookup(world_tree, dir, bytes_str(name), &inode), -ENOENT);
	make(name, S_IFREG | 0644, &inode);
	cr_assert_eq(tree_open_file(world_tree, inode, FACE_ANY, flags, getpid(), &handle), 0);
	cr_assert_eq(handle_show(world_tree, handle, &shown), 0);
	forget(inode);
	return handle;
}

static void read_whole(struct inode *inode, const struct shown *shown, const char *content)
{
	struct handle *handle = open_looked(inode, shown, O_RDONLY);

	cr_assert_str_eq(read_by(handle), content);
	handle_free(world_tree, handle);
}

EveryStore(trips, of_an_append_to_an_open_list_are_one_batch)
{
	struct handle *handle;

	append("s/l.jsonl", "1\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	begin();
	append_to(handle, "2\n");
	cr_expect_str_eq(asked(), "1: commit 1");
	end();
	close_handle(handle);
}

EveryStore(trips, of_a_first_append_are_few)
{
	struct handle *handle;
	struct inode *inode;
	struct shown shown;

	append("s/l.jsonl", "1\n2\n");
	begin_cold();
	inode = look("l.jsonl", &shown);
	handle = open_looked(inode, &shown, O_WRONLY | O_APPEND);
	append_to(handle, "3\n");
	close_handle(handle);
	cr_expect_str_eq(asked(), "2: entry_look 1 commit 1");
	forget(inode);
	end();
}

EveryStore(trips, of_a_document_are_to_find_and_to_read_it)
{
	struct inode *inode;
	struct shown shown;

	save("s/d.json", "{}");
	begin_cold();
	inode = look("d.json", &shown);
	read_whole(inode, &shown, "{}");
	cr_expect_str_eq(asked(), "2: row_read 1 entry_look 1, rows 1");
	begin();
	read_whole(inode, &shown, "{}");
	cr_expect_str_eq(asked(), "0:", "it is unchanged");
	save("s/d.json", "[1]");
	forget(inode);
	inode = look("d.json", &shown);
	begin();
	read_whole(inode, &shown, "[1]");
	/* Where a store can, it keeps a snapshot for who reads the file. */
	cr_expect_str_eq(asked(), world_tree->reader_snapshots.may_be ?
					  "2: row_read 1 question 1, rows 1" :
					  "1: row_read 1, rows 1");
	forget(inode);
	end();
}

EveryStore(trips, of_a_list_are_to_find_and_to_read_it)
{
	struct inode *inode;
	struct shown shown;

	append("s/l.jsonl", "1\n2\n");
	begin_cold();
	inode = look("l.jsonl", &shown);
	read_whole(inode, &shown, "1\n2\n");
	cr_expect_str_eq(asked(), "3: row_read 1 piece_read 1 entry_look 1, rows 2");
	begin();
	read_whole(inode, &shown, "1\n2\n");
	cr_expect_str_eq(asked(), "2: row_read 1 piece_read 1, rows 2");
	forget(inode);
	end();
}

EveryStore(trips, of_a_view_of_the_last_lines_are_for_those_lines)
{
	struct inode *seen, *window;
	struct handle *handle;
	struct shown shown;

	for (int i = 0; i < 500; i++)
		append("s/l.jsonl", "{\"role\": \"user\"}\n[]\n");
	begin_cold();
	seen = look("@last=2", &shown);
	forget(look("l.jsonl", &shown));
	begin();
	cr_assert_eq(tree_lookup(world_tree, seen, BYTES("l.jsonl"), &window), 0);
	cr_expect_str_eq(asked(), "3: row_read 1 row_read_back 1 entry_look 1, rows 4");
	begin();
	handle = open_looked(window, &shown, O_RDONLY);
	cr_expect_str_eq(read_by(handle), "{\"role\": \"user\"}\n[]\n");
	cr_expect_str_eq(asked(), "0:", "it was read when it was looked up");
	handle_free(world_tree, handle);
	forget(window);
	forget(seen);
	end();
}

/* Those that are read from the end are read once more, in their order. */
EveryStore(trips, of_a_view_with_a_limit_are_for_what_is_in_it)
{
	static const struct {
		const char *question;
		unsigned rows;
	} limits[] = {
		{ "@last=2", 4 },
		{ "@role=user,last=2", 8 },
		{ "@role=user,first=2", 3 },
		{ "@match=user,last=2", 8 },
		{ "@since=1h,last=2", 4 },
		{ "@since=1h,role=user,last=2", 8 },
		{ "@first=2", 2 },
		{ "@items=10-11", 2 },
		{ "@bytes=20", 5 },
		{ "@role=user,bytes=40", 10 },
		{ "@first=5,bytes=20", 10 },
		{ "@last=5,bytes=20", 5 },
		{ "@last=0", 0 },
		{ "@items=5000-", 0 },
	};
	struct inode *seen, *window;
	struct shown shown;

	for (int i = 0; i < 500; i++)
		append("s/l.jsonl", "{\"role\": \"user\"}\n[]\n");
	begin_cold();
	forget(look("l.jsonl", &shown));
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const char *rows;

		seen = look(limits[i].question, &shown);
		begin();
		cr_assert_eq(tree_lookup(world_tree, seen, BYTES("l.jsonl"), &window), 0);
		rows = strstr(asked(), "rows ");
		cr_expect_eq(rows ? strtoul(rows + 5, NULL, 10) : 0, limits[i].rows, "%s: %s",
			     limits[i].question, rows);
		forget(window);
		forget(seen);
	}
	end();
}

EveryStore(trips, of_a_view_without_a_limit_are_one_look_at_the_list)
{
	struct inode *seen, *window;
	struct handle *handle;
	struct shown shown;

	for (int i = 0; i < 3000; i++)
		append("s/l.jsonl", "{\"role\": \"user\"}\n[]\n");
	begin_cold();
	seen = look("@role=user", &shown);
	forget(look("l.jsonl", &shown));
	begin();
	cr_assert_eq(tree_lookup(world_tree, seen, BYTES("l.jsonl"), &window), 0);
	cr_expect_str_eq(asked(), "2: row_read 1 entry_look 1, rows 6000");
	begin();
	handle = open_looked(window, &shown, O_RDONLY);
	cr_expect_str_eq(asked(), "0:");
	handle_free(world_tree, handle);
	forget(window);
	forget(seen);
	end();
}

EveryStore(trips, of_an_item_of_a_view_are_for_its_row_alone)
{
	struct inode *seen, *items, *window;
	struct handle *handle;
	struct shown shown;

	for (int i = 0; i < 500; i++)
		append("s/l.jsonl", "{\"role\": \"user\"}\n[]\n");
	begin_cold();
	seen = look("@role=user,as=items", &shown);
	forget(look("l.jsonl", &shown));
	begin();
	cr_assert_eq(tree_lookup(world_tree, seen, BYTES("l"), &items), 0);
	cr_expect_str_eq(asked(), "2: entry_look 2", "the name, and the list");
	begin();
	cr_assert_eq(tree_lookup(world_tree, items, BYTES("500.json"), &window), 0);
	cr_expect_str_eq(asked(), "2: row_read_back 1 entry_look 1, rows 1");
	begin();
	handle = open_looked(window, &shown, O_RDONLY);
	cr_expect_str_eq(read_by(handle), "{\"role\": \"user\"}\n");
	cr_expect_str_eq(asked(), "0:", "it was read when it was looked up");
	handle_free(world_tree, handle);
	forget(window);
	begin();
	cr_expect_eq(tree_lookup(world_tree, items, BYTES("501.json"), &window), -ENOENT);
	cr_expect_str_eq(asked(), "2: row_read_back 1 entry_look 1, rows 1");
	forget(items);
	forget(seen);
	end();
}

EveryStore(trips, of_the_last_documents_as_a_list_are_for_those)
{
	struct inode *window;
	struct handle *handle;
	struct shown shown;
	char path[32];

	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof(path), "s/m%d.json", i);
		save(path, "{\"role\": \"user\"}\n");
	}
	begin_cold();
	begin();
	window = look("@as=list,last=2.jsonl", &shown);
	cr_expect_str_eq(asked(),
			 "10: node_get 4 entry_list 1 row_read_times 4 entry_look 1, rows 4",
			 "each is read to know whether it is shown, and once more to show it");
	begin();
	handle = open_looked(window, &shown, O_RDONLY);
	cr_expect_str_eq(read_by(handle), "{\"role\":\"user\"}\n{\"role\":\"user\"}\n");
	cr_expect_str_eq(asked(), "0:", "it was read when it was looked up");
	handle_free(world_tree, handle);
	forget(window);
	end();
}

EveryStore(trips, of_all_documents_as_a_list_are_one_look_at_each)
{
	_cleanup_(freep) char *text = malloc(2001);
	struct inode *window;
	struct handle *handle;
	struct shown shown;
	char path[32];

	memset(text, '1', 2000);
	text[2000] = '\0';
	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof(path), "s/m%d.json", i);
		save(path, text);
	}
	begin_cold();
	for (int i = 0; i < 2; i++) {
		begin();
		window = look(i ? "@as=list,first=40.jsonl" : "@as=list.jsonl", &shown);
		cr_expect_str_eq(asked(), i ? "82: node_get 40 entry_list 1 row_read_times 40 "
					      "entry_look 1, rows 40" :
					      "102: node_get 50 entry_list 1 row_read_times 50 "
					      "entry_look 1, rows 50");
		begin();
		handle = open_looked(window, &shown, O_RDONLY);
		cr_expect_str_eq(asked(), "0:", "it was read when it was looked up");
		handle_free(world_tree, handle);
		forget(window);
	}
	end();
}

/* A store on a server hears of it in a moment. */
static void wait_until_alone(void)
{
	cr_assert(UNTIL(!tree_is_shared(world_tree)));
}

EveryStore(trips, beside_another_mount_are_a_question_more_at_an_open)
{
	struct backend_op touch = { .type = BACKEND_NODE_SET, .at = BACKEND_MTIME };
	struct backend *other = world_join();
	struct inode *inode, *made, *too, *document;
	struct handle *handle;
	struct shown shown, document_shown;

	append("s/l.jsonl", "1\n");
	begin();
	inode = look("l.jsonl", &shown);
	handle = open_looked(inode, &shown, O_WRONLY | O_APPEND);
	append_to(handle, "2\n");
	begin();
	append_to(handle, "3\n");
	cr_expect_str_eq(asked(), "1: commit 1");
	close_handle(handle);
	begin();
	close_handle(open_looked(inode, &shown, O_WRONLY | O_APPEND));
	cr_expect_str_eq(asked(), "1: question 1");
	begin();
	close_handle(create("d.json", O_WRONLY));
	cr_expect_str_eq(asked(), "2: entry_look 1 commit 1", "it is looked up as well");
	begin();
	make("d", S_IFDIR | 0755, &made);
	cr_expect_str_eq(asked(), "1: commit 1");
	touch.node = &dir->node;
	cr_expect_eq(backend_commit(other, &touch, 1, BACKEND_ANYWAY), 0);
	begin();
	make("e", S_IFDIR | 0755, &too);
	cr_expect_str_eq(asked(), "1: commit 1", "others make names in the directory, too");
	save("s/e.json", "{}");
	document = look("e.json", &document_shown);
	read_whole(document, &document_shown, "{}");
	begin();
	read_whole(document, &document_shown, "{}");
	cr_expect_str_eq(asked(), "1: question 1");
	forget(document);
	backend_close(other);
	wait_until_alone();
	begin();
	close_handle(open_looked(inode, &shown, O_WRONLY | O_APPEND));
	cr_expect_str_eq(asked(), "0:", "alone");
	forget(too);
	forget(made);
	forget(inode);
	end();
}

EveryStore(trips, of_a_save_in_place_are_few)
{
	struct handle *handle;
	struct inode *inode;
	struct shown shown;

	save("s/d.json", "{}");
	begin_cold();
	inode = look("d.json", &shown);
	begin();
	handle = open_looked(inode, &shown, O_WRONLY | O_TRUNC);
	write_at(handle, 0, BYTES("[1]"));
	close_handle(handle);
	cr_expect_str_eq(asked(), "1: commit 1");
	forget(inode);
	end();
}

EveryStore(trips, of_a_new_file_are_few)
{
	struct handle *handle;

	begin();
	handle = create("d.json", O_WRONLY);
	cr_expect_str_eq(asked(), "2: entry_look 1 commit 1");
	begin();
	write_at(handle, 0, BYTES("{}"));
	close_handle(handle);
	cr_expect_str_eq(asked(), "1: commit 1");
	begin();
	close_handle(create("p.txt", O_WRONLY));
	cr_expect_str_eq(asked(), "2: entry_look 1 commit 1");
	end();
}

EveryStore(trips, of_a_temporary_name_that_is_renamed_over_are_few)
{
	struct inode *inode, *temporary;
	struct handle *handle;
	struct shown shown;

	save("s/d.json", "{}");
	begin_cold();
	inode = look("d.json", &shown);
	close_handle(create("p.txt", O_WRONLY)); /* it leases numbers */
	begin();
	handle = create("d.json.tmp", O_WRONLY);
	temporary = inode_ref(world_tree, handle_inode(handle)); /* the kernel knows it */
	write_at(handle, 0, BYTES("[1]"));
	close_handle(handle);
	cr_expect_str_eq(asked(), "3: entry_look 1 commit 2");
	begin();
	cr_expect_eq(tree_rename(world_tree, dir, BYTES("d.json.tmp"), dir, BYTES("d.json"), 0), 0);
	cr_expect_str_eq(asked(), "2: entry_look 1 commit 1");
	forget(temporary);
	forget(inode);
	end();
}

EveryStore(trips, of_a_directory_are_few)
{
	struct inode *made;
	struct shown shown;

	begin();
	make("d", S_IFDIR | 0755, &made);
	cr_expect_eq(tree_enter(world_tree, made, FACE_ANY, getpid(), &shown), 0);
	cr_expect_str_eq(asked(), "1: commit 1");
	begin();
	cr_expect_eq(tree_rmdir(world_tree, dir, BYTES("d")), 0);
	cr_expect_str_eq(asked(), "2: entry_list 1 commit 1");
	forget(made);
	end();
}

EveryStore(trips, of_an_unlink_are_its_batch)
{
	struct inode *document, *plain;
	struct shown shown;

	save("s/d.json", "{}");
	save("s/p.txt", "{}");
	begin_cold();
	document = look("d.json", &shown);
	plain = look("p.txt", &shown);
	begin();
	cr_expect_eq(tree_unlink(world_tree, dir, BYTES("d.json")), 0);
	cr_expect_str_eq(asked(), "1: commit 1");
	begin();
	cr_expect_eq(tree_unlink(world_tree, dir, BYTES("p.txt")), 0);
	cr_expect_str_eq(asked(), "1: commit 1");
	forget(document);
	forget(plain);
	end();
}

/* By the name that they had when they were looked up. */
EveryStore(trips, of_an_unlink_of_what_has_another_name_by_now_are_to_find_it_too)
{
	struct inode *document, *over;
	struct shown shown;

	save("s/d.json", "1");
	save("s/e.json", "2");
	begin_cold();
	document = look("d.json", &shown);
	over = look("e.json", &shown);
	cr_expect_eq(tree_rename(world_tree, dir, BYTES("d.json"), dir, BYTES("e.json"), 0), 0);
	begin();
	cr_expect_eq(tree_unlink(world_tree, dir, BYTES("d.json")), -ENOENT);
	cr_expect_str_eq(asked(), "1: entry_find 1");
	begin();
	cr_expect_eq(tree_unlink(world_tree, dir, BYTES("e.json")), 0);
	cr_expect_str_eq(asked(), "1: commit 1");
	cr_expect_eq(tree_unlink(world_tree, dir, BYTES("e.json")), -ENOENT);
	forget(over);
	forget(document);
	end();
}

/* The kernel asks for one at each write. */
EveryStore(trips, of_attributes_that_are_not_there_are_one)
{
	static const struct bytes name = { "security.capability", 19 };
	_cleanup_(buf_done) struct buf value = { 0 };
	struct inode *inode;
	struct shown shown;

	save("s/p.txt", "1");
	begin_cold();
	inode = look("p.txt", &shown);
	begin();
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(tree_get_xattr(world_tree, inode, name, &value), -ENODATA);
		cr_expect_str_eq(asked(), "1: xattr_list 1");
	}
	cr_expect_eq(tree_set_xattr(world_tree, inode, name, BYTES("x"), 0), 0);
	begin();
	cr_expect_eq(tree_get_xattr(world_tree, inode, name, &value), 0);
	cr_expect_str_eq(asked(), "2: xattr_get 1 xattr_list 1");
	cr_expect_eq(tree_remove_xattr(world_tree, inode, name), 0);
	cr_expect_eq(tree_get_xattr(world_tree, inode, name, &value), -ENODATA);
	forget(inode);
	make("new.txt", S_IFREG | 0644, &inode);
	begin();
	cr_expect_eq(tree_get_xattr(world_tree, inode, name, &value), -ENODATA);
	cr_expect_str_eq(asked(), "0:", "it was made without any");
	forget(inode);
	end();
}

static int list_one(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		    uint64_t position)
{
	struct inodes *listed = arg;

	(void)shown, (void)position;
	if (inode && name.size)
		listed->inode[listed->count++] = inode;
	return 0;
}

static void list_cold(const char *expected)
{
	enum { FILES = 1000 };
	struct inode *inodes[FILES + 1];
	struct inodes listed = { .inode = inodes };

	begin_cold();
	cr_expect_eq(tree_list(world_tree, dir, 0, UINT64_MAX, true, list_one, &listed), 0);
	cr_expect_str_eq(asked(), expected);
	cr_expect_eq(listed.count, FILES);
	while (listed.count)
		forget(listed.inode[--listed.count]);
	end();
}

static void make_many(const char *end)
{
	for (int i = 0; i < 1000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "s/%d%s", i, end);
		save(name, "1\n");
	}
}

EveryStore(trips, of_a_listing_of_documents_with_attributes_are_few)
{
	make_many(".json");
	list_cold("1: entry_list_tails 1");
}

EveryStore(trips, of_a_listing_of_lists_with_attributes_are_few)
{
	make_many(".jsonl");
	list_cold("1: entry_list_tails 1");
}

/* The tree's own thread may take it in, too, and wakes now and then. */
static void expect_few_for(const char *sql)
{
	enum { MOST = 60 };

	dir = world_tree->root;
	begin();
	dir = NULL;
	sql_runs(sql);
	cr_assert_eq(tree_reconcile(world_tree), 0);
	cr_expect_lt(trace_backend_counts(world_store).trips, MOST, "%s", asked());
}

#define ADD_128(session, key)                                                                      \
	"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 128) "          \
	"INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "         \
	"SELECT " session ", " key ", 0, '1' FROM n;"

SqliteStore(trips, of_sessions_that_another_program_adds_are_few)
{
	expect_few_for(ADD_128("'s' || i", "'k'"));
	cr_expect_str_eq(content_of("s1/k.json"), "1");
	cr_expect_str_eq(content_of("s128/k.json"), "1");
}

SqliteStore(trips, of_keys_that_another_program_adds_to_a_session_are_few)
{
	save("s/a.json", "1");
	make_dir("s/k7.json");
	expect_few_for(ADD_128("'s'", "'k' || i"));
	cr_expect_str_eq(content_of("s/k1.json"), "1");
	cr_expect_str_eq(content_of("s/k7%~1.json"), "1", "its name was taken");
	cr_expect_str_eq(content_of("s/k128.json"), "1");
}

SqliteStore(trips, of_keys_that_another_program_adds_and_removes_are_few)
{
	expect_few_for("BEGIN;" ADD_128("'s' || i", "'k'") "DELETE FROM agentscope_sessions;"
							   "COMMIT");
	cr_expect_eq(looked_up("s1"), -ENOENT);
}

/* The notice that a file which is being read has grown names its last byte. */
SqliteStore(trips, of_a_list_that_another_program_adds_to_are_in_one_snapshot)
{
	struct handle *handle;
	struct shown shown;
	struct inode *inode;

	append("s/l.jsonl", "1\n2\n");
	begin_cold();
	inode = look("l.jsonl", &shown);
	handle = open_looked(inode, &shown, O_RDONLY);
	cr_assert_str_eq(read_by(handle), "1\n2\n");
	/* The tree's own thread may be the one that takes it in. */
	trace_backend_reset(world_store, false);
	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'l', 2, '33')");
	cr_assert_eq(tree_reconcile(world_tree), 0);
	cr_assert(UNTIL(strcmp(read_by(handle), "1\n2\n33\n") == 0));
	cr_expect_eq(trace_backend_counts(world_store).beside, 0);
	handle_free(world_tree, handle);
	forget(inode);
	end();
}
