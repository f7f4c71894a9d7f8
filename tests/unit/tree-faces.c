/* SPDX-License-Identifier: MIT */

/* The faces of a file: who opens what, what each one shows, and what the kernel is told. */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "fs/content/content.h"
#include "fs/inode/reader-snapshot.h"
#include "fs/tree/tree.h"
#include "fs/write/handle.h"
#include "tests/unit/clock.h"
#include "tests/unit/until.h"
#include "backend/sqlite/store/store.h"
#include "tests/unit/world.h"

/* Threads of other processes; the numbers only have to differ. */
enum { READER = 1, SECOND = 2, THIRD = 3 };

/* ---- what the kernel is told ---- */

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static struct buf said;

/* Looks at the tree while it is told, when it is the kernel that does. */
static struct inode *watched;
static unsigned watched_face;

/* Reads past the page cache at that moment. */
static struct handle *watching;

/* What is shown at this moment to who asks by the face that is watched. */
static void say_size(void)
{
	_cleanup_(buf_done) struct buf bytes = { 0 };
	struct stat st;
	bool own;

	if (!watched)
		return;
	cr_assert_eq(tree_stat_face(world_tree, watched, watched_face, 0, &st, &own), 0);
	cr_assert_eq(buf_printf(&said, "(%lld) ", (long long)st.st_size), 0);
	if (!watching)
		return;
	cr_assert_eq(handle_read(world_tree, watching, 1, 100, &bytes), 0);
	cr_expect_eq(bytes.size + 1, (size_t)st.st_size, "it reads %zu", bytes.size + 1);
}

/* A reader that comes while the kernel has old pages of a face is led elsewhere. */
static struct inode *probed;

static void say_probe(uint64_t nodeid)
{
	struct handle *handle;
	int r;

	if (!probed)
		return;
	r = tree_open_file(world_tree, probed, nodeid_face(nodeid), O_RDONLY, SECOND, &handle);
	if (r == 0)
		handle_free(world_tree, handle);
	cr_assert_eq(buf_printf(&said, "(%s) ", r == -ESTALE ? "led" : "opened"), 0);
}

/* What it answers to that, and what happens meanwhile, once. */
static bool kernel_knows = true;
static void (*meanwhile)(void);

static bool say_forget(void *arg, uint64_t nodeid, int64_t offset)
{
	(void)arg;
	pthread_mutex_lock(&said_lock);
	cr_assert_eq(buf_printf(&said, "forget %llu.%u@%lld ",
				(unsigned long long)nodeid_ino(nodeid), nodeid_face(nodeid),
				(long long)offset),
		     0);
	say_probe(nodeid);
	say_size();
	pthread_mutex_unlock(&said_lock);
	if (meanwhile) {
		void (*happens)(void) = meanwhile;

		meanwhile = NULL;
		happens();
	}
	return kernel_knows;
}

static void say_grown(void *arg, uint64_t nodeid, uint64_t size, char last)
{
	(void)arg;
	pthread_mutex_lock(&said_lock);
	cr_assert_eq(buf_printf(&said, "grown %llu.%u=%llu,%d ",
				(unsigned long long)nodeid_ino(nodeid), nodeid_face(nodeid),
				(unsigned long long)size, last),
		     0);
	say_size();
	pthread_mutex_unlock(&said_lock);
}

static void say_entry(void *arg, uint64_t parent, struct bytes name, bool same)
{
	(void)same;
	(void)arg;
	(void)parent;
	pthread_mutex_lock(&said_lock);
	cr_assert_eq(buf_printf(&said, "entry %.*s ", (int)name.size, name.data), 0);
	pthread_mutex_unlock(&said_lock);
}

/* Of which it has forgotten one, and is about to say so. */
static unsigned forgotten_face = FACE_ANY;

static bool says_it_holds(void *arg, uint64_t nodeid)
{
	(void)arg;
	return nodeid_face(nodeid) != forgotten_face;
}

/* at_once 0: all is told by the tree's own thread. */
static void watch(unsigned at_once)
{
	const struct tree_watcher watcher = {
		.forget = say_forget,
		.grown = say_grown,
		.entry = say_entry,
		.holds = says_it_holds,
		.at_once = at_once,
		.arg = &said,
	};

	tree_set_watcher(world_tree, &watcher);
}

static void wait_until_notified(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (tree_is_notifying(world_tree))
		nanosleep(&moment, NULL);
}

static bool anything_said(void)
{
	bool any;

	pthread_mutex_lock(&said_lock);
	any = said.size;
	pthread_mutex_unlock(&said_lock);
	return any;
}

/* What was told of an inode since the last call; "%" stands for its number. */
static const char *told(struct inode *inode)
{
	static char text[1024];
	char number[32];
	size_t used = 0, length;

	wait_until_notified();
	length = (size_t)snprintf(number, sizeof(number), " %llu.",
				  (unsigned long long)inode_number(inode));
	pthread_mutex_lock(&said_lock);
	for (size_t i = 0; i < said.size && used < sizeof(text) - 1; i++) {
		if (said.size - i > length && memcmp(said.data + i, number, length) == 0) {
			text[used++] = ' ';
			i += length - 1;
			continue;
		}
		text[used++] = said.data[i];
	}
	buf_clear(&said);
	pthread_mutex_unlock(&said_lock);
	while (used && text[used - 1] == ' ')
		used--;
	text[used] = '\0';
	return text;
}

/* The same without names, which are told by another thread. */
static const char *told_of_bytes(struct inode *inode)
{
	static char text[1024];
	const char *from = told(inode);
	size_t used = 0;

	while (*from) {
		size_t name = strncmp(from, "entry ", 6) == 0 ? 6 + strcspn(from + 6, " ") : 0;

		from += name + (name && from[name] == ' ');
		if (!name)
			text[used++] = *from++;
	}
	while (used && text[used - 1] == ' ')
		used--;
	text[used] = '\0';
	return text;
}

static void stop_watching(void)
{
	const struct tree_watcher nobody = { 0 };

	watched = NULL;
	watching = NULL;
	tree_set_watcher(world_tree, &nobody);
	buf_done(&said);
}

/* ---- what the kernel does ---- */

static struct shown shown_to(struct inode *inode, pid_t pid)
{
	struct shown shown;
	int r = tree_enter(world_tree, inode, FACE_ANY, pid, &shown);

	cr_assert_eq(r, 0, "tree_enter: %s", strerror(-r));
	return shown;
}

static unsigned face_shown_to(struct inode *inode, pid_t pid)
{
	return nodeid_face(shown_to(inode, pid).nodeid);
}

static int try_face(struct inode *inode, unsigned face, int flags, pid_t pid,
		    struct handle **ret_handle)
{
	return tree_open_file(world_tree, inode, face, flags, pid, ret_handle);
}

/* As the kernel does it: when the face is not the right one, the name is looked up again. */
static struct handle *open_face(struct inode *inode, unsigned face, int flags, pid_t pid)
{
	struct handle *handle = NULL;
	int r = try_face(inode, face, flags, pid, &handle);

	if (r == -ESTALE)
		r = try_face(inode, face_shown_to(inode, pid), flags, pid, &handle);
	cr_assert_eq(r, 0, "opening face %u: %s", face, strerror(-r));
	return handle;
}

static unsigned face_of(const struct handle *handle)
{
	return nodeid_face(handle_nodeid(handle));
}

static void release(struct handle *handle)
{
	handle_free(world_tree, handle);
	wait_until_notified();
}

static long long size_by(struct inode *inode, unsigned face)
{
	struct stat st;
	bool own;

	cr_assert_eq(tree_stat_face(world_tree, inode, face, 0, &st, &own), 0);
	return st.st_size;
}

/* One request; by the page cache with fill. */
static const char *part_of(struct handle *handle, bool fill, uint64_t offset, size_t size)
{
	static char text[8][128];
	static unsigned next;
	_cleanup_(buf_done) struct buf out = { 0 };
	char *part = text[next++ % 8];
	int r = (fill ? handle_fill : handle_read)(world_tree, handle, offset, size, &out);

	cr_assert_eq(r, 0, "reading at %llu: %s", (unsigned long long)offset, strerror(-r));
	cr_assert_lt(out.size, 128);
	memcpy(part, out.data ? out.data : "", out.size);
	part[out.size] = '\0';
	return part;
}

static const char *fill(struct handle *handle, uint64_t offset, size_t size)
{
	return part_of(handle, true, offset, size);
}

static const char *direct(struct handle *handle, uint64_t offset, size_t size)
{
	return part_of(handle, false, offset, size);
}

/* ---- who opens what ---- */

static const char *const states[] = { "s/l.jsonl", "s/k.json", "s/h.hash" };

EveryStore(faces, lead_a_writer_away_from_a_reader)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *reader, *writer, *none;
		struct shown shown;
		struct inode *inode;

		save(states[i], "1");
		inode = inode_at(states[i]);
		shown = shown_to(inode, READER);
		cr_assert_eq(shown.nodeid, inode_number(inode));
		reader = open_face(inode, 0, O_RDONLY, READER);

		cr_expect_eq(try_face(inode, 0, O_WRONLY, getpid(), &none), -ESTALE, "%s",
			     states[i]);
		shown = shown_to(inode, getpid());
		cr_expect_eq(nodeid_face(shown.nodeid), 1, "%s", states[i]);
		cr_expect_eq(nodeid_ino(shown.nodeid), inode_number(inode));
		cr_expect_eq(shown.st.st_ino, inode_number(inode));
		writer = open_face(inode, 1, O_WRONLY, getpid());
		cr_expect_eq(face_of(writer), 1, "%s", states[i]);
		cr_expect_eq(face_of(reader), 0, "%s", states[i]);

		release(writer);
		release(reader);
		forget(inode);
	}
}

EveryStore(faces, lead_a_reader_away_from_a_writer)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *reader, *second, *writer, *none;
		struct inode *inode;

		save(states[i], "1");
		inode = inode_at(states[i]);
		writer = open_face(inode, 0, O_RDWR, getpid());

		cr_expect_eq(try_face(inode, 0, O_RDONLY, READER, &none), -ESTALE, "%s", states[i]);
		cr_expect_eq(face_shown_to(inode, READER), 1, "%s", states[i]);
		reader = open_face(inode, 1, O_RDONLY, READER);
		/* All readers may be together, but a writer is alone. */
		cr_expect_eq(face_shown_to(inode, SECOND), 1, "%s", states[i]);
		second = open_face(inode, 1, O_RDONLY, SECOND);
		release(second);
		cr_expect_eq(try_face(inode, 1, O_WRONLY, SECOND, &none), -ESTALE, "%s", states[i]);
		cr_expect_eq(face_shown_to(inode, SECOND), 2, "%s", states[i]);
		second = open_face(inode, 2, O_WRONLY, SECOND);

		release(second);
		release(writer);
		release(reader);
		forget(inode);
	}
}

EveryStore(faces, keep_the_place_of_a_thread_that_was_led)
{
	struct handle *reader, *writer, *none;
	struct inode *inode;

	save("s/l.jsonl", "1\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_assert_eq(try_face(inode, 0, O_WRONLY, getpid(), &none), -ESTALE);
	cr_assert_eq(face_shown_to(inode, getpid()), 1);

	/* A reader that comes in between does not take the writer's place. */
	cr_expect_eq(try_face(inode, 1, O_RDONLY, SECOND, &none), -ESTALE);
	cr_expect_eq(face_shown_to(inode, SECOND), 0);
	release(open_face(inode, 0, O_RDONLY, SECOND));
	writer = open_face(inode, 1, O_WRONLY, getpid());
	cr_expect_eq(face_of(writer), 1);

	release(writer);
	release(reader);
	forget(inode);
}

EveryStore(faces, serve_who_comes_to_the_wrong_one_twice)
{
	struct handle *reader, *writer, *none;
	struct inode *inode;

	save("s/l.jsonl", "1\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_assert_eq(try_face(inode, 0, O_WRONLY | O_APPEND, getpid(), &none), -ESTALE);

	/* Through /proc/self/fd no name is looked up. */
	writer = open_face(inode, 0, O_WRONLY | O_APPEND, getpid());
	cr_expect_eq(face_of(writer), 0);
	append_to(writer, "2\n");
	cr_expect_str_eq(fill(reader, 0, 100), "1\n2\n");

	release(writer);
	release(reader);
	forget(inode);
}

EveryStore(faces, of_a_writer_are_joined_by_who_opens_its_open_file)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *writer, *child, *reader, *none;
		struct inode *inode;

		save(states[i], "1");
		inode = inode_at(states[i]);
		writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
		write_at(writer, 0, BYTES("[1,"));
		cr_expect_eq(size_by(inode, 0), 3, "%s", states[i]);
		cr_expect_eq(face_shown_to(inode, READER), 1, "%s", states[i]);
		cr_expect_eq(size_by(inode, 1), 1, "%s", states[i]);

		/* No name was looked up in between. */
		cr_expect_eq(try_face(inode, 0, O_RDWR | O_APPEND, SECOND, &none), -ESTALE);
		cr_assert_eq(try_face(inode, 0, O_RDWR | O_APPEND, SECOND, &child), 0);
		cr_expect_str_eq(direct(child, 0, 9), "[1,", "%s", states[i]);
		cr_expect_str_eq(fill(child, 1, 9), "1,", "%s", states[i]);
		append_to(child, "2");
		release(child);
		reader = open_face(inode, 0, O_RDONLY, READER);
		cr_expect_str_eq(direct(reader, 0, 9), "1", "%s", states[i]);
		release(reader);
		write_at(writer, 4, BYTES("]"));
		cr_assert_eq(handle_flush(world_tree, writer, getpid()), 0);
		cr_expect_str_eq(content_of(states[i]), "[1,2]", "%s", states[i]);

		release(writer);
		forget(inode);
	}
}

/* A writer whose two handles hold back together what is not whole. */
static struct inode *begin_joined(const char *path, struct handle **ret_writer,
				  struct handle **ret_child)
{
	struct handle *none;
	struct inode *inode;

	save(path, "1");
	inode = inode_at(path);
	*ret_writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(*ret_writer, 0, BYTES("[1,"));
	cr_assert_eq(try_face(inode, 0, O_WRONLY | O_APPEND, getpid(), &none), -ESTALE);
	cr_assert_eq(try_face(inode, 0, O_WRONLY | O_APPEND, getpid(), ret_child), 0);
	append_to(*ret_child, "2");
	return inode;
}

static pid_t holding[2]; /* who has descriptors of the open file */

static int hold_it(void *arg, pid_t pid, uint64_t nodeid, unsigned access)
{
	(void)arg, (void)nodeid, (void)access;
	return pid == holding[0] || pid == holding[1];
}

EveryStore(faces, of_a_writer_show_no_size_to_who_looked_the_name_up_before)
{
	struct handle *writer;
	struct inode *inode;
	struct stat st;
	bool own;

	world_tree->options.has_open = hold_it;
	holding[0] = holding[1] = NOBODY;
	save("s/k.json", "1");
	inode = inode_at("s/k.json");
	cr_assert_eq(face_shown_to(inode, READER), 0);
	writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(writer, 0, BYTES("[1,"));

	/* The kernel would cut the writer's pages by the published size. */
	cr_expect_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), -ESTALE);
	cr_expect_eq(face_shown_to(inode, READER), 1);
	cr_expect_eq(shown_to(inode, READER).st.st_size, 1);

	/* By what the kernel remembers of the name.  A thread that comes again and has looked up
	 * nothing came by no name. */
	cr_expect_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), -ESTALE);
	cr_expect_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), 0);
	cr_expect_eq(st.st_size, 3);
	holding[0] = SECOND;
	cr_expect_eq(tree_stat_face(world_tree, inode, 0, SECOND, &st, &own), 0);
	cr_expect_eq(st.st_size, 3);
	cr_expect_eq(tree_stat_face(world_tree, inode, 0, getpid(), &st, &own), 0);
	cr_expect_eq(st.st_size, 3);
	release(writer);
	forget(inode);
}

/* It asks for attributes and opens nothing, however often, and by what the kernel remembers. */
EveryStore(faces, of_a_writer_show_no_size_to_a_thread_that_has_only_asked)
{
	struct handle *first, *second;
	struct inode *inode;
	struct stat st;
	bool own;

	world_tree->options.has_open = hold_it;
	holding[0] = holding[1] = NOBODY;
	save("s/k.json", "1");
	inode = inode_at("s/k.json");
	first = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(first, 0, BYTES("[1,"));
	cr_assert_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), -ESTALE);
	cr_assert_eq(face_shown_to(inode, READER), 1);
	cr_expect_eq(tree_stat_face(world_tree, inode, 1, READER, &st, &own), 0);
	cr_expect_eq(st.st_size, 1);
	/* Nothing waits for it any more. */
	again_end(world_tree, READER);
	for (struct led *led = inode->led; led; led = led->next)
		led->until = 0;
	second = open_face(inode, 1, O_WRONLY | O_TRUNC, SECOND);
	write_at(second, 0, BYTES("[2, 2"));
	cr_expect_eq(tree_stat_face(world_tree, inode, 1, READER, &st, &own), -ESTALE);
	release(second);
	release(first);
	forget(inode);
}

EveryStore(faces, of_a_writer_are_published_by_the_close_that_leaves_none)
{
	world_tree->options.has_open = hold_it;
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *writer, *child;
		struct inode *inode = begin_joined(states[i], &writer, &child);

		/* A child that has inherited one descriptor, too. */
		handle_opened_by(child, SECOND);
		cr_assert_eq(handle_write(world_tree, child, SECOND, 0, BYTES("3")), 1);
		holding[0] = getpid();
		holding[1] = SECOND;
		cr_assert_eq(handle_flush(world_tree, child, SECOND), 0);
		cr_assert_eq(handle_flush(world_tree, writer, getpid()), 0);
		cr_expect_str_eq(content_of(states[i]), "1", "%s", states[i]);
		holding[1] = NOBODY;
		cr_assert_eq(handle_flush(world_tree, writer, SECOND), 0);
		cr_expect_str_eq(content_of(states[i]), "1", "%s", states[i]);

		/* The kernel lets go of a handle some time after its close. */
		holding[0] = NOBODY;
		cr_assert_eq(handle_flush(world_tree, writer, getpid()), 0);
		cr_expect_str_eq(content_of(states[i]), "[1,23", "%s", states[i]);

		/* Somebody else has inherited a descriptor; a document that is whole is shown. */
		cr_assert_eq(handle_write(world_tree, child, READER, 0, BYTES("]")), 1);
		holding[0] = READER;
		cr_assert_eq(handle_flush(world_tree, writer, getpid()), 0);
		release(writer);
		cr_expect_str_eq(content_of(states[i]), i == 1 ? "[1,23]" : "[1,23", "%s",
				 states[i]);
		release(child);
		cr_expect_str_eq(content_of(states[i]), "[1,23]", "%s", states[i]);
		forget(inode);
	}
}

EveryStore(faces, that_were_ordinary_are_published_by_a_close)
{
	struct handle *writer;
	struct inode *inode;

	world_tree->options.has_open = hold_it;
	holding[0] = holding[1] = NOBODY;
	save("s/o.txt", "1");
	inode = inode_at("s/o.txt");
	writer = open_face(inode, 0, O_WRONLY | O_APPEND, getpid());
	cr_assert_eq(renamed("s/o.txt", "s/k.json", 0), 0);
	append_to(writer, "[");
	cr_expect_str_eq(content_of("s/k.json"), "1");
	cr_assert_eq(handle_flush(world_tree, writer, getpid()), 0);
	cr_expect_str_eq(content_of("s/k.json"), "1[");
	release(writer);
	forget(inode);
}

static void *release_it(void *handle)
{
	release(handle);
	return NULL;
}

EveryStore(faces, of_a_writer_that_are_let_go_at_once_publish_it)
{
	for (unsigned round = 0; round < 300; round++) {
		const char *path = states[round % ARRAY_SIZE(states)];
		struct handle *writer, *child;
		struct inode *inode = begin_joined(path, &writer, &child);
		pthread_t thread;

		cr_assert_eq(pthread_create(&thread, NULL, release_it, child), 0);
		release(writer);
		pthread_join(thread, NULL);
		cr_assert_str_eq(content_of(path), "[1,2", "round %u: %s", round, path);
		forget(inode);
	}
}

EveryStore(faces, of_a_writer_are_not_published_by_who_sets_the_size)
{
	const struct stat two = { .st_size = 2 };
	struct set_attr set = { .pid = getpid(), .st = &two, .mask = TREE_SET_SIZE };
	struct handle *writer;
	struct inode *inode;
	struct stat st;
	bool own;

	save("s/k.json", "1");
	inode = inode_at("s/k.json");
	writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(writer, 0, BYTES("23456"));
	cr_assert_eq(tree_set_attr(world_tree, inode, &set, &st, &own), -ESTALE);
	cr_assert_eq(tree_set_attr(world_tree, inode, &set, &st, &own), 0);
	cr_expect_eq(st.st_size, 2);
	cr_expect_str_eq(content_of("s/k.json"), "1");
	release(writer);
	cr_expect_str_eq(content_of("s/k.json"), "23");
	forget(inode);
}

EveryStore(faces, of_a_file_that_is_created_are_free_at_once)
{
	struct handle *reader, *writer;
	struct inode *inode;

	save("s/l.jsonl", "1\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	writer = open_face(inode, FACE_ANY, O_WRONLY | O_CREAT, getpid());
	cr_expect_eq(face_of(writer), 1);
	cr_expect_eq(face_shown_to(inode, SECOND), 1);

	release(writer);
	release(reader);
	forget(inode);
}

EveryStore(faces, of_an_ordinary_file_is_one)
{
	struct handle *reader, *writer;
	struct inode *inode;

	save("s/o.txt", "1\n");
	inode = inode_at("s/o.txt");
	reader = open_face(inode, 0, O_RDONLY, READER);
	writer = open_face(inode, 0, O_WRONLY, getpid());
	cr_expect_eq(face_of(writer), 0);

	release(writer);
	release(reader);
	forget(inode);
}

EveryStore(faces, are_left_by_who_sets_the_size_by_name)
{
	const struct stat two = { .st_size = 2 };
	struct set_attr set = { .pid = getpid(), .st = &two, .mask = TREE_SET_SIZE };
	struct handle *reader;
	struct inode *inode;
	struct stat st;
	bool own;

	save("s/l.jsonl", "1\n2\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 2), "1\n");

	/* The kernel would cut the reader's pages. */
	cr_expect_eq(tree_set_attr(world_tree, inode, &set, &st, &own), -ESTALE);
	set.face = face_shown_to(inode, getpid());
	cr_expect_eq(set.face, 1);
	cr_expect_eq(tree_set_attr(world_tree, inode, &set, &st, &own), 0);

	cr_expect_eq(st.st_size, 2);
	cr_expect_str_eq(rows_of("s", "l"), "0=1");
	cr_expect_str_eq(fill(reader, 2, 2), "2\n");
	release(reader);
	forget(inode);
}

/* ---- one version ---- */

static const char *const versions[][2] = {
	{ "s/l.jsonl", "[\"old\"]\n[\"old\"]\n" },
	{ "s/k.json", "[\"old\",\n \"older\"]\n" },
	{ "s/h.hash", "an old, long text" },
};

EveryStore(faces, show_a_direct_reader_one_version_to_its_end)
{
	tree_set_direct_mmap(world_tree, true);
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		const char *path = versions[i][0], *old = versions[i][1];
		struct handle *reader;

		save(path, old);
		reader = open_at(path, O_RDONLY);
		cr_assert(handle_is_direct(reader), "%s", path);
		cr_assert_eq(strncmp(direct(reader, 0, 4), old, 4), 0, "%s", path);
		save(path, "[1]");
		save(path, "[2]");

		cr_expect_str_eq(direct(reader, 4, 100), old + 4, "%s", path);
		cr_expect_eq(strncmp(direct(reader, 2, 3), old + 2, 3), 0, "%s", path);
		cr_expect_str_eq(direct(reader, strlen(old), 100), "", "%s", path);
		/* From its start on it is the newest. */
		cr_expect_str_eq(direct(reader, 0, 100), "[2]", "%s", path);
		save(path, "[33]");
		cr_expect_str_eq(direct(reader, 3, 100), "", "%s", path);
		cr_expect_str_eq(direct(reader, 0, 100), "[33]", "%s", path);
		release(reader);
	}
}

EveryStore(faces, let_a_direct_reader_at_the_end_see_what_comes)
{
	struct handle *reader;

	tree_set_direct_mmap(world_tree, true);
	save("s/l.jsonl", "1\n");
	reader = open_at("s/l.jsonl", O_RDONLY);
	cr_expect_str_eq(direct(reader, 0, 100), "1\n");
	/* In the middle: nobody has told it that the list ends here. */
	append("s/l.jsonl", "2\n");
	cr_expect_str_eq(direct(reader, 2, 100), "2\n");
	cr_expect_str_eq(direct(reader, 4, 100), "");

	append("s/l.jsonl", "3\n");
	cr_expect_str_eq(direct(reader, 4, 100), "3\n");
	cr_expect_str_eq(direct(reader, 6, 100), "");
	/* A save that replaces: who was told of the end goes on in the newest. */
	save("s/l.jsonl", "9\n8\n7\n6\n");
	cr_expect_str_eq(direct(reader, 6, 100), "6\n");
	release(reader);
}

EveryStore(faces, let_a_direct_reader_finish_the_version_and_go_on_with_the_newest)
{
	struct handle *reader;

	tree_set_direct_mmap(world_tree, true);
	save("s/l.jsonl", "1\n2\n");
	reader = open_at("s/l.jsonl", O_RDONLY);
	cr_expect_str_eq(direct(reader, 0, 2), "1\n");
	save("s/l.jsonl", "9\n8\n7\n6\n");
	cr_expect_str_eq(direct(reader, 2, 100), "2\n");
	cr_expect_str_eq(direct(reader, 4, 100), "");
	cr_expect_str_eq(direct(reader, 4, 100), "7\n6\n");
	release(reader);
}

/* ---- growing ---- */

EveryStore(faces, of_readers_are_told_of_an_append_before_they_see_its_size)
{
	struct handle *reader, *writer;

	watch(1);
	save("s/l.jsonl", "1\n");
	watched = inode_at("s/l.jsonl");
	reader = open_face(watched, 0, O_RDONLY, READER);
	writer = open_face(watched, FACE_ANY, O_WRONLY | O_APPEND, getpid());
	cr_assert_eq(face_of(writer), 1);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n");
	cr_expect_eq(face_shown_to(watched, SECOND), 1);
	told(watched);

	append_to(writer, "22\n");
	cr_expect_str_eq(told(watched), "forget 0@2 (2) grown 0=5,10 (5)");
	cr_expect_eq(size_by(watched, 0), 5);
	cr_expect_str_eq(fill(reader, 2, 100), "22\n");

	/* A piece is nobody's business, but its writer's. */
	append_to(writer, "3");
	cr_expect_str_eq(told(watched), "entry l.jsonl");
	cr_expect_eq(size_by(watched, 0), 5);
	cr_expect_eq(size_by(watched, 1), 6);
	cr_expect_eq(face_shown_to(watched, SECOND), 0);
	cr_assert_eq(handle_flush(world_tree, writer, getpid()), 0);
	cr_expect_str_eq(told(watched), "forget 0@5 (5) forget 1@-1 (5) grown 0=6,51 (6)");

	release(writer);
	release(reader);
	forget(watched);
	stop_watching();
}

EveryStore(faces, of_readers_give_no_bytes_before_they_show_their_size)
{
	struct handle *reader, *writer;

	watch(1);
	save("s/l.jsonl", "1\n");
	watched = inode_at("s/l.jsonl");
	watching = reader = open_face(watched, 0, O_RDONLY, READER);
	writer = open_face(watched, FACE_ANY, O_WRONLY | O_APPEND, getpid());
	cr_expect_str_eq(direct(reader, 0, 100), "1\n");
	told(watched);

	append_to(writer, "22\n");
	cr_expect_str_eq(told(watched), "forget 0@2 (2) grown 0=5,10 (5)");
	cr_expect_str_eq(direct(reader, 2, 100), "22\n");

	release(writer);
	release(reader);
	forget(watched);
	stop_watching();
}

/* Somebody asks by the name, which leads to the writer, for what he reads by a descriptor. */
EveryStore(faces, of_writers_show_no_size_that_readers_cannot_see_yet)
{
	struct handle *reader, *writer;

	watch(1);
	save("s/l.jsonl", "1\n");
	watched = inode_at("s/l.jsonl");
	watched_face = 1;
	reader = open_face(watched, 0, O_RDONLY, READER);
	writer = open_face(watched, FACE_ANY, O_WRONLY | O_APPEND, getpid());
	cr_assert_eq(face_of(writer), 1);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n");
	told(watched);

	append_to(writer, "22\n");
	cr_expect_str_eq(told(watched), "forget 0@2 (2) grown 0=5,10 (5)");
	cr_expect_eq(size_by(watched, 1), 5);

	release(writer);
	release(reader);
	forget(watched);
	watched_face = 0;
	stop_watching();
}

EveryStore(faces, of_readers_are_told_by_a_thread_of_the_tree_when_others_are_busy)
{
	struct handle *reader, *writer;

	watch(0);
	save("s/l.jsonl", "1\n");
	watched = inode_at("s/l.jsonl");
	reader = open_face(watched, 0, O_RDONLY, READER);
	writer = open_face(watched, FACE_ANY, O_WRONLY | O_APPEND, getpid());
	told(watched);

	append_to(writer, "22\n");
	append_to(writer, "3\n");
	wait_until_notified();
	cr_expect_str_eq(content_of("s/l.jsonl"), "1\n22\n3\n");
	cr_expect_eq(size_by(watched, 0), 7);
	cr_expect_not_null(strstr(told(watched), "grown 0=7,10 (7)"));

	release(writer);
	release(reader);
	forget(watched);
	stop_watching();
}

EveryStore(faces, that_nobody_reads_are_told_to_forget_all)
{
	struct handle *reader, *writer, *none;
	struct inode *inode;

	watch(1);
	save("s/l.jsonl", "1\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n");
	release(reader);
	told(inode);
	writer = open_face(inode, FACE_ANY, O_WRONLY | O_APPEND, getpid());
	cr_expect_eq(face_of(writer), 0);
	append_to(writer, "2\n");
	/* The kernel changed it by this face itself, but the pages are the reader's. */
	cr_expect_str_eq(told(inode), "forget 0@0");

	cr_expect_eq(try_face(inode, 0, O_RDONLY, READER, &none), -ESTALE);
	reader = open_face(inode, face_shown_to(inode, READER), O_RDONLY, READER);
	cr_expect_eq(face_of(reader), 1);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n2\n");
	release(reader);
	told(inode);
	probed = inode;
	append_to(writer, "3\n");
	cr_expect_str_eq(told(inode), "forget 1@0 (led)");
	probed = NULL;
	reader = open_face(inode, 1, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n2\n3\n");
	release(reader);

	release(writer);
	forget(inode);
	stop_watching();
}

SqliteStore(faces, of_readers_are_told_of_rows_of_other_programs)
{
	struct handle *reader, *other;

	save("s/l.jsonl", "1\n");
	watch(1);
	watched = inode_at("s/l.jsonl");
	reader = open_face(watched, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n");
	told(watched);

	sql_runs("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
		 "VALUES ('s', 'l', 1, '22')");
	UNTIL(size_by(watched, 0) == 5);
	cr_expect_str_eq(told(watched), "forget 0@2 (2) grown 0=5,10 (5)");
	cr_expect_str_eq(fill(reader, 2, 100), "22\n");

	/* A row that is another one now: who has pages of the file keeps its version. */
	sql_runs("UPDATE agentscope_sessions SET state_data = '333' WHERE item_index = 0");
	UNTIL(shown_to(watched, SECOND).st.st_size == 7);
	cr_expect_eq(size_by(watched, 0), 5);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n22\n");
	other = open_face(watched, face_shown_to(watched, SECOND), O_RDONLY, SECOND);
	cr_expect_str_eq(fill(other, 0, 100), "333\n22\n");

	release(other);
	release(reader);
	forget(watched);
	stop_watching();
}

/* ---- old faces ---- */

static void replace(const char *text)
{
	save("s/l.jsonl", text);
}

static void replace_by_rename(const char *text)
{
	save("s/l.tmp", text);
	cr_assert_eq(renamed("s/l.tmp", "s/l.jsonl", 0), 0);
}

static void truncate_by_name(const char *text)
{
	const struct stat size = { .st_size = (off_t)strlen(text) };
	struct set_attr set = { .pid = SECOND, .st = &size, .mask = TREE_SET_SIZE };
	struct inode *inode = inode_at("s/l.jsonl");
	struct stat st;
	bool own;

	cr_assert_eq(tree_set_attr(world_tree, inode, &set, &st, &own), -ESTALE);
	set.face = face_shown_to(inode, SECOND);
	cr_assert_eq(tree_set_attr(world_tree, inode, &set, &st, &own), 0);
	forget(inode);
}

EveryStore(faces, that_are_old_show_what_they_did_and_are_free_after_their_reader)
{
	struct handle *reader, *second, *none;
	struct inode *inode;

	watch(1);
	save("s/l.jsonl", "1\n2\n3\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 2), "1\n");
	told(inode);

	replace("9\n");

	/* Of the old face nothing is said, but its name leads elsewhere. */
	cr_expect_str_eq(told_of_bytes(inode), "forget 0@-1");
	cr_expect_eq(size_by(inode, 0), 6);
	cr_expect_str_eq(fill(reader, 2, 100), "2\n3\n");
	cr_expect_eq(try_face(inode, 0, O_RDONLY, SECOND, &none), -ESTALE);
	cr_expect_eq(face_shown_to(inode, SECOND), 1);
	second = open_face(inode, 1, O_RDONLY, SECOND);
	cr_expect_str_eq(fill(second, 0, 100), "9\n");
	cr_expect_eq(size_by(inode, 1), 2);
	cr_expect_eq(size_by(inode, 0), 6);
	release(second);

	told(inode);
	release(reader);
	cr_expect_str_eq(told(inode), "forget 0@0 entry l.jsonl");
	cr_expect_eq(size_by(inode, 0), 2);
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 100), "9\n");
	release(reader);
	forget(inode);
	stop_watching();
}

/* What the kernel does when a name leads to a face. */
static void look_up(struct inode *inode, pid_t pid, unsigned expected)
{
	uint64_t nodeid = shown_to(inode, pid).nodeid;

	cr_assert_eq(nodeid_face(nodeid), expected);
	inode_ref(world_tree, inode);
	inode_hold(inode, nodeid);
}

static void forget_face(struct inode *inode, unsigned face)
{
	tree_forget(world_tree, inode, inode_nodeid(inode, face), 1);
}

EveryStore(faces, that_somebody_watches_are_where_the_name_leads)
{
	for (unsigned pinned = 0; pinned < 2; pinned++) {
		struct handle *handle;
		struct inode *inode;

		save("s/l.jsonl", "1\n");
		inode = inode_at("s/l.jsonl");
		look_up(inode, getpid(), 0);
		handle = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
		write_at(handle, 0, BYTES("2\n"));
		look_up(inode, READER, 1);
		release(handle);

		/* The name leads nowhere any more, and the kernel forgets what nobody holds. */
		forget_face(inode, !pinned);
		look_up(inode, READER, pinned);
		for (unsigned i = 0; i < 3; i++) {
			handle = open_face(inode, pinned, O_WRONLY | O_APPEND, getpid());
			cr_expect_eq(face_of(handle), pinned);
			write_at(handle, (uint64_t)size_by(inode, pinned), BYTES("3\n"));
			release(handle);
		}
		/* The kernel may still take that one for as large as it was. */
		handle = open_face(inode, pinned, O_RDONLY, READER);
		cr_expect_str_eq(fill(handle, 0, 100), "2\n3\n3\n3\n");
		release(handle);
		look_up(inode, READER, pinned);
		forget_face(inode, pinned);
		forget_face(inode, pinned);
		forget_face(inode, pinned);
		forget(inode);
		cr_expect_str_eq(content_of("s/l.jsonl"), "2\n3\n3\n3\n");
	}
}

/* The kernel tells that it has forgotten a face a moment after its last file was closed. */
EveryStore(faces, that_the_kernel_is_forgetting_are_not_taken_for_watched)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *handle;
		struct inode *inode;

		watch(1);
		save(states[i], "1");
		inode = inode_at(states[i]);
		look_up(inode, getpid(), 0);
		handle = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
		write_at(handle, 0, BYTES("2"));
		/* A watch is set here. */
		look_up(inode, READER, 1);
		release(handle);

		forgotten_face = 0;
		for (unsigned saves = 0; saves < 3; saves++) {
			look_up(inode, SECOND, 1);
			handle = open_face(inode, 1, O_WRONLY | O_TRUNC, SECOND);
			cr_expect_eq(face_of(handle), 1, "%s, save %u", states[i], saves);
			write_at(handle, 0, BYTES("3"));
			release(handle);
		}
		forget_face(inode, 0);
		look_up(inode, SECOND, 1);

		forgotten_face = FACE_ANY;
		for (unsigned lookups = 0; lookups < 5; lookups++)
			forget_face(inode, 1);
		forget(inode);
		stop_watching();
	}
}

/* The kernel takes another nodeid than it knows for another file, and asks at once again. */
EveryStore(faces, that_are_watched_stay_where_the_name_leads_whatever_size_they_had)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *reader, *writer, *none;
		struct inode *inode;

		watch(1);
		save(states[i], "1");
		inode = inode_at(states[i]);
		/* By the name and by a watch. */
		look_up(inode, getpid(), 0);
		reader = open_face(inode, 0, O_RDONLY, READER);
		cr_assert_eq(try_face(inode, 0, O_WRONLY | O_TRUNC, getpid(), &none), -ESTALE);
		look_up(inode, getpid(), 1);
		writer = open_face(inode, 1, O_WRONLY | O_TRUNC, getpid());
		write_at(writer, 0, BYTES("2"));
		release(writer);
		release(reader);

		look_up(inode, getpid(), 0);
		forgotten_face = 1;
		look_up(inode, getpid(), 0);
		writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
		cr_expect_eq(face_of(writer), 0, "%s", states[i]);
		release(writer);
		look_up(inode, getpid(), 0);

		forgotten_face = FACE_ANY;
		forget_face(inode, 1);
		for (unsigned lookups = 0; lookups < 4; lookups++)
			forget_face(inode, 0);
		forget(inode);
		stop_watching();
	}
}

static void *release_soon(void *handle)
{
	handle_free(world_tree, handle);
	return NULL;
}

EveryStore(faces, that_were_closed_are_waited_for_when_the_name_is_looked_up)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *first, *second;
		struct inode *inode;
		pthread_t thread;

		save(states[i], "1");
		inode = inode_at(states[i]);
		look_up(inode, getpid(), 0);
		first = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
		write_at(first, 0, BYTES("2"));
		look_up(inode, getpid(), 1);
		release(first);
		forget_face(inode, 0);

		first = open_face(inode, 1, O_WRONLY | O_TRUNC, getpid());
		write_at(first, 0, BYTES("3"));
		cr_assert_eq(handle_flush(world_tree, first, getpid()), 0);
		cr_assert_eq(pthread_create(&thread, NULL, release_soon, first), 0);
		look_up(inode, SECOND, 1);
		second = open_face(inode, 1, O_WRONLY | O_TRUNC, SECOND);
		cr_expect_eq(face_of(second), 1, "%s", states[i]);
		pthread_join(thread, NULL);
		release(second);
		forget_face(inode, 1);
		forget_face(inode, 1);
		forget(inode);
	}
}

EveryStore(faces, that_were_closed_are_not_waited_for_twice)
{
	struct handle *first, *second;
	struct inode *inode;

	save("s/k.json", "1");
	inode = inode_at("s/k.json");
	look_up(inode, getpid(), 0);
	first = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(first, 0, BYTES("2"));
	cr_assert_eq(handle_flush(world_tree, first, getpid()), 0);

	/* Another process has a descriptor of it. */
	cr_expect(!first->outlives);
	second = open_face(inode, face_shown_to(inode, SECOND), O_WRONLY | O_TRUNC, SECOND);
	cr_expect_neq(face_of(second), 0);
	cr_expect(first->outlives);
	release(second);
	cr_assert_eq(handle_flush(world_tree, first, getpid()), 0);
	cr_expect(!first->outlives);
	release(first);
	forget_face(inode, 0);
	forget(inode);
}

static long long size_for(struct inode *inode, unsigned face, pid_t pid)
{
	struct stat st;
	bool own;

	cr_assert_eq(tree_stat_face(world_tree, inode, face, pid, &st, &own), 0);
	return st.st_size;
}

EveryStore(faces, that_are_old_show_a_reader_at_the_end_what_it_has_read_however_many_others_ask)
{
	struct handle *reader, *writer;
	struct inode *inode;

	save("s/k.json", "[1, 2]");
	inode = inode_at("s/k.json");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(direct(reader, 0, 100), "[1, 2]");
	cr_expect_str_eq(direct(reader, 6, 100), "");
	writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(writer, 0, BYTES("[3]"));
	release(writer);
	/* They have looked the name up before. */
	for (int i = 0; i < 20; i++) {
		cr_expect_eq(size_for(inode, 0, SECOND + i), 6);
		wait_until_notified();
	}
	/* Who reads maps what it has read. */
	cr_expect_eq(size_for(inode, 0, READER), 6);
	cr_expect_str_eq(fill(reader, 0, 100), "[1, 2]");
	release(reader);
	forget(inode);
}

EveryStore(faces, that_are_old_show_what_is_new_to_a_reader_at_the_end_that_goes_on_asking)
{
	struct handle *reader, *writer;
	struct inode *inode;

	save("s/k.json", "[1, 2]");
	inode = inode_at("s/k.json");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(direct(reader, 0, 100), "[1, 2]");
	cr_expect_str_eq(direct(reader, 6, 100), "");
	writer = open_face(inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(writer, 0, BYTES("[3]"));
	release(writer);
	for (int i = 0; i < 5; i++) {
		size_for(inode, 0, READER);
		wait_until_notified();
	}
	cr_expect_eq(size_for(inode, 0, READER), 3);
	release(reader);
	forget(inode);
}

static void ask(struct inode *inode, pid_t pid, int times)
{
	for (int i = 0; i < times; i++) {
		size_for(inode, 0, pid);
		wait_until_notified();
	}
}

static struct handle *read_out(struct inode *inode, pid_t pid)
{
	struct handle *reader = open_face(inode, 0, O_RDONLY, pid);

	cr_expect_str_eq(direct(reader, 0, 100), "[1, 2]");
	cr_expect_str_eq(direct(reader, 6, 100), "");
	return reader;
}

EveryStore(faces, that_are_old_show_a_reader_at_the_end_what_it_has_read_beside_one_that_asks)
{
	struct handle *reader, *asking;
	struct inode *inode;

	save("s/k.json", "[1, 2]");
	inode = inode_at("s/k.json");
	reader = read_out(inode, READER);
	asking = read_out(inode, SECOND);
	save("s/k.json", "[3]");
	ask(inode, SECOND, 20);
	cr_expect_eq(size_for(inode, 0, READER), 6);
	cr_expect_str_eq(fill(reader, 0, 100), "[1, 2]");
	/* It waits no longer than for that. */
	release(reader);
	cr_expect_eq(size_for(inode, 0, SECOND), 3);
	release(asking);
	forget(inode);
}

EveryStore(faces, that_are_old_show_what_is_new_to_two_readers_that_ask_by_turns)
{
	struct handle *reader, *second;
	struct inode *inode;

	save("s/k.json", "[1, 2]");
	inode = inode_at("s/k.json");
	reader = read_out(inode, READER);
	second = read_out(inode, SECOND);
	save("s/k.json", "[3]");
	for (int i = 0; i < 5; i++) {
		ask(inode, READER, 1);
		ask(inode, SECOND, 1);
	}
	cr_expect_eq(size_for(inode, 0, READER), 3);
	cr_expect_eq(size_for(inode, 0, SECOND), 3);
	release(second);
	release(reader);
	forget(inode);
}

EveryStore(faces, that_are_old_show_what_is_new_to_who_reads_by_an_inherited_descriptor)
{
	struct handle *reader;
	struct inode *inode;

	save("s/k.json", "[1, 2]");
	inode = inode_at("s/k.json");
	reader = open_face(inode, 0, O_RDONLY, READER);
	handle_read_by(reader, SECOND);
	cr_expect_str_eq(direct(reader, 0, 100), "[1, 2]");
	save("s/k.json", "[3]");
	ask(inode, READER, 20);
	cr_expect_eq(size_for(inode, 0, SECOND), 6);
	ask(inode, SECOND, 4);
	cr_expect_eq(size_for(inode, 0, SECOND), 3);
	release(reader);
	forget(inode);
}

EveryStore(faces, that_are_old_are_not_shown_when_the_file_is_ordinary_by_now)
{
	struct handle *reader, *writer;
	struct inode *inode;

	watch(1);
	save("s/l.jsonl", "1\n2\n3\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 2), "1\n");
	replace("9\n");
	cr_assert_eq(renamed("s/l.jsonl", "s/o.txt", 0), 0);

	cr_expect_eq(face_shown_to(inode, SECOND), 1);
	cr_expect_eq(try_face(inode, 0, O_WRONLY, SECOND, &writer), -ESTALE);
	writer = open_face(inode, face_shown_to(inode, SECOND), O_WRONLY, SECOND);
	write_at(writer, 2, BYTES("more\n"));
	cr_expect_eq(size_by(inode, face_shown_to(inode, READER)), 7);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n2\n3\n");

	release(writer);
	release(reader);
	cr_expect_eq(size_by(inode, 0), 7);
	forget(inode);
	stop_watching();
}

EveryStore(faces, of_several_versions_each_show_their_own)
{
	static const char *const texts[] = { "1\n", "22\n", "333\n", "4444\n" };
	struct handle *readers[ARRAY_SIZE(texts)];
	struct inode *inode;

	save("s/l.jsonl", texts[0]);
	inode = inode_at("s/l.jsonl");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (i)
			replace(texts[i]);
		readers[i] = open_face(inode, face_shown_to(inode, READER), O_RDONLY, READER);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		cr_expect_str_eq(fill(readers[i], 0, 100), texts[i]);
		cr_expect_eq(size_by(inode, face_of(readers[i])), (long long)strlen(texts[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		release(readers[i]);
	forget(inode);
}

EveryStore(faces, that_are_old_stay_so_however_the_content_is_replaced)
{
	void (*const ways[])(const char *text) = { replace, replace_by_rename, truncate_by_name };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct handle *reader;
		struct inode *inode;

		save("s/l.jsonl", "1\n2\n3\n");
		inode = inode_at("s/l.jsonl");
		reader = open_face(inode, face_shown_to(inode, READER), O_RDONLY, READER);
		cr_expect_str_eq(fill(reader, 0, 2), "1\n", "way %zu", i);

		ways[i]("1\n2\n");
		cr_expect_str_eq(fill(reader, 2, 100), "2\n3\n", "way %zu", i);
		cr_expect_eq(size_by(inode, face_of(reader)), 6, "way %zu", i);
		cr_expect_str_eq(content_of("s/l.jsonl"), "1\n2\n", "way %zu", i);
		release(reader);
		forget(inode);
	}
}

EveryStore(faces, of_readers_see_a_save_that_only_adds_as_an_append)
{
	struct handle *reader;

	watch(1);
	save("s/l.jsonl", "1\n");
	watched = inode_at("s/l.jsonl");
	reader = open_face(watched, 0, O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 100), "1\n");
	told(watched);

	replace("1\n2\n");

	cr_expect_str_eq(told_of_bytes(watched), "forget 0@2 (2) grown 0=4,10 (4)");
	cr_expect_str_eq(fill(reader, 2, 100), "2\n");
	release(reader);
	forget(watched);
	stop_watching();
}

/* ---- no room for a version ---- */

/* Files cannot grow from now on: nothing above 4 MiB can be copied. */
static void leave_no_room(void)
{
	const struct rlimit limit = { .rlim_cur = 1 << 16, .rlim_max = RLIM_INFINITY };

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A string of so many bytes, and a newline. */
static void large_text(struct buf *text, size_t size)
{
	cr_assert_eq(buf_append_byte(text, '"'), 0);
	while (text->size < size)
		cr_assert_eq(buf_append_str(text, "0123456789abcdef"), 0);
	cr_assert_eq(buf_append_str(text, "\"\n"), 0);
}

static void save_large(const char *path, const struct buf *text)
{
	struct handle *handle = open_at(path, O_WRONLY | O_CREAT | O_TRUNC);

	for (size_t at = 0; at < text->size; at += 1 << 20)
		write_at(handle, at, bytes_make(text->data + at, MIN(1u << 20, text->size - at)));
	close_handle(handle);
}

/* In the memory store, which needs no room on a disk itself. */
Test(faces, without_room_show_large_content_all_the_same)
{
	static const char *const paths[] = { "s/k.json", "s/l.jsonl" };
	_cleanup_(buf_done) struct buf text = { 0 };

	world_open(WORLD_MEMORY);
	make_dir("s");
	tree_set_direct_mmap(world_tree, true);
	large_text(&text, 9 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		save_large(paths[i], &text);
	leave_no_room();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (size_t at = 0; at < text.size; at += 1 << 20) {
			struct handle *handle = open_at(paths[i], O_RDONLY);
			_cleanup_(buf_done) struct buf out = { 0 };
			int r = handle_read(world_tree, handle, at, 4096, &out);

			cr_assert_eq(r, 0, "%s at %zu: %s", paths[i], at, strerror(-r));
			cr_expect(bytes_equal(buf_bytes(&out),
					      bytes_make(text.data + at,
							 MIN(4096u, text.size - at))));
			handle_free(world_tree, handle);
		}
	world_close();
}

Test(faces, without_room_let_a_save_through_and_its_readers_go_on_with_the_new_content)
{
	static const char *const paths[] = { "s/k.json", "s/l.jsonl" };
	_cleanup_(buf_done) struct buf text = { 0 };

	world_open(WORLD_MEMORY);
	make_dir("s");
	large_text(&text, 9 << 20);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		save_large(paths[i], &text);
	leave_no_room();

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct inode *inode = inode_at(paths[i]);
		struct handle *reader = open_face(inode, 0, O_RDONLY, READER);

		cr_expect_str_eq(fill(reader, 0, 4), "\"012", "%s", paths[i]);
		cr_expect_str_eq(direct(reader, 0, 4), "\"012", "%s", paths[i]);
		save(paths[i], "[\"new\"]\n");
		cr_expect_str_eq(content_of(paths[i]), "[\"new\"]\n", "%s", paths[i]);
		cr_expect_str_eq(fill(reader, 4, 100), "w\"]\n", "%s", paths[i]);
		cr_expect_str_eq(direct(reader, 4, 100), "w\"]\n", "%s", paths[i]);
		cr_expect_eq(size_by(inode, 0), 8, "%s", paths[i]);
		release(reader);
		forget(inode);
	}
	world_close();
}

/* ---- attributes ---- */

enum attr_change { CHMOD, UTIMES, CHOWN, SETXATTR, REMOVEXATTR, UNLINK, RENAME_OVER, ATTR_CHANGES };

static const char *const attr_names[] = {
	"chmod", "utimes", "chown", "setxattr", "removexattr", "unlink", "rename over it",
};

static void change_attr(enum attr_change change, struct inode *inode)
{
	static const unsigned masks[] = { TREE_SET_MODE, TREE_SET_MTIME, TREE_SET_UID };
	const struct stat st = { .st_mode = 0600, .st_uid = 7, .st_mtim = { 1000, 0 } };
	const struct set_attr set = { .pid = SECOND, .st = &st, .mask = masks[change % 3] };
	struct stat now;
	bool own;

	if (change <= CHOWN)
		cr_assert_eq(tree_set_attr(world_tree, inode, &set, &now, &own), 0);
	else if (change == SETXATTR)
		cr_assert_eq(tree_set_xattr(world_tree, inode, BYTES("user.a"), BYTES("x"), 0), 0);
	else if (change == REMOVEXATTR)
		cr_assert_eq(tree_remove_xattr(world_tree, inode, BYTES("user.a")), 0);
	else if (change == UNLINK)
		cr_assert_eq(unlinked("s/l.jsonl"), 0);
	else
		cr_assert_eq(renamed("s/l.tmp", "s/l.jsonl", 0), 0);
}

/* The kernel does it by face 0; who has another one open shall see it, too. */
EveryStore(faces, are_all_told_when_attributes_change)
{
	for (unsigned i = 0; i < ATTR_CHANGES; i++) {
		struct handle *reader, *writer;
		struct inode *inode;

		watch(1);
		save("s/l.tmp", "2\n");
		save("s/l.jsonl", "1\n");
		inode = inode_at("s/l.jsonl");
		cr_assert_eq(tree_set_xattr(world_tree, inode, BYTES("user.a"), BYTES("y"), 0), 0);
		writer = open_face(inode, 0, O_WRONLY | O_APPEND, getpid());
		reader = open_face(inode, FACE_ANY, O_RDONLY, READER);
		cr_assert_eq(face_of(reader), 1);
		cr_assert_eq(size_by(inode, 1), 2);
		told(inode);

		change_attr((enum attr_change)i, inode);

		cr_expect_not_null(strstr(told(inode), "forget 1@-1"), "%s", attr_names[i]);
		release(writer);
		release(reader);
		forget(inode);
		stop_watching();
		if (looked_up("s/l.jsonl") == 0)
			cr_assert_eq(unlinked("s/l.jsonl"), 0);
		world_settle();
	}
	if (looked_up("s/l.tmp") == 0)
		cr_assert_eq(unlinked("s/l.tmp"), 0);
}

/* s/l.jsonl, of which the kernel has pages and a size; at_once: as watch(). */
static struct inode *left_by_a_reader(unsigned at_once)
{
	struct handle *reader;
	struct inode *inode;

	watch(at_once);
	save("s/l.jsonl", "1\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, face_shown_to(inode, READER), O_RDONLY, READER);
	cr_expect_str_eq(fill(reader, 0, 2), "1\n");
	release(reader);
	told(inode);
	return inode;
}

/* The answer that tells of the number is still to be taken in, maybe. */
EveryStore(faces, are_told_once_more_when_the_kernel_does_not_know_them)
{
	struct inode *inode = left_by_a_reader(1);

	kernel_knows = false;
	append("s/l.jsonl", "2\n");
	cr_expect_str_eq(told(inode), "forget 0@0 forget 0@0", "it may be opened in between");
	UNTIL(anything_said());
	cr_expect_str_eq(told(inode), "forget 0@-1", "once more");
	usleep(2500000);
	cr_expect_str_eq(told(inode), "", "but not for ever");

	kernel_knows = true;
	forget(inode);
	stop_watching();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
}

/* A notice of a number that the kernel has only just made has it drop what the answer says: the
 * file has no mode and no owner then. */
EveryStore(faces, of_what_is_written_are_not_told_of_before_they_are_open)
{
	struct inode *inode = left_by_a_reader(1);
	struct handle *writer =
		open_face(inode, face_shown_to(inode, getpid()), O_WRONLY | O_APPEND, getpid());
	struct handle *reader = NULL;
	struct shown shown;
	unsigned face;
	char notice[32];

	cr_assert_eq(try_face(inode, face_of(writer), O_RDONLY, READER, &reader), -ESTALE);
	shown = shown_to(inode, READER);
	face = nodeid_face(shown.nodeid);
	cr_assert_neq(face, face_of(writer));
	snprintf(notice, sizeof(notice), "forget %u@", face);
	cr_expect(shown.own, "the kernel asks before it relies on the answer");
	told(inode);
	cr_assert_eq(handle_write(world_tree, writer, getpid(), 2, BYTES("2\n")), 2);
	cr_expect_null(strstr(told(inode), notice));
	cr_expect_eq(size_by(inode, face), 4);
	cr_assert_eq(handle_write(world_tree, writer, getpid(), 4, BYTES("3\n")), 2);
	cr_expect_null(strstr(told(inode), notice));
	cr_assert_eq(try_face(inode, face, O_RDONLY, READER, &reader), 0);
	cr_expect_eq(size_by(inode, face), 6);
	told(inode);
	cr_assert_eq(handle_write(world_tree, writer, getpid(), 6, BYTES("4\n")), 2);
	cr_expect_not_null(strstr(told(inode), notice));
	release(reader);
	release(writer);
	forget(inode);
	stop_watching();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
}

static pthread_t second_append;
static atomic_bool has_appended;

static void *append_second(void *arg)
{
	append("s/l.jsonl", "3\n");
	has_appended = true;
	return arg;
}

static void begin_second(void)
{
	cr_assert_eq(pthread_create(&second_append, NULL, append_second, NULL), 0);
	UNTIL(strcmp(content_of("s/l.jsonl"), "1\n2\n3\n") == 0);
	/* Long enough for it to return, if it does not wait. */
	usleep(100000);
	cr_expect(!has_appended, "the kernel has the size from before both");
}

EveryStore(faces, that_an_earlier_append_has_made_old_are_told_of_before_another_returns)
{
	struct inode *inode = left_by_a_reader(4);

	meanwhile = begin_second;
	append("s/l.jsonl", "2\n");
	cr_assert_eq(pthread_join(second_append, NULL), 0);
	cr_expect_eq(size_by(inode, 0), 6);
	forget(inode);
	stop_watching();
	cr_assert_eq(unlinked("s/l.jsonl"), 0);
}

static void cut(struct handle *handle, off_t size)
{
	cr_assert_eq(set_attr_by(handle, &(struct stat){ .st_size = size }, TREE_SET_SIZE), 0);
}

/* By what it reads it has found where to cut, and that was replaced since. */
EveryStore(faces, of_a_writer_in_the_middle_of_a_version_cut_no_other)
{
	static const off_t sizes[] = { 0, 4, 7, 9, 12 };

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(states); i++) {
		const char *path = states[i % ARRAY_SIZE(states)];
		struct handle *writer;
		struct inode *inode;

		save(path, "[1]\n[22]\n");
		inode = inode_at(path);
		writer = open_face(inode, face_shown_to(inode, READER), O_RDWR, READER);
		cr_expect_str_eq(direct(writer, 0, 4), "[1]\n", "%s", path);
		save(path, "[333]\n[4]\n");
		append(path, "[5]\n");
		cr_expect_str_eq(direct(writer, 4, 5), "[22]\n", "%s", path);
		cut(writer, sizes[i / ARRAY_SIZE(states)]);
		release(writer);
		cr_expect_str_eq(content_of(path), "[333]\n[4]\n[5]\n", "%s", path);
		forget(inode);
	}
}

EveryStore(faces, of_a_writer_that_has_read_nothing_show_and_cut_what_there_is)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *writer;
		struct inode *inode;

		save(states[i], "[1]\n[22]\n");
		inode = inode_at(states[i]);
		writer = open_face(inode, face_shown_to(inode, READER), O_RDWR, READER);
		save(states[i], "[333]\n[4]\n");
		cr_expect_eq(size_by(inode, face_of(writer)), 10, "%s", states[i]);
		cr_expect_str_eq(direct(writer, 6, 4), "[4]\n", "%s", states[i]);
		cut(writer, 6);
		release(writer);
		cr_expect_str_eq(content_of(states[i]), "[333]\n", "%s", states[i]);
		forget(inode);
	}
}

/* A file that was a state file keeps its faces when it becomes an ordinary one. */
EveryStore(faces, of_an_ordinary_file_are_told_what_is_written_and_cut_by_another)
{
	const struct stat two = { .st_size = 2 };
	struct handle *reader, *writer;
	struct inode *inode;

	save("s/k.json", "[1]");
	inode = inode_at("s/k.json");
	reader = open_face(inode, 0, O_RDONLY, READER);
	writer = open_face(inode, FACE_ANY, O_RDWR, getpid());
	cr_assert_eq(face_of(writer), 1);
	cr_assert_eq(renamed("s/k.json", "s/k.txt", 0), 0);
	cr_expect_str_eq(fill(reader, 0, 9), "[1]");
	watch(1);
	write_at(writer, 1, BYTES("2"));
	cr_expect_str_eq(told_of_bytes(inode), "forget 0@0 grown 0=3,93");
	cr_expect_str_eq(fill(reader, 0, 9), "[2]");
	cr_assert_eq(set_attr_by(writer, &two, TREE_SET_SIZE), 0);
	cr_expect_not_null(strstr(told(inode), "forget 0@"));
	cr_expect_str_eq(fill(reader, 0, 9), "[2");

	stop_watching();
	release(writer);
	release(reader);
	forget(inode);
}

EveryStore(faces, show_one_version_to_a_reader_that_has_saved_before)
{
	struct handle *handle = open_at("s/l.jsonl", O_RDWR | O_CREAT | O_TRUNC);

	save("s/l.jsonl", "1\n");
	write_at(handle, 0, BYTES("[\"old\"]\n[\"old\"]\n"));
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_assert_str_eq(direct(handle, 0, 8), "[\"old\"]\n");
	save("s/l.jsonl", "[\"newer\"]\n[\"newer\"]\n");

	cr_expect_str_eq(direct(handle, 8, 100), "[\"old\"]\n");
	cr_expect_str_eq(direct(handle, 16, 100), "");
	cr_expect_str_eq(direct(handle, 0, 100), "[\"newer\"]\n[\"newer\"]\n");
	release(handle);
}

EveryStore(faces, show_what_is_new_to_a_reader_that_has_read_what_it_saved)
{
	struct handle *handle = open_at("s/k.json", O_RDWR | O_CREAT | O_TRUNC);

	write_at(handle, 0, BYTES("1"));
	cr_assert_eq(handle_sync(world_tree, handle), 0);
	cr_assert_str_eq(direct(handle, 0, 10), "1");
	save("s/k.json", "22");

	cr_expect_str_eq(direct(handle, 0, 10), "22");
	release(handle);
}

/* The kernel would cut them, and fill up with zeros what is left of the last one. */
EveryStore(faces, with_pages_do_not_show_a_writer_its_own_size)
{
	const struct stat one = { .st_size = 1 };
	struct handle *reader, *writer;
	struct inode *inode;

	save("s/l.jsonl", "1\n2\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_assert_str_eq(fill(reader, 0, 9), "1\n2\n");
	writer = open_face(inode, FACE_ANY, O_RDWR, getpid());
	cr_assert_eq(face_of(writer), 1);
	release(reader);
	cr_assert_eq(set_attr_by(writer, &one, TREE_SET_SIZE), 0);

	cr_expect_eq(size_by(inode, 0), 4);
	cr_expect_eq(size_by(inode, 1), 1);
	release(writer);
	forget(inode);
}

/* Away from a writer, who is returned. */
static struct handle *lead_a_reader(struct inode **ret_inode)
{
	struct handle *writer, *none;

	save("s/l.jsonl", "1\n2\n");
	*ret_inode = inode_at("s/l.jsonl");
	writer = open_face(*ret_inode, FACE_ANY, O_WRONLY | O_APPEND, getpid());
	cr_assert_eq(try_face(*ret_inode, face_of(writer), O_RDONLY, READER, &none), -ESTALE);
	return writer;
}

EveryStore(faces, to_which_somebody_is_led_become_old)
{
	struct inode *inode;
	struct handle *writer = lead_a_reader(&inode);
	unsigned face = face_shown_to(inode, READER);

	cr_assert_neq(face, face_of(writer));
	replace("[1, 2, 3]\n[4, 5, 6]\n");

	/* It has been told this size with the number. */
	cr_expect_eq(size_by(inode, face), 4);
	release(writer);
	forget(inode);
}

static unsigned known_to(struct inode *inode, pid_t pid)
{
	const uint64_t nodeid = shown_to(inode, pid).nodeid;

	inode_ref(world_tree, inode);
	inode_hold(inode, nodeid);
	return nodeid_face(nodeid);
}

/* The kernel opens what another thread has looked up since: that was no second try. */
EveryStore(faces, to_which_threads_were_led_in_vain_are_used_again)
{
	enum { ROUNDS = 20 };
	struct inode *inode;
	struct handle *writer = lead_a_reader(&inode), *reader;

	for (pid_t pid = 100; pid < 100 + ROUNDS; pid++) {
		unsigned in_vain, face;

		cr_assert_eq(try_face(inode, face_of(writer), O_RDONLY, pid, &reader), -ESTALE);
		in_vain = known_to(inode, pid);
		cr_expect_lt(in_vain, 4, "round %d", pid - 100);
		replace(pid % 2 ? "[1, 2, 3]\n[4, 5, 6]\n" : "[1]\n");
		cr_assert_eq(try_face(inode, face_of(writer), O_RDONLY, pid, &reader), -ESTALE);
		forget_face(inode, in_vain);
		face = known_to(inode, pid);
		cr_assert_eq(try_face(inode, face, O_RDONLY, pid, &reader), 0);
		release(reader);
		forget_face(inode, face);
	}
	release(writer);
	forget(inode);
}

/* Away from a reader, which is returned. */
static struct handle *lead_a_writer(struct inode **ret_inode, int flags, unsigned *ret_face)
{
	struct handle *reader, *none;

	save("s/l.jsonl", "1\n2\n");
	*ret_inode = inode_at("s/l.jsonl");
	reader = open_face(*ret_inode, FACE_ANY, O_RDONLY, SECOND);
	cr_assert_eq(try_face(*ret_inode, face_of(reader), flags, READER, &none), -ESTALE);
	*ret_face = face_shown_to(*ret_inode, READER);
	return reader;
}

/* A reader opens a face, and then the thread comes that another one is kept for. */
static void expect_kept(struct inode *inode, unsigned face, unsigned of_reader, int way)
{
	struct handle *reader = open_face(inode, of_reader, O_RDONLY, THIRD), *late;

	cr_expect_neq(face_of(reader), face, "way %o", (unsigned)way);
	cr_assert_eq(try_face(inode, face, way, READER, &late), 0);
	cr_expect_eq(face_of(late), face);
	release(late);
	release(reader);
}

/* The store may be locked, or the machine busy, for as long. */
EveryStore(faces, to_which_a_thread_is_led_are_kept_for_it_however_late_it_comes)
{
	static const int ways[] = { O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND, O_RDWR };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct handle *first;
		struct inode *inode;
		unsigned face;

		first = lead_a_writer(&inode, ways[i], &face);
		clock_ahead += 3600;
		replace("[1, 2, 3]\n[4, 5, 6]\n");
		expect_kept(inode, face, face_shown_to(inode, THIRD), ways[i]);
		clock_ahead = 0;
		release(first);
		forget(inode);
	}
}

/* Of two that save by one temporary name one had it renamed away, and then once more. */
EveryStore(faces, of_an_ordinary_file_are_kept_for_a_thread_though_a_rename_makes_it_a_state)
{
	static const int ways[] = { O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND, O_RDWR };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct handle *first, *none;
		struct inode *inode, *temporary;
		unsigned face;

		save("s/k.json", "1");
		inode = inode_at("s/k.json");
		first = open_face(inode, 0, O_RDONLY, SECOND);
		cr_assert_eq(try_face(inode, face_of(first), ways[i], READER, &none), -ESTALE);
		save("s/k.json.tmp", "[22]");
		temporary = inode_at("s/k.json.tmp");
		face = face_shown_to(temporary, READER);
		cr_assert_eq(renamed("s/k.json.tmp", "s/k.json", 0), 0);
		expect_kept(temporary, face, face, ways[i]);
		release(first);
		forget(temporary);
		forget(inode);
	}
}

/* It goes on to other names. */
EveryStore(faces, to_which_no_thread_will_come_are_taken_by_others)
{
	struct handle *first, *other;
	struct inode *inode, *another;
	unsigned face;

	save("s/another.json", "1");
	another = inode_at("s/another.json");
	first = lead_a_writer(&inode, O_RDWR, &face);
	for (int i = 0; i < 20; i++)
		face_shown_to(another, READER);
	clock_ahead += 3600;
	replace("[1, 2, 3]\n[4, 5, 6]\n");
	other = open_face(inode, face_shown_to(inode, THIRD), O_RDONLY, THIRD);
	clock_ahead = 0;
	cr_expect_eq(face_of(other), face);
	release(other);
	release(first);
	forget(another);
	forget(inode);
}

SqliteStore(faces, to_which_somebody_is_led_become_old_when_others_replace_the_rows)
{
	struct inode *inode;
	struct handle *writer = lead_a_reader(&inode);
	unsigned face = face_shown_to(inode, READER);

	cr_assert_neq(face, face_of(writer));
	sql_runs("UPDATE agentscope_sessions SET state_data = '[1, 2, 3]'");

	cr_expect_eq(stat_of("s/l.jsonl").st_size, 20);
	cr_expect_eq(size_by(inode, face), 4);
	release(writer);
	forget(inode);
}

/* No notice of what is written meanwhile reaches it. */
EveryStore(faces, that_the_kernel_does_not_know_yet_are_asked_for_again_beside_a_writer)
{
	struct inode *inode;
	struct handle *writer = lead_a_reader(&inode);

	cr_expect(shown_to(inode, READER).own);
	cr_expect(shown_to(inode, READER).own, "it is on its way there, and nobody has it open");
	release(writer);
	forget(inode);
}

/* Nor is it forgotten with the last open file. */
SqliteStore(faces, to_which_somebody_is_led_become_old_though_no_snapshot_can_be_kept)
{
	struct inode *inode;
	struct handle *writer = lead_a_reader(&inode);
	unsigned face;

	sqlite_snapshot_kept(sqlite_of(world_tree->backend), BACKEND_KEEP_CONTENT);
	reader_snapshot_renew(world_tree);
	face = face_shown_to(inode, READER);
	release(writer);
	sql_runs("UPDATE agentscope_sessions SET state_data = '[1, 2, 3]'");

	cr_expect_eq(stat_of("s/l.jsonl").st_size, 20);
	cr_expect_eq(size_by(inode, face), 4);
	sqlite_snapshot_kept(sqlite_of(world_tree->backend), BACKEND_KEEP_AGAIN);
	forget(inode);
}

/* The log of the database begins anew behind no snapshot, so readers are not to need one. */
SqliteStore(faces, show_one_version_though_no_snapshot_of_it_can_be_kept)
{
	static const char *const paths[] = { "s/k.json", "s/l.jsonl" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct handle *reader;
		struct inode *inode;

		save(paths[i], "[1]\n");
		sql_runs("UPDATE agentscope_sessions SET state_data = '[2, 2]'");
		cr_expect_eq(strncmp(content_of(paths[i]), "[2, 2]", 6), 0, "%s", paths[i]);
		inode = inode_at(paths[i]);
		reader = open_face(inode, 0, O_RDONLY, READER);
		sqlite_snapshot_kept(sqlite_of(world_tree->backend), BACKEND_KEEP_CONTENT);
		contents_keep(world_tree);
		reader_snapshot_renew(world_tree);
		sql_runs("UPDATE agentscope_sessions SET state_data = '[3]'");
		cr_expect_eq(strncmp(content_of(paths[i]), "[3]", 3), 0, "%s", paths[i]);
		sqlite_snapshot_kept(sqlite_of(world_tree->backend), BACKEND_KEEP_AGAIN);
		cr_expect_eq(size_by(inode, face_of(reader)), i ? 7 : 6, "%s", paths[i]);
		cr_expect_eq(strncmp(fill(reader, 0, 100), "[2, 2]", 6), 0, "%s", paths[i]);
		release(reader);
		forget(inode);
	}
}

EveryStore(faces, of_a_large_list_have_the_page_cache_unless_somebody_is_writing)
{
	static const int ways[] = { O_WRONLY | O_APPEND, O_RDWR };
	_cleanup_(buf_done) struct buf text = { 0 };
	struct handle *reader;

	tree_set_direct_mmap(world_tree, true);
	large_text(&text, 2 << 20);
	save_large("s/l.jsonl", &text);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		struct handle *writer = open_at("s/l.jsonl", ways[i]);

		reader = open_at("s/l.jsonl", O_RDONLY);
		cr_expect(handle_is_direct(reader), "way %zu", i);
		release(reader);
		close_handle(writer);
		reader = open_at("s/l.jsonl", O_RDONLY);
		cr_expect(!handle_is_direct(reader), "way %zu", i);
		release(reader);
	}
}

/* Past the page cache a reader keeps the version that it began with, however large that is. */
EveryStore(faces, show_who_reads_a_large_list_beside_a_writer_one_version)
{
	enum { BLOCK = 128 << 10 };
	_cleanup_(buf_done) struct buf text = { 0 };
	_cleanup_(buf_done) struct buf seen = { 0 };
	struct handle *writer, *reader;
	size_t before;

	tree_set_direct_mmap(world_tree, true);
	large_text(&text, 2 << 20);
	save_large("s/l.jsonl", &text);
	writer = open_at("s/l.jsonl", O_WRONLY | O_APPEND);
	reader = open_at("s/l.jsonl", O_RDONLY);
	cr_assert(handle_is_direct(reader));
	cr_assert_eq(handle_read(world_tree, reader, 0, BLOCK, &seen), 0);
	save("s/l.jsonl", "[1]\n");
	do {
		before = seen.size;
		cr_assert_eq(handle_read(world_tree, reader, before, BLOCK, &seen), 0);
	} while (seen.size > before);
	cr_expect(bytes_equal(buf_bytes(&seen), buf_bytes(&text)), "%zu bytes", seen.size);
	cr_expect_str_eq(content_of("s/l.jsonl"), "[1]\n");
	release(reader);
	close_handle(writer);
}

/* A save of s/k.json in which a part is written, while nobody else has it open. */
static struct handle *begun_save(struct inode **ret_inode)
{
	struct handle *writer;

	world_tree->options.has_open = hold_it;
	holding[0] = holding[1] = NOBODY;
	save("s/k.json", "1");
	*ret_inode = inode_at("s/k.json");
	writer = open_face(*ret_inode, 0, O_WRONLY | O_TRUNC, getpid());
	write_at(writer, 0, BYTES("[1,"));
	return writer;
}

EveryStore(faces, serve_a_thread_that_was_told_to_look_again_wherever_the_name_leads)
{
	struct inode *inode, *other;
	struct handle *writer, *reader, *beside;
	struct stat st;
	bool own;

	writer = begun_save(&inode);
	cr_assert_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), -ESTALE);
	(void)face_shown_to(inode, READER);

	/* The kernel looks the name up twice, and by the second time it is another file's, which
	 * somebody is writing. */
	save("s/new", "2");
	cr_assert_eq(renamed("s/new", "s/k.json", 0), 0);
	other = inode_at("s/k.json");
	beside = open_face(other, 0, O_WRONLY | O_TRUNC, SECOND);
	write_at(beside, 0, BYTES("[2,"));
	cr_assert_eq(try_face(other, face_shown_to(other, READER), O_RDONLY, READER, &reader), 0);
	cr_expect_str_eq(direct(reader, 0, 9), "2");
	release(reader);

	/* And if it was told so by an open, and then another file has the name. */
	cr_assert_eq(try_face(inode, 0, O_RDONLY, THIRD, &reader), -ESTALE);
	cr_assert_eq(try_face(other, face_shown_to(other, THIRD), O_RDONLY, THIRD, &reader), 0);
	cr_expect_str_eq(direct(reader, 0, 9), "2");
	release(reader);

	/* But what no name has led it to it opens for the first time. */
	cr_assert_eq(try_face(inode, 0, O_RDONLY, THIRD, &reader), -ESTALE);
	cr_expect_eq(try_face(other, face_of(beside), O_RDONLY, THIRD, &reader), -ESTALE);
	cr_assert_eq(try_face(other, face_shown_to(other, THIRD), O_RDONLY, THIRD, &reader), 0);
	cr_expect_str_eq(direct(reader, 0, 9), "2");
	release(reader);
	release(beside);
	release(writer);
	forget(other);
	forget(inode);
}

EveryStore(faces, of_a_writer_are_opened_at_once_after_asking_for_attributes_by_no_name)
{
	struct handle *writer, *reader;
	struct inode *inode;
	struct stat st;
	bool own;

	writer = begun_save(&inode);

	/* As the kernel asks for one open(2) of a bind mount of the file. */
	cr_assert_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), -ESTALE);
	cr_expect_eq(tree_stat_face(world_tree, inode, 0, READER, &st, &own), 0);
	cr_assert_eq(try_face(inode, 0, O_RDONLY, READER, &reader), 0);
	release(reader);
	release(writer);
	forget(inode);
}

EveryStore(faces, that_are_old_show_one_version_to_a_reader_that_no_name_led_there)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *first, *second, *none;
		struct inode *inode;

		save(states[i], "[1, 2]");
		inode = inode_at(states[i]);
		first = open_face(inode, 0, O_RDONLY, READER);
		cr_assert_str_eq(direct(first, 0, 1), "[");
		save(states[i], "[1, 2, 3]");
		cr_assert_eq(size_by(inode, 0), 6, "%s", states[i]);

		/* As by a bind mount of the file. */
		cr_assert_eq(try_face(inode, 0, O_RDONLY, SECOND, &none), -ESTALE);
		cr_assert_eq(try_face(inode, 0, O_RDONLY, SECOND, &second), 0);
		cr_expect_eq(size_by(inode, 0), 6, "%s", states[i]);
		cr_expect_str_eq(direct(second, 0, 100), "[1, 2]", "%s", states[i]);
		cr_expect_str_eq(fill(second, 0, 100), "[1, 2]", "%s", states[i]);
		cr_expect_str_eq(direct(second, 0, 100), "[1, 2, 3]", "%s", states[i]);
		release(second);
		cr_expect_str_eq(direct(first, 1, 100), "1, 2]", "%s", states[i]);
		release(first);
		forget(inode);
	}
}

EveryStore(faces, of_a_file_that_was_replaced_keep_their_version_when_its_writer_goes_on)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		struct handle *writer, *reader;
		struct inode *inode;

		save(states[i], "[1, 2, 3, 4]");
		inode = inode_at(states[i]);
		writer = open_face(inode, 0, O_RDWR, getpid());
		reader = open_face(inode, 0, O_RDONLY, READER);
		save("s/new", "7");
		cr_assert_eq(renamed("s/new", states[i], 0), 0);
		write_at(writer, 0, BYTES("[9]   "));
		cr_expect_eq(size_by(inode, face_of(reader)), 12, "%s", states[i]);
		cr_expect_str_eq(fill(reader, 0, 100), "[1, 2, 3, 4]", "%s", states[i]);
		cr_expect_str_eq(direct(reader, 0, 100), "[1, 2, 3, 4]", "%s", states[i]);
		cr_expect_str_eq(direct(writer, 0, 100), "[9]    3, 4]", "%s", states[i]);
		release(reader);
		release(writer);
		forget(inode);
		cr_expect_str_eq(content_of(states[i]), "7", "%s", states[i]);
	}
}

SqliteStore(faces, of_a_file_that_was_renamed_keep_their_version_when_others_replace_the_rows)
{
	struct handle *before, *reader;
	struct inode *inode;

	save("s/l.jsonl", "1\n");
	before = open_at("s/l.jsonl", O_RDONLY);
	cr_assert_str_eq(direct(before, 0, 100), "1\n");
	save("s/new", "[1]\n[2]\n");
	cr_assert_eq(renamed("s/new", "s/l.jsonl", 0), 0);
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_assert_str_eq(direct(reader, 0, 4), "[1]\n");
	sql_runs("UPDATE agentscope_sessions SET state_data = '\"other\"'");
	cr_assert_eq(stat_of("s/l.jsonl").st_size, 16);
	cr_expect_str_eq(direct(reader, 4, 100), "[2]\n");
	release(reader);
	release(before);
	forget(inode);
}

/* It comes when its time is over, and its face has become old. */
EveryStore(faces, that_were_kept_for_a_thread_that_comes_late)
{
	struct handle *reader;
	struct inode *inode;
	struct shown shown;
	struct led *led;

	save("s/l.jsonl", "1\n2\n");
	inode = inode_at("s/l.jsonl");
	reader = open_face(inode, 0, O_RDONLY, READER);
	cr_assert_str_eq(direct(reader, 0, 2), "1\n");
	save("s/l.jsonl", "3\n");
	cr_assert_not_null(inode->face.old);
	led = malloc(sizeof(*led));
	cr_assert_not_null(led);
	*led = (struct led){ .face = &inode->face, .kind = FACE_READ, .pid = THIRD };
	inode->led = led;
	cr_assert_eq(tree_enter(world_tree, inode, FACE_ANY, THIRD, &shown), 0);
	cr_expect_neq(nodeid_face(shown.nodeid), 0);
	cr_expect_null(inode->led);
	cr_expect_str_eq(direct(reader, 2, 2), "2\n");
	release(reader);
	forget(inode);
}

/* By one line of two bytes. */
static void note_growth(struct notes *notes, struct inode *inode, uint64_t size_before)
{
	WITH_READ_LOCK(world_tree);
	WITH_INODE_LOCK(inode);

	inode->list.size = size_before + 2;
	notes_change(notes, world_tree, inode, CHANGE_GREW, size_before, NULL);
}

/* While the kernel is told that a file grew nobody is shown more.  Who adds something then and is
 * answered is shown that, though another one adds more, and though nobody had it open to read. */
EveryStore(faces, show_what_was_added_while_more_is_added)
{
	struct notes first = { 0 }, second = { 0 }, third = { 0 };
	struct handle *reader;
	struct inode *inode;

	append("s/l.jsonl", "1\n2\n3\n4\n");
	inode = inode_at("s/l.jsonl");
	reader = open_at("s/l.jsonl", O_RDONLY);
	note_growth(&first, inode, 2);
	cr_expect_eq(inode->bound, 2);
	handle_free(world_tree, reader);
	note_growth(&second, inode, 4);
	reader = open_at("s/l.jsonl", O_RDONLY);
	note_growth(&third, inode, 6);
	notes_send(&first, world_tree, NOTIFY_ALL);
	cr_expect_eq(inode->bound, 4);
	notes_send(&second, world_tree, NOTIFY_ALL);
	cr_expect_eq(inode->bound, 6);
	notes_send(&third, world_tree, NOTIFY_ALL);
	cr_expect_eq(inode->bound, UINT64_MAX);
	handle_free(world_tree, reader);
	forget(inode);
}
