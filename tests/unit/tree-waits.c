/* SPDX-License-Identifier: MIT */

/*
 * Who waits while a change is being committed: nobody who only reads.
 *
 * The store's commit stops, before it or behind it, until the case lets it go on.  A case that is
 * made to wait after all never ends, so none of this needs a clock.
 */

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "fs/api/trash.h"
#include "fs/content/content.h"
#include "fs/inode/tree.h"
#include "fs/inode/waiting.h"
#include "fs/share/share.h"
#include "fs/write/write.h"
#include "tests/unit/world.h"

static struct {
	struct backend_ops ops;
	const struct backend_ops *real;
	void (*wake)(struct backend *backend);
	void (*turn)(struct backend *backend, bool take);
	atomic_bool armed; /* the next commit stops */
	bool behind;	   /* once the store has it, and memory has not */
	sem_t reached;
	sem_t go;
	atomic_uint wakes; /* of who waits for others' changes */
} gate;

static void stop(void)
{
	sem_post(&gate.reached);
	while (sem_wait(&gate.go) != 0)
		;
}

/* Of this thread: another program comes before so many commits. */
static _Thread_local unsigned foreign;
static _Thread_local bool has_turn;
static unsigned turns, waits_with_turn;
static sem_t turned; /* somebody has taken one */
/* Of this thread: that mount commits before each of its snapshots, unless it has the turn. */
static _Thread_local struct backend *neighbour;
/* So many commits come too late by another mount; and some are made in turns. */
static _Thread_local unsigned late;
static unsigned commits_in_turn;

static void counted_turn(struct backend *backend, bool take)
{
	has_turn = take;
	turns += take;
	gate.turn(backend, take);
	if (take)
		sem_post(&turned);
}

static int gated_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	bool stops = atomic_exchange(&gate.armed, false);
	int r;

	if (foreign) {
		foreign--;
		sql_runs("UPDATE agentscope_sessions SET state_data = state_data || ' '");
	}

	if (late) {
		late--;
		return -ESTALE;
	}
	commits_in_turn += has_turn;
	if (stops && !gate.behind)
		stop();
	r = gate.real->commit(backend, batch, flags);
	if (stops && gate.behind)
		stop();
	return r;
}

/* Of this thread. */
static _Thread_local unsigned snapshots, most_snapshots;

static void neighbour_touches(void)
{
	const struct backend_op touch = {
		.type = BACKEND_NODE_SET,
		.at = BACKEND_MTIME,
		.node = &world_tree->root->node,
	};

	cr_expect_eq(backend_commit(neighbour, &touch, 1, BACKEND_ANYWAY), 0);
}

static int counted_begin(struct backend *backend, unsigned flags,
			 struct backend_snapshot **ret_snapshot)
{
	int r;

	if (neighbour && !has_turn)
		neighbour_touches();
	r = gate.real->snapshot_begin(backend, flags, ret_snapshot);

	snapshots += r == 0;
	most_snapshots = MAX(most_snapshots, snapshots);
	return r;
}

static void counted_end(struct backend *backend, struct backend_snapshot *snapshot)
{
	gate.real->snapshot_end(backend, snapshot);
	snapshots--;
}

static void counted_wake(struct backend *backend)
{
	gate.wakes++;
	waits_with_turn += has_turn;
	gate.wake(backend);
}

static int gate_store(struct backend *inner, struct backend **ret_backend)
{
	*ret_backend = inner;
	if (inner->ops == &gate.ops) /* a store that was closed and opened again */
		return 0;
	gate.real = inner->ops;
	gate.ops = *inner->ops;
	gate.ops.commit = gated_commit;
	gate.wake = inner->changes.wake;
	gate.turn = inner->shared.turn;
	inner->changes.wake = counted_wake;
	inner->shared.turn = counted_turn;
	gate.ops.snapshot_begin = counted_begin;
	gate.ops.snapshot_end = counted_end;
	inner->ops = &gate.ops;
	return 0;
}

static void gate_open(void)
{
	sem_init(&gate.reached, 0, 0);
	sem_init(&gate.go, 0, 0);
	sem_init(&turned, 0, 0);
	world_wrap(gate_store);
}

TestSuite(waits, .init = gate_open);

static void *run(void *arg)
{
	((void (*)(void))arg)();
	return NULL;
}

static pthread_t start(void change(void))
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, run, (void *)change), 0);
	return thread;
}

/* The change has come to its commit, and stays there. */
static pthread_t start_change(void change(void), bool behind)
{
	pthread_t thread;

	gate.behind = behind;
	gate.armed = true;
	thread = start(change);
	while (sem_wait(&gate.reached) != 0)
		;
	return thread;
}

static void let_go(pthread_t thread)
{
	sem_post(&gate.go);
	pthread_join(thread, NULL);
}

static void change_mkdir(void)
{
	make_dir("s/made");
}

static void change_rename(void)
{
	cr_assert_eq(renamed("s/a.jsonl", "s/b.jsonl", 0), 0);
}

static void change_rename_over(void)
{
	cr_assert_eq(renamed("s/new.json", "s/d.json", 0), 0);
}

static void change_rename_session(void)
{
	cr_assert_eq(renamed("s", "t", 0), 0);
}

static void change_unlink(void)
{
	cr_assert_eq(unlinked("s/plain.txt"), 0);
}

static void change_times(void)
{
	cr_assert_geq(tree_write_times(world_tree, true), 0);
}

static void fill(void)
{
	save("s/a.jsonl", "1\n2\n");
	save("s/d.json", "[\"old\"]");
	save("s/new.json", "[\"new\"]");
	save("s/plain.txt", "plain");
	append("s/other.jsonl", "1\n");
}

/* What changes nothing in the store. */
static void look_around(void)
{
	struct handle *handle = open_at("s/d.json", O_RDONLY);

	cr_assert_str_eq(read_by(handle), "[\"old\"]");
	cr_assert_eq(handle_sync(world_tree, handle), 0, "nothing of it is to be written");
	close_handle(handle);
	cr_assert_str_eq(content_of("s/a.jsonl"), "1\n2\n");
	cr_assert_str_eq(content_of("s/plain.txt"), "plain");
	cr_assert_eq(stat_of("s/new.json").st_size, 7);
	cr_assert_eq(looked_up("s/made"), -ENOENT);
	cr_assert_not_null(strstr(names_in("s"), "a.jsonl"));
}

/* It is over when the case ends; then everything is as if nobody had looked. */
static void wait_for_nobody(void change(void))
{
	struct handle *writer;
	pthread_t thread;

	fill();
	writer = open_at("s/other.jsonl", O_RDWR);
	write_at(writer, 0, BYTES("[1"));
	tree_write_times(world_tree, true);
	thread = start_change(change, false);
	look_around();
	write_at(writer, 2, BYTES("]\n"));
	cr_assert_str_eq(read_by(writer), "[1]\n");
	let_go(thread);
	close_handle(writer);
}

EveryStore(waits, nobody_waits_for_mkdir)
{
	wait_for_nobody(change_mkdir);
	cr_assert_eq(looked_up("s/made"), 0);
	cr_assert_str_eq(content_of("s/other.jsonl"), "[1]\n");
}

static void change_append(void)
{
	append("s/a.jsonl", "3\n");
}

static void change_mode(void)
{
	const struct stat st = { .st_mode = 0600 };

	cr_assert_eq(set_attr("s/a.jsonl", &st, TREE_SET_MODE), 0);
}

static void change_xattr(void)
{
	struct inode *inode = inode_at("s/a.jsonl");

	cr_assert_eq(tree_set_xattr(world_tree, inode, BYTES("user.a"), BYTES("1"), 0), 0);
	forget(inode);
}

static void change_plain(void)
{
	struct handle *handle = open_at("s/plain.txt", O_WRONLY | O_APPEND);

	write_at(handle, 0, BYTES("er"));
	close_handle(handle);
}

/* Not even who reads the file itself. */
EveryStore(waits, nobody_waits_for_an_append)
{
	wait_for_nobody(change_append);
	cr_assert_str_eq(content_of("s/a.jsonl"), "1\n2\n3\n");
}

EveryStore(waits, nobody_waits_for_chmod)
{
	wait_for_nobody(change_mode);
	cr_assert_eq(stat_of("s/a.jsonl").st_mode, S_IFREG | 0600);
}

EveryStore(waits, nobody_waits_for_an_attribute)
{
	wait_for_nobody(change_xattr);
}

EveryStore(waits, nobody_waits_for_a_write_to_an_ordinary_file)
{
	wait_for_nobody(change_plain);
	cr_assert_str_eq(content_of("s/plain.txt"), "plainer");
}

static void change_save(void)
{
	save("s/d.json", "[2]");
}

struct listed {
	unsigned count;
	unsigned without; /* an inode, but for the dots */
};

static int count_entry(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		       uint64_t position)
{
	struct listed *listed = arg;

	(void)shown;
	(void)position;
	listed->count++;
	listed->without += !inode && name.data[0] != '.';
	if (inode)
		forget(inode);
	return 0;
}

static struct listed list_session(void)
{
	struct listed listed = { 0 };
	struct inode *dir = inode_at("s");

	cr_assert_eq(tree_list_some(world_tree, dir, 0, UINT64_MAX, 100, true, count_entry,
				    &listed),
		     0);
	forget(dir);
	return listed;
}

EveryStore(waits, a_listing_waits_for_no_save)
{
	struct listed before, listed;
	pthread_t thread;

	fill();
	before = list_session();
	cr_assert_eq(before.without, 0);
	thread = start_change(change_save, false);
	listed = list_session();
	let_go(thread);
	cr_assert_eq(listed.count, before.count);
	cr_assert_leq(listed.without, 1);
	cr_assert_str_eq(content_of("s/d.json"), "[2]");
}

/* What it learns of the size on the way can wait; who waited would keep a snapshot. */
EveryStore(waits, a_lookup_waits_for_no_save)
{
	pthread_t thread;

	fill();
	thread = start_change(change_save, false);
	cr_assert_eq(looked_up("s/d.json"), 0);
	let_go(thread);
	cr_assert_str_eq(content_of("s/d.json"), "[2]");
}

/* What is to be done behind it is for the tree's own thread. */
EveryStore(waits, an_unlink_has_nothing_taken_in)
{
	unsigned before;

	fill();
	before = gate.wakes;
	cr_assert_eq(unlinked("s/a.jsonl"), 0);
	cr_assert_eq(gate.wakes, before);
}

/* Where there are only so many, each would wait for those of the others. */
EveryStore(waits, nobody_has_two_snapshots)
{
	fill();
	append("s/a.jsonl", "no row\n");
	world_reopen();
	most_snapshots = 0;
	cr_assert_eq(list_session().without, 0);
	cr_assert_eq(most_snapshots, 1);
	append("s/other.jsonl", "2");
	world_reopen();
	append("s/other.jsonl", "is no row then\n");
	cr_assert_eq(most_snapshots, 1);
}

EveryStore(waits, nobody_waits_for_times)
{
	pthread_t thread;

	fill();
	thread = start_change(change_times, false);
	look_around();
	let_go(thread);
}

EveryStore(waits, nobody_waits_for_a_rename)
{
	wait_for_nobody(change_rename);
	cr_assert_str_eq(content_of("s/b.jsonl"), "1\n2\n");
	cr_assert_eq(looked_up("s/a.jsonl"), -ENOENT);
}

EveryStore(waits, nobody_waits_for_the_rename_of_a_session)
{
	wait_for_nobody(change_rename_session);
	cr_assert_str_eq(content_of("t/a.jsonl"), "1\n2\n");
	cr_assert_str_eq(rows_of("s", "a"), "");
	cr_assert_str_eq(content_of("t/other.jsonl"), "[1]\n");
}

/* A commit that the store has and memory has not: who comes meanwhile sees the one or the other,
 * and nothing of both. */

enum { ROUNDS = 20, YIELDS = 200 };

static struct {
	struct handle *handle;
	struct inode *inode;
	const char *path;
	const char *text;
	sem_t begun;
} reader;

static void read_handle(void)
{
	sem_post(&reader.begun);
	cr_assert_str_eq(read_by(reader.handle), reader.text);
}

static void read_behind(void change(void), void read(void))
{
	pthread_t thread = start_change(change, true), reading;

	sem_init(&reader.begun, 0, 0);
	reading = start(read);
	while (sem_wait(&reader.begun) != 0)
		;
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	let_go(thread);
	pthread_join(reading, NULL);
}

static void change_rename_back(void)
{
	cr_assert_eq(renamed("s/b.jsonl", "s/a.jsonl", 0), 0);
}

EveryStore(waits, a_file_is_read_while_it_is_renamed)
{
	fill();
	for (int i = 0; i < ROUNDS; i++) {
		reader.handle = open_at(i % 2 ? "s/b.jsonl" : "s/a.jsonl", O_RDONLY);
		reader.text = "1\n2\n";
		read_behind(i % 2 ? change_rename_back : change_rename, read_handle);
		close_handle(reader.handle);
	}
}

/* It comes to the end of what it was in the middle of, and the kernel is told what there is now. */
EveryStore(waits, an_old_version_is_read_while_its_file_is_renamed)
{
	struct handle *handle;
	pthread_t thread;

	fill();
	tree_set_direct_mmap(world_tree, true);
	handle = open_at("s/a.jsonl", O_RDONLY);
	save("s/a.jsonl", "3\n");
	thread = start_change(change_rename, true);
	cr_assert_str_eq(read_by(handle), "1\n2\n");
	let_go(thread);
	cr_assert_str_eq(content_of("s/b.jsonl"), "3\n");
	close_handle(handle);
}

EveryStore(waits, a_file_is_read_while_its_session_is_renamed)
{
	fill();
	reader.handle = open_at("s/a.jsonl", O_RDONLY);
	reader.text = "1\n2\n";
	read_behind(change_rename_session, read_handle);
	close_handle(reader.handle);
	make_dir("s");
}

static void read_grown(void)
{
	const char *text;

	sem_post(&reader.begun);
	text = read_by(reader.handle);
	cr_assert_eq(strncmp(text, reader.text, strlen(reader.text)), 0, "%s", text);
	cr_assert(!text[strlen(reader.text)] || !strcmp(text + strlen(reader.text), "3\n"), "%s",
		  text);
}

EveryStore(waits, a_list_is_read_while_it_grows)
{
	char before[ROUNDS * 2 + 16] = "1\n2\n";

	fill();
	for (int i = 0; i < ROUNDS; i++) {
		reader.handle = open_at("s/a.jsonl", O_RDONLY);
		reader.text = before;
		read_behind(change_append, read_grown);
		close_handle(reader.handle);
		strcat(before, "3\n");
		cr_assert_str_eq(content_of("s/a.jsonl"), before);
	}
}

/* The file is open when it is replaced, or is opened meanwhile: then it is the old one or the
 * new. */
EveryStore(waits, a_file_is_read_while_it_is_replaced)
{
	for (int i = 0; i < ROUNDS; i++) {
		fill();
		reader.handle = open_at("s/d.json", O_RDONLY);
		reader.text = "[\"old\"]";
		read_behind(change_rename_over, read_handle);
		close_handle(reader.handle);
		cr_assert_str_eq(content_of("s/d.json"), "[\"new\"]");
		cr_assert_eq(unlinked("s/d.json"), 0);
	}
}

static void open_old(void)
{
	struct handle *handle;
	int r;

	sem_post(&reader.begun);
	r = tree_open_file(world_tree, reader.inode, 0, O_RDONLY, 1, &handle);
	/* The kernel looks the name up again. */
	if (r == -ESTALE)
		return;
	cr_assert_eq(r, 0);
	cr_assert_str_eq(read_by(handle), reader.text);
	close_handle(handle);
}

/* Looked up, but not open, when the change was prepared. */
static void open_behind(const char *path, const char *text, void change(void), bool behind)
{
	pthread_t thread, opening;

	fill();
	reader.inode = inode_at(path);
	reader.text = text;
	sem_init(&reader.begun, 0, 0);
	thread = start_change(change, behind);
	opening = start(open_old);
	while (sem_wait(&reader.begun) != 0)
		;
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	let_go(thread);
	pthread_join(opening, NULL);
	forget(reader.inode);
}

EveryStore(waits, a_file_is_opened_while_it_is_unlinked)
{
	for (int i = 0; i < ROUNDS; i++)
		open_behind("s/plain.txt", "plain", change_unlink, i % 2);
}

EveryStore(waits, a_file_is_opened_while_it_is_replaced)
{
	for (int i = 0; i < ROUNDS; i++) {
		open_behind("s/d.json", "[\"old\"]", change_rename_over, i % 2);
		cr_assert_eq(unlinked("s/d.json"), 0);
		world_settle();
	}
}

static void change_trash(void)
{
	int r = tree_trash(world_tree, BYTES("s"), INT64_MAX, INT64_MAX / 2);

	cr_assert(r == 0 || r == -EBUSY, "%s", strerror(-r));
}

static void open_to_keep(void)
{
	if (tree_open_file(world_tree, reader.inode, 0, O_RDONLY, 1, &reader.handle) != 0)
		reader.handle = NULL;
}

/* A session of which somebody has a file open stays. */
EveryStore(waits, a_file_is_opened_while_its_session_goes_into_the_trash)
{
	pthread_t thread, opening;

	fill();
	reader.inode = inode_at("s/d.json");
	thread = start_change(change_trash, false);
	opening = start(open_to_keep);
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	let_go(thread);
	pthread_join(opening, NULL);
	if (reader.handle) {
		cr_assert_str_eq(read_by(reader.handle), "[\"old\"]");
		close_handle(reader.handle);
	}
	forget(reader.inode);
}

/* A SQL client in a transaction. */

/* Also who reads what has no marks, and would make some. */
SqliteStore(waits, a_large_list_is_read_beside_a_sql_client)
{
	sql_runs("WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) "
		 "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "SELECT 's', 'large', i, '1' FROM n");
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	sql_runs("BEGIN IMMEDIATE");
	cr_assert_eq(bytes_of("s/large.jsonl").size, 4000);
	cr_assert_str_eq(sql_asks("SELECT count(*) FROM sessfs_mark"), "0");
	sql_runs("COMMIT");
	cr_assert_eq(unlinked("s/large.jsonl"), 0);
}

SqliteStore(waits, nobody_waits_for_a_sql_client)
{
	pthread_t thread;

	fill();
	world_settle();
	sql_runs("BEGIN IMMEDIATE");
	thread = start_change(change_mkdir, false);
	sem_post(&gate.go);
	look_around();
	sql_runs("COMMIT");
	pthread_join(thread, NULL);
	cr_assert_eq(looked_up("s/made"), 0);
}

/* What another program has changed is being taken in, and that takes long: the taker has stopped at
 * its commit.  Others go past, but for the keys that wait. */

enum { MANY = 300 };

static void sql_adds_files(const char *session, int count)
{
	char sql[512];

	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
		 "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "SELECT '%s', 'k' || i, 0, '1' FROM n",
		 count - 1, session);
	sql_runs(sql);
}

/* The taker is in the middle of it; then it is told to go on. */
static void begin_to_take(void)
{
	gate.behind = false;
	gate.armed = true;
	sql_adds_files("many", MANY);
	while (sem_wait(&gate.reached) != 0)
		;
}

static unsigned count_names(const char *path)
{
	const char *names = names_in(path);
	unsigned count = *names != '\0';

	for (; *names; names++)
		count += *names == ' ';
	return count;
}

SqliteStore(waits, nobody_waits_for_what_others_have_changed)
{
	fill();
	world_settle();
	begin_to_take();
	look_around();
	sem_post(&gate.go);
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	cr_assert_eq(count_names("many"), MANY);
}

/* While another program locks the store, a list of names is what was taken in last. */
SqliteStore(waits, a_session_is_listed_whose_changes_cannot_be_taken_in)
{
	fill();
	make_dir("many");
	save("many/d.json", "[1]");
	world_settle();
	begin_to_take();
	cr_expect_str_eq(names_in("many"), "d.json");
	sem_post(&gate.go);
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	cr_assert_eq(count_names("many"), MANY + 1);
}

static void write_elsewhere(void)
{
	append("s/a.jsonl", "3\n");
	save("s/d.json", "[2]");
	make_dir("s/made");
	cr_assert_eq(renamed("s/new.json", "s/newer.json", 0), 0);
	cr_assert_eq(unlinked("s/plain.txt"), 0);
}

/* Writers wait for the transaction of the taker, and for none of the others. */
SqliteStore(waits, writers_go_past_what_others_have_changed)
{
	fill();
	world_settle();
	begin_to_take();
	world_tree->taker.late = true;
	sem_post(&gate.go);
	write_elsewhere();
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	cr_assert_eq(count_names("many"), MANY);
	cr_assert_str_eq(content_of("s/a.jsonl"), "1\n2\n3\n");
	cr_assert_str_eq(rows_of("s", "d"), "0=[2]");
}

/* Nor is it read meanwhile, when requests go past what others have changed. */
SqliteStore(waits, no_view_is_of_a_file_that_the_store_shows_and_memory_does_not)
{
	struct view view = { 0 };
	struct inode *inode;

	fill();
	world_settle();
	inode = inode_at("s/a.jsonl");
	begin_to_take();
	world_tree->taker.late = true;
	inode->unapplied = true;
	cr_expect_eq(inode_view_begin(world_tree, inode, &view), -ESTALE);
	inode->unapplied = false;
	cr_expect_eq(inode_view_begin(world_tree, inode, &view), 0);
	cr_expect(view.past);
	view_end(&view);
	sem_post(&gate.go);
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	forget(inode);
}

/* A directory goes with all that is to come into it. */
SqliteStore(waits, a_session_is_renamed_with_what_waits_for_it)
{
	fill();
	world_settle();
	gate.behind = false;
	gate.armed = true;
	sql_adds_files("s", MANY);
	while (sem_wait(&gate.reached) != 0)
		;
	world_tree->taker.late = true;
	sem_post(&gate.go);
	cr_assert_eq(renamed("s", "t", 0), 0);
	cr_assert_eq(world_tree->take_in(world_tree), 0);
	cr_assert_eq(looked_up("s"), -ENOENT);
	cr_assert_eq(looked_up("t/k299.json"), 0);
	make_dir("s");
}

static void read_many(void)
{
	sem_post(&reader.begun);
	cr_assert_str_eq(content_of(reader.path), reader.text);
}

/* Who uses a key that waits is told of it as it is now. */
static void wait_for_key(const char *path, const char *text)
{
	pthread_t reading;

	reader.path = path;
	reader.text = text;
	sem_init(&reader.begun, 0, 0);
	reading = start(read_many);
	while (sem_wait(&reader.begun) != 0)
		;
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	sem_post(&gate.go);
	pthread_join(reading, NULL);
	cr_assert_eq(world_tree->take_in(world_tree), 0);
}

SqliteStore(waits, a_key_that_waits_is_taken_in_first)
{
	sql_adds_files("many", MANY);
	cr_assert_eq(count_names("many"), MANY);
	gate.behind = false;
	gate.armed = true;
	sql_runs("UPDATE agentscope_sessions SET state_data = '2'");
	while (sem_wait(&gate.reached) != 0)
		;
	wait_for_key("many/k299.json", "2");
}

SqliteStore(waits, a_name_that_waits_is_taken_in_first)
{
	begin_to_take();
	wait_for_key("many/k299.json", "1");
}

/* A SQL client that has changed something holds the store's lock in its next transaction. */
SqliteStore(waits, nobody_waits_for_a_sql_client_that_has_changed_something)
{
	fill();
	world_settle();
	sql_adds_files("t", 1);
	sql_runs("BEGIN IMMEDIATE");
	look_around();
	sql_runs("COMMIT");
	cr_assert_str_eq(content_of("t/k0.json"), "1");
}

/* Other mounts would wait for what another program changes. */
SqliteStore(waits, who_has_the_turn_of_the_store_waits_for_nothing)
{
	struct handle *handle;

	save("s/l.jsonl", "1\n");
	handle = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	foreign = 8;
	append_to(handle, "2\n");
	cr_expect_eq(foreign, 0);
	close_handle(handle);
	cr_expect_gt(turns, 0);
	cr_expect_eq(waits_with_turn, 0);
	cr_expect_str_eq(rows_of("s", "l"), "0=1         1=2");
}

/* It is for one step, and not for all that waits. */
SqliteStore(waits, who_takes_in_what_others_have_changed_has_the_turn_for_a_moment)
{
	world_tree->stopping = true;
	taker_stop(world_tree);
	world_tree->stopping = false;
	sql_adds_files("many", MANY);
	late = 1;
	cr_assert_eq(tree_reconcile(world_tree), 0);
	cr_expect_eq(turns, 1);
	cr_expect_eq(commits_in_turn, 1, "%u", commits_in_turn);
	cr_expect_eq(count_names("many"), MANY);
}

/* Each round of the taker takes so long that it is late; and one has always begun when it is
 * asked. */
static void *take_slowly(void *arg)
{
	const struct timespec round = { .tv_sec = 1, .tv_nsec = 500000000L };
	struct tree *tree = arg;
	uint64_t asked;

	while (!tree->stopping) {
		taker_asked(tree, &asked);
		nanosleep(&round, NULL);
		taker_has(tree, asked, 0);
	}
	return NULL;
}

SqliteStore(waits, a_taker_that_gets_on_slowly_is_not_stuck)
{
	struct catching_up up = { .applied = world_tree->applying.done };

	world_tree->stopping = true;
	taker_stop(world_tree);
	world_tree->stopping = false;
	cr_assert_eq(taker_start(world_tree, take_slowly), 0);
	while (!up.tries)
		cr_assert_eq(tree_catch_up(world_tree, &up), 0);
	cr_expect_eq(up.tries, 1);
	tree_caught_up(world_tree, &up);
}

static void go_on_when_turned(void)
{
	while (sem_wait(&turned) != 0)
		;
	sem_post(&gate.go);
}

/* What the taker is late with is no longer in the way then. */
Test(waits, who_is_held_up_by_another_mount_beside_a_late_taker_takes_the_turn)
{
	struct backend *joined;
	pthread_t helper;

	world_shared = true;
	world_open(WORLD_SQLITE);
	make_dir("s");
	save("s/d.json", "1");
	joined = world_join();
	begin_to_take();
	helper = start(go_on_when_turned);
	neighbour = joined;
	cr_expect_str_eq(content_of("s/d.json"), "1");
	neighbour = NULL;
	pthread_join(helper, NULL);
	backend_close(joined);
	world_close();
}
