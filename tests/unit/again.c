/* SPDX-License-Identifier: MIT */

/* Opening a state file by its name as the kernel does it: with ESTALE it looks the name up again,
 * asks and opens once more, and after a second ESTALE the program gets that error.  Between any two
 * of these steps, however long they take, other programs write or replace the file. */

#include "fs/content/content.h"
#include "fs/kernel/ops.h"
#include "tests/unit/fuse.h"
#include "tests/unit/world.h"

static const char *const path = "s/x.json";

static pid_t opener; /* a thread of another process; 0: it cannot be seen */

static struct session session = { .files_lock = PTHREAD_MUTEX_INITIALIZER };
static int error;
static struct fuse_file_info opened;

static void keep_error(fuse_req_t req, int err)
{
	(void)req;
	error = -err;
}

static void keep_opened(fuse_req_t req, const struct fuse_file_info *fi)
{
	(void)req;
	error = 0;
	opened = *fi;
}

static int has_none(void *arg, pid_t pid, uint64_t nodeid, unsigned access)
{
	(void)arg, (void)pid, (void)nodeid, (void)access;
	return 0;
}

static void begin(pid_t pid)
{
	opener = pid;
	fuse_stand_in = (struct fuse_stand_in){
		.session = &session,
		.pid = opener,
		.unseen = !opener,
		.error = keep_error,
		.opened = keep_opened,
	};
	session.tree = world_tree;
	world_tree->options.has_open = has_none;
}

/* What other programs do. */

static struct handle *writer; /* in the middle of a save */
static size_t version_size;

static const char *next_version(void)
{
	static struct buf text;
	static unsigned number;

	buf_clear(&text);
	cr_assert_eq(buf_printf(&text, "[%u]%*s.", ++number, (int)version_size, ""), 0);
	return text.data;
}

static void do_nothing(void)
{
}

static void do_replace(void)
{
	save("s/other", next_version());
	cr_assert_eq(renamed("s/other", path, 0), 0);
}

static void do_save(void)
{
	save(path, next_version());
}

static void do_begin_or_end(void)
{
	if (writer) {
		write_at(writer, 3, BYTES("."));
		close_handle(writer);
		writer = NULL;
	} else {
		writer = open_at(path, O_WRONLY | O_TRUNC);
		write_at(writer, 0, BYTES("[0]"));
	}
}

static void (*const acts[])(void) = { do_nothing, do_replace, do_save, do_begin_or_end };

/* The kernel, which remembers where the name led. */

enum { BEFORE_ALL, BEFORE_LOOKUP, BEFORE_QUESTION, BEFORE_OPEN, POINTS };

/* What the thread does by the name; -1: truncate(2). */
static const int flags_of[] = { O_RDONLY, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND, O_RDWR, -1 };

struct opening {
	unsigned act[POINTS];
	int flags;
	bool asks; /* for attributes before */
};

static uint64_t nodeid;

static void forget_name(void)
{
	tree_forget(world_tree, tree_inode(world_tree, nodeid), nodeid, 1);
}

static void look_up(void)
{
	struct inode *dir = inode_at("s"), *inode;
	struct shown shown;
	int r = tree_lookup_by(world_tree, dir, BYTES("x.json"), opener, &inode);

	cr_assert_eq(r, 0);
	tree_found(world_tree, opener, inode);
	cr_assert_eq(tree_enter(world_tree, inode, FACE_ANY, opener, &shown), 0);
	inode_hold(inode, shown.nodeid);
	nodeid = shown.nodeid;
	forget(dir);
}

static void ask(void)
{
	struct stat st;
	bool own;

	error = tree_stat_face(world_tree, tree_inode(world_tree, nodeid), nodeid_face(nodeid),
			       opener, &st, &own);
}

static void open_it(int flags)
{
	struct fuse_file_info fi = { .flags = flags };

	error = 1;
	op_open(NULL, nodeid, &fi);
}

static void cut(void)
{
	const struct stat st = { .st_size = 0 };
	const struct set_attr set = {
		.face = nodeid_face(nodeid),
		.pid = opener,
		.st = &st,
		.mask = TREE_SET_SIZE,
	};
	struct stat now;
	bool own;

	error = tree_set_attr(world_tree, tree_inode(world_tree, nodeid), &set, &now, &own);
}

static void try_open_by(const struct opening *opening, bool again)
{
	if (again)
		acts[opening->act[BEFORE_QUESTION]]();
	error = 0;
	if (opening->asks)
		ask();
	if (again)
		acts[opening->act[BEFORE_OPEN]]();
	if (error == 0 && opening->flags >= 0)
		open_it(opening->flags);
	else if (error == 0)
		cut();
}

static void open_by_name(const struct opening *opening)
{
	acts[opening->act[BEFORE_ALL]]();
	try_open_by(opening, false);
	if (error != -ESTALE)
		return;
	acts[opening->act[BEFORE_LOOKUP]]();
	forget_name();
	look_up();
	/* The kernel looks up once more when that was not what it remembered. */
	forget_name();
	look_up();
	try_open_by(opening, true);
}

static void expect_version(const struct opening *opening, struct handle *handle)
{
	const char *text = read_by(handle);
	size_t size = strlen(text);

	cr_expect(size > 3 && text[0] == '[' && text[size - 1] == '.', "%u %u %u %u, asks %d: %.9s",
		  opening->act[0], opening->act[1], opening->act[2], opening->act[3], opening->asks,
		  text);
}

static void is_opened(const struct opening *opening)
{
	const unsigned *act = opening->act;
	struct open_file *file;

	begin(1);
	save(path, next_version());
	look_up();
	open_by_name(opening);
	cr_assert_eq(error, 0, "%u %u %u %u, flags %d, asks %d: %s", act[0], act[1], act[2], act[3],
		     opening->flags, opening->asks, strerror(-error));
	if (opening->flags >= 0) {
		file = request_file(&opened);
		if (opening->flags == O_RDONLY)
			expect_version(opening, file->handle);
		handle_free(world_tree, open_file_free(&session, file));
	}
	forget_name();
	if (writer)
		do_begin_or_end();
}

/* With the first ones of acts and of flags_of. */
static void in_all_orders(unsigned count, unsigned ways)
{
	unsigned orders = 1;

	for (unsigned i = 0; i < POINTS; i++)
		orders *= count;
	for (unsigned order = 0; order < 2 * ways * orders; order++) {
		struct opening opening = {
			.asks = order / orders % 2,
			.flags = flags_of[order / orders / 2],
		};

		for (unsigned i = 0, rest = order % orders; i < POINTS; i++, rest /= count)
			opening.act[i] = rest % count;
		is_opened(&opening);
	}
}

EveryStore(again, a_name_is_opened_in_all_orders)
{
	in_all_orders(ARRAY_SIZE(acts), ARRAY_SIZE(flags_of));
}

/* A file that is not kept in memory. */
EveryStore(again, a_name_of_a_large_file_is_opened_in_all_orders)
{
	version_size = CONTENT_CACHED;
	in_all_orders(2, 1);
}

/* It has the size and the pages of another version. */
EveryStore(again, a_face_to_which_a_thread_was_not_led_is_not_opened_in_place_of_another)
{
	struct handle *other;
	uint64_t led;

	begin(1);
	save(path, next_version());
	look_up();
	do_begin_or_end();
	open_it(O_RDONLY);
	cr_assert_eq(error, -ESTALE);
	forget_name();
	look_up();
	led = nodeid;
	other = open_at(path, O_WRONLY | O_TRUNC);
	cr_assert_neq(handle_nodeid(other), led);
	nodeid = handle_nodeid(other);
	open_it(O_RDONLY);
	cr_expect_eq(error, -ESTALE);
	write_at(other, 0, BYTES("[]"));
	close_handle(other);
	do_begin_or_end();
	nodeid = led;
	forget_name();
}

static uint64_t size_shown(void)
{
	struct stat st;
	bool own;

	cr_assert_eq(tree_stat_face(world_tree, tree_inode(world_tree, nodeid), nodeid_face(nodeid),
				    opener, &st, &own),
		     0);
	return (uint64_t)st.st_size;
}

static void look_up_in_vain(void)
{
	cr_assert_eq(renamed(path, "s/away", 0), 0);
	tree_found(world_tree, opener, NULL);
	cr_assert_eq(renamed("s/away", path, 0), 0);
}

/* The second try has ended without an open: the name was gone, or the user may not open the file.
 * Then the thread comes to the same face, since another thread has looked the name up. */
EveryStore(again, a_writers_face_is_no_readers_because_it_came_there_before)
{
	struct open_file *file;

	for (int gone = 0; gone <= 1; gone++) {
		uint64_t writers;

		begin(1);
		save(path, "[1].");
		look_up();
		writers = nodeid;
		do_begin_or_end();
		open_it(O_RDONLY);
		cr_assert_eq(error, -ESTALE);
		if (gone) {
			look_up_in_vain();
		} else {
			look_up();
			forget_name();
		}
		nodeid = writers;
		open_it(O_RDONLY);
		cr_assert_eq(error, -ESTALE, "gone %d", gone);
		forget_name();
		look_up();
		open_it(O_RDONLY);
		cr_assert_eq(error, 0, "gone %d", gone);
		file = request_file(&opened);
		cr_expect_eq(size_shown(), 4, "gone %d", gone);
		cr_expect_str_eq(read_by(file->handle), "[1].");
		handle_free(world_tree, open_file_free(&session, file));
		do_begin_or_end();
		forget_name();
	}
}

/* The kernel gives up what it was told, and goes on with what it has told another thread. */
EveryStore(again, a_face_that_the_kernel_has_forgotten_is_not_the_one_a_thread_was_led_to)
{
	struct handle *other;

	begin(1);
	save(path, next_version());
	look_up();
	do_begin_or_end();
	open_it(O_RDONLY);
	cr_assert_eq(error, -ESTALE);
	do_replace();
	forget_name();
	look_up();
	forget_name();
	other = open_at(path, O_WRONLY | O_TRUNC);
	cr_assert_eq(handle_nodeid(other), nodeid);
	write_at(other, 0, BYTES("[]"));
	open_it(O_RDONLY);
	cr_expect_eq(error, -ESTALE);
	close_handle(other);
	do_begin_or_end();
}

/* Twice the file is replaced between the look-up and the open. */
static void open_what_is_replaced(pid_t pid)
{
	begin(pid);
	version_size = CONTENT_CACHED;
	save(path, next_version());
	look_up();
	do_replace();
	open_it(O_RDONLY);
	cr_expect_eq(error, -ESTALE);
	forget_name();
	look_up();
	do_replace();
	open_it(O_RDONLY);
	cr_assert_eq(error, 0);
}

EveryStore(again, a_first_try_of_a_thread_that_cannot_be_seen_opens_nothing_in_place_of_another)
{
	open_what_is_replaced(0);
	handle_free(world_tree, open_file_free(&session, request_file(&opened)));
	forget_name();
}

EveryStore(again, a_large_file_to_which_a_thread_was_led_is_kept_for_it)
{
	struct open_file *file;

	open_what_is_replaced(1);
	file = request_file(&opened);
	cr_expect_eq(inode_number(handle_opened(file->handle)), nodeid);
	cr_expect_eq(strlen(read_by(file->handle)), version_size + strlen("[1]."));
	handle_free(world_tree, open_file_free(&session, file));
	forget_name();
}
