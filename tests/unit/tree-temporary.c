/* SPDX-License-Identifier: MIT */

/* Saves by one temporary name: what a rename takes is one save, whole. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/inode/tree.h"
#include "tests/unit/rounds.h"
#include "tests/unit/world.h"

enum { STEPS = 8, SAVERS = 2 };
enum { GONE = 4194303 }; /* a process that does not live: no number is as high */

/* What a saver does, a letter a step: l looks the name up, or makes the file; o opens it (and is
 * both, if l is none of the steps); 1 and 2 write the halves, s syncs, c closes, r renames. */
struct way {
	const char *steps;
	bool own_when_open; /* what it renames need not be closed */
};
static const struct way ways[] = {
	{ "o12cr", false },
	{ "o12scr", false },
	{ "o12src", false },
	{ "o12rc", true },
};
/* The kernel has found the name, and opens what another one has renamed since. */
static const char *const late_ways[] = { "lo12cr", "lo12rc" };
static const char *const late_twice[] = { "lo12crlo12rc", "lo12rclo12cr" };

struct saver {
	const struct way *way;
	const char *text;
	pid_t pid;
	size_t at;
	struct handle *handle;
	struct inode *inode; /* as the kernel has it */
	bool looked;
	bool made;
	bool closed;
};

static const char document[] = "s/k.json", name[] = "s/k.json.tmp";
static const char *const texts[SAVERS] = { "{\"a\":[1,2,3,4,5,6,7,8,9]}", "{\"b\":0}" };

static void look(struct saver *saver)
{
	if (saver->inode)
		forget(saver->inode);
	saver->made = make_file(name, S_IFREG | 0644) == 0;
	saver->inode = inode_at(name);
	saver->looked = true;
}

static void open_found(struct saver *saver)
{
	const int flags = O_WRONLY | (saver->made ? O_CREAT : O_TRUNC);
	int r;

	if (saver->handle)
		handle_free(world_tree, steal_ptr(saver->handle));
	r = tree_open_file(world_tree, saver->inode, FACE_ANY, flags, saver->pid, &saver->handle);
	saver->looked = saver->closed = false;
	if (r == -ESTALE) {
		look(saver);
		open_found(saver);
	} else {
		cr_assert_eq(r, 0, "%s", strerror(-r));
	}
}

static void step(struct saver *saver, char what)
{
	const size_t size = strlen(saver->text), half = size / 2;

	switch (what) {
	case 'l':
		look(saver);
		break;
	case 'o':
		if (!saver->looked)
			look(saver);
		open_found(saver);
		break;
	case '1':
		write_at(saver->handle, 0, bytes_make(saver->text, half));
		break;
	case '2':
		write_at(saver->handle, half, bytes_make(saver->text + half, size - half));
		break;
	case 's':
		cr_assert_eq(handle_sync(world_tree, saver->handle), 0);
		break;
	case 'c': /* the kernel releases it later */
		cr_assert_eq(tree_flush(world_tree, saver->handle, saver->pid), 0);
		saver->closed = true;
		break;
	default:
		break;
	}
}

/* As the kernel's request that has made the file goes on. */
static struct handle *open_made(struct inode *inode, int flags, pid_t pid)
{
	struct handle *handle = NULL;
	int r = tree_open_file(world_tree, inode, FACE_ANY, flags | O_CREAT, pid, &handle);

	cr_assert_eq(r, 0, "what was made is not opened: %s", strerror(-r));
	return handle;
}

static bool is_one_of_them(const char *content)
{
	return strcmp(content, "0") == 0 || strcmp(content, texts[0]) == 0 ||
	       strcmp(content, texts[1]) == 0;
}

/* Of what has become the document: a look at it would wait for that. */
static void release_closed(struct saver *savers)
{
	for (size_t i = 0; i < SAVERS; i++)
		if (savers[i].closed && savers[i].handle)
			handle_free(world_tree, steal_ptr(savers[i].handle));
}

/* order: a bit a step, which saver does its next one.  alone: each is known to be another process,
 * so each rename takes its own. */
static void play(const struct way *a, const struct way *b, pid_t pid_a, pid_t pid_b, unsigned order,
		 bool alone)
{
	struct saver savers[SAVERS] = {
		{ .way = a, .text = texts[0], .pid = pid_a },
		{ .way = b, .text = texts[1], .pid = pid_b },
	};
	const size_t steps = strlen(a->steps) + strlen(b->steps);
	bool renamed_any = false;
	char told[64] = "";

	save(document, "0");
	for (size_t i = 0; i < steps; i++) {
		struct saver *saver = &savers[order >> i & 1];
		const char what = saver->way->steps[saver->at++];
		int r = 0;

		snprintf(told + strlen(told), sizeof(told) - strlen(told), "%c%c ",
			 saver == savers ? 'A' : 'B', what);
		if (what != 'r') {
			step(saver, what);
		} else {
			renamed_any = true;
			r = renamed_by(name, document, saver->pid);
			cr_assert(r == 0 || (!alone && r == -ENOENT), "%s: %s", told, strerror(-r));
		}
		if (renamed_any)
			release_closed(savers);
		if (what == 'r' && alone)
			cr_assert_str_eq(content_of(document), saver->text, "%s: %s", told,
					 content_of(document));
		else
			cr_assert(is_one_of_them(content_of(document)), "%s: %s", told,
				  content_of(document));
	}
	for (size_t i = 0; i < SAVERS; i++) {
		if (savers[i].handle)
			handle_free(world_tree, savers[i].handle);
		forget(savers[i].inode);
	}
	cr_assert(is_one_of_them(content_of(document)), "%s", told);
	if (alone)
		cr_assert_eq(looked_up(name), -ENOENT, "%s: the name is left", told);
	(void)unlinked(name);
}

/* The kernel makes and opens a file before anybody else looks it up or renames it. */
static bool waits(const struct saver *other, char what)
{
	return other->looked && other->made && (what == 'l' || what == 'r');
}

/* Who opens what has been renamed since has written the document, and has nothing to rename. */
static void play_late(const char *a, const char *b, unsigned order)
{
	const struct way ways_of[] = { { a, true }, { b, true } };
	struct saver savers[SAVERS] = {
		{ .way = &ways_of[0], .text = texts[0], .pid = getpid() },
		{ .way = &ways_of[1], .text = texts[1], .pid = getppid() },
	};
	const size_t steps = strlen(a) + strlen(b);
	char told[64] = "";

	save(document, "0");
	for (size_t i = 0; i < steps; i++) {
		struct saver *saver = &savers[order >> i & 1];
		const char what = saver->way->steps[saver->at++];
		int r = 0;

		if (waits(&savers[!(order >> i & 1)], what))
			break;
		snprintf(told + strlen(told), sizeof(told) - strlen(told), "%c%c ",
			 saver == savers ? 'A' : 'B', what);
		if (what == 'r')
			r = renamed_by(name, document, saver->pid);
		else
			step(saver, what);
		cr_assert(r == 0 || r == -ENOENT, "%s: %s", told, strerror(-r));
		release_closed(savers);
		cr_assert(is_one_of_them(content_of(document)), "%s: %s", told,
			  content_of(document));
	}
	for (size_t i = 0; i < SAVERS; i++) {
		if (savers[i].handle)
			handle_free(world_tree, savers[i].handle);
		if (savers[i].inode)
			forget(savers[i].inode);
	}
	(void)unlinked(name);
}

static unsigned count_bits(unsigned bits)
{
	return (unsigned)__builtin_popcount(bits);
}

/* Every order in a soak, else one of so many. */
static unsigned long share(void)
{
	return rounds("SESSFS_TEMPORARY_SHARE", 47, 1);
}

static void play_all(pid_t pid_a, pid_t pid_b, bool alone, bool closed_only)
{
	unsigned long count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		for (size_t j = 0; j < ARRAY_SIZE(ways); j++) {
			const unsigned na = (unsigned)strlen(ways[i].steps);
			const unsigned nb = (unsigned)strlen(ways[j].steps);

			if (closed_only && (ways[i].own_when_open || ways[j].own_when_open))
				continue;
			for (unsigned order = 0; order < 1U << (na + nb); order++)
				if (count_bits(order) == nb && count++ % share() == 0)
					play(&ways[i], &ways[j], pid_a, pid_b, order, alone);
		}
}

static void open_world(void)
{
	world_open(WORLD_MEMORY);
	make_dir("s");
}

Test(temporary, each_of_two_processes_renames_its_own_save)
{
	open_world();
	play_all(getpid(), getppid(), true, false);
	world_close();
}

Test(temporary, a_process_whose_save_has_become_the_document_renames_nothing_that_is_torn)
{
	unsigned long count = 0;

	open_world();
	for (size_t i = 0; i < ARRAY_SIZE(late_twice); i++)
		for (size_t j = 0; j < ARRAY_SIZE(late_ways); j++) {
			const unsigned na = (unsigned)strlen(late_twice[i]);
			const unsigned nb = (unsigned)strlen(late_ways[j]);

			for (unsigned order = 0; order < 1U << (na + nb); order++)
				if (count_bits(order) == nb && count++ % share() == 0)
					play_late(late_twice[i], late_ways[j], order);
		}
	world_close();
}

Test(temporary, one_process_renames_a_whole_save_of_its_own)
{
	open_world();
	play_all(getpid(), getpid(), false, true);
	world_close();
}

/* As "jq ... > k.json.tmp && mv k.json.tmp k.json" has other processes for each. */
Test(temporary, a_rename_by_who_is_not_known_takes_a_whole_save)
{
	open_world();
	play_all(0, 0, false, true);
	world_close();
}

/* ---- one writer: as on any disk ---- */

EveryStore(temporary, a_file_of_one_writer_is_as_any_other)
{
	static const char *const names[] = { "s/k.json.tmp", "s/plain" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct handle *handle = open_at(names[i], O_WRONLY | O_CREAT | O_TRUNC), *reader;
		const ino_t ino = stat_of(names[i]).st_ino;

		write_at(handle, 0, BYTES("ab"));
		cr_expect_str_eq(content_of(names[i]), "ab", "%s", names[i]);
		reader = open_at(names[i], O_RDONLY);
		write_at(handle, 2, BYTES("cd"));
		cr_expect_str_eq(read_by(reader), "abcd", "%s", names[i]);
		close_handle(handle);
		append(names[i], "ef");
		cr_expect_str_eq(content_of(names[i]), "abcdef", "%s", names[i]);
		handle = open_by(names[i], O_WRONLY | O_TRUNC, getppid());
		cr_expect_str_eq(content_of(names[i]), "", "%s", names[i]);
		write_at(handle, 0, BYTES("g"));
		cr_expect_str_eq(content_of(names[i]), "g", "%s", names[i]);
		close_by(handle, getppid());
		cr_expect_eq(stat_of(names[i]).st_ino, ino, "%s", names[i]);
		cr_expect_eq(stat_of(names[i]).st_nlink, 1, "%s", names[i]);
		close_handle(reader);
		cr_expect_eq(linked(names[i], "s/link"), 0, "%s", names[i]);
		handle = open_at(names[i], O_WRONLY | O_TRUNC);
		write_at(handle, 0, BYTES("h"));
		cr_expect_str_eq(content_of("s/link"), "h", "%s", names[i]);
		close_handle(handle);
		cr_expect_eq(unlinked("s/link"), 0);
		cr_expect_eq(unlinked(names[i]), 0);
	}
	cr_expect_str_eq(keys(), "");
}

EveryStore(temporary, a_file_goes_on_under_its_new_name_with_one_writer)
{
	struct handle *handle = open_at("s/k.json.tmp", O_WRONLY | O_CREAT | O_TRUNC);

	write_at(handle, 0, BYTES("[1"));
	cr_assert_eq(renamed("s/k.json.tmp", "s/o", 0), 0);
	write_at(handle, 2, BYTES("]"));
	close_handle(handle);
	cr_expect_str_eq(content_of("s/o"), "[1]");
	cr_expect_eq(looked_up("s/k.json.tmp"), -ENOENT);
}

/* ---- two writers ---- */

EveryStore(temporary, a_writer_finds_its_bytes_from_its_close_on)
{
	struct handle *a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, 1), *b;

	write_at(a, 0, BYTES("[1,"));
	b = open_by(name, O_WRONLY | O_TRUNC, getppid());
	write_at(b, 0, BYTES("[2]"));
	close_by(b, getppid());
	cr_expect_str_eq(content_of(name), "[2]");
	cr_assert_eq(renamed_by(name, document, getppid()), 0);
	cr_expect_eq(looked_up(name), -ENOENT);
	write_at(a, 3, BYTES("1]"));
	cr_expect_str_eq(content_of(document), "[2]");
	cr_expect_eq(looked_up(name), -ENOENT);
	close_by(a, 1);
	cr_expect_str_eq(content_of(document), "[2]");
	cr_expect_str_eq(content_of(name), "[1,1]");
	cr_expect_str_eq(rows_of("s", "k"), "0=[2]");
	cr_assert_eq(renamed_by(name, document, 1), 0);
	cr_expect_str_eq(content_of(document), "[1,1]");
	world_reopen();
	cr_expect_str_eq(content_of(document), "[1,1]");
	cr_expect_str_eq(names_in("s"), "k.json");
}

/* Making a file and opening it are two steps for the kernel's request: what another one closes
 * comes to be under the name again in between. */
EveryStore(temporary, a_file_that_is_made_is_emptied_of_what_comes_before_it_is_open)
{
	static const int flags[] = { 0, O_EXCL, O_APPEND };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		struct handle *a, *b = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, 1);
		struct inode *inode;

		write_at(b, 0, BYTES("[1,1,1,1,1]"));
		a = open_by(name, O_WRONLY | O_TRUNC, getppid());
		close_by(a, getppid());
		cr_assert_eq(renamed_by(name, "s/o", getppid()), 0);

		cr_assert_eq(make_file(name, S_IFREG | 0644), 0);
		inode = inode_at(name);
		close_by(b, 1);
		cr_expect_str_eq(content_of(name), "[1,1,1,1,1]");
		a = open_made(inode, O_WRONLY | flags[i], getppid());
		forget(inode);
		write_at(a, 0, BYTES("[2]"));
		cr_expect_str_eq(content_of(name), "[2]");
		cr_assert_eq(renamed_by(name, document, getppid()), 0);
		cr_expect_str_eq(content_of(document), "[2]");
		close_by(a, getppid());
		cr_expect_str_eq(rows_of("s", "k"), "0=[2]");
		cr_assert_eq(renamed_by(name, document, 1), 0);
		cr_expect_str_eq(rows_of("s", "k"), "0=[1,1,1,1,1]");
		cr_expect_eq(looked_up(name), -ENOENT);
	}
}

/* A writer whose file was renamed away by another one, which has made the name anew. */
static struct handle *away_by(pid_t pid, const char *text, pid_t other)
{
	struct handle *a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, pid), *b;

	write_at(a, 0, bytes_str(text));
	b = open_by(name, O_WRONLY | O_TRUNC, other);
	write_at(b, 0, BYTES("[2]"));
	close_by(b, other);
	cr_assert_eq(renamed_by(name, document, other), 0);
	return a;
}

EveryStore(temporary, an_open_save_that_is_away_is_taken_before_what_has_the_name)
{
	struct handle *a = away_by(1, "[1,1]", getppid());
	struct handle *b = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());

	write_at(b, 0, BYTES("[3,"));
	cr_assert_eq(renamed_by(name, document, 1), 0);
	cr_expect_str_eq(content_of(document), "[1,1]");
	cr_expect_eq(looked_up(name), -ENOENT);
	write_at(b, 3, BYTES("3]"));
	cr_expect_str_eq(content_of(document), "[1,1]");
	close_by(a, 1);
	cr_expect_eq(looked_up(name), -ENOENT);
	close_by(b, getppid());
	cr_expect_str_eq(content_of(name), "[3,3]");
	cr_assert_eq(renamed_by(name, document, getppid()), 0);
	cr_expect_str_eq(rows_of("s", "k"), "0=[3,3]");
	cr_expect_eq(looked_up(name), -ENOENT);
}

EveryStore(temporary, what_is_away_is_not_newer_than_what_its_process_has_closed_since)
{
	struct handle *a = away_by(1, "[1,1]", getppid()), *b;
	struct inode *inode;

	b = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, 1);
	inode = inode_at(name); /* as the kernel has it */
	write_at(b, 0, BYTES("[3]"));
	close_by(b, 1);
	cr_assert_eq(renamed_by(name, document, 1), 0);
	cr_expect_str_eq(content_of(document), "[3]");
	forget(inode);
	close_by(a, 1);
	cr_expect_str_eq(content_of(document), "[3]");
	cr_expect_str_eq(content_of(name), "[1,1]");
	cr_expect_eq(unlinked(name), 0);
}

static pid_t holding; /* the process that has descriptors of every open file */

static int hold_it(void *arg, pid_t pid, uint64_t nodeid, unsigned access)
{
	(void)arg, (void)nodeid, (void)access;
	return pid == holding;
}

/* As of one that has opened the file before another one has renamed it: what it renames is gone. */
EveryStore(temporary, what_another_process_writes_is_not_taken_before_it_is_whole)
{
	struct handle *a;

	world_tree->options.has_open = hold_it;
	holding = getppid();
	save(document, "0");
	a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());
	cr_expect_eq(renamed_by(name, document, 1), -ENOENT);
	write_at(a, 0, BYTES("[1,"));
	cr_expect_eq(renamed_by(name, document, 1), -ENOENT);
	cr_expect_str_eq(content_of(document), "0");
	write_at(a, 3, BYTES("1]"));
	cr_expect_str_eq(content_of(name), "[1,1]");
	close_by(a, getppid());
	cr_assert_eq(renamed_by(name, document, 1), 0);
	cr_expect_str_eq(content_of(document), "[1,1]");
}

/* "{ ...; mv k.json.tmp k.json; ...; } >k.json.tmp"; and who is not known. */
/* Nor one that another has just made, and has not opened yet. */
EveryStore(temporary, what_is_about_to_be_written_is_not_taken)
{
	const struct tree_new what = { .mode = S_IFREG | 0644, .will_open = true };
	const struct caller caller = { .uid = getuid(), .gid = getgid() };
	struct inode *dir = inode_at("s"), *made;

	save(document, "[1]");
	cr_assert_eq(tree_make(world_tree, &caller, dir, BYTES("k.json.tmp"), &what, &made), 0);
	cr_expect_eq(renamed_by(name, document, 1), -ENOENT);
	cr_expect_str_eq(content_of(document), "[1]");
	forget(made);
	forget(dir);
}

/* Each program that another one starts closes what it has inherited. */
EveryStore(temporary, what_is_half_written_is_not_whole_when_another_process_closes_a_duplicate)
{
	struct handle *a;

	world_tree->options.has_open = hold_it;
	holding = getppid();
	save(document, "[1]");
	a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());
	write_at(a, 0, BYTES("[2,"));
	cr_assert_eq(tree_flush(world_tree, a, 1), 0);
	cr_expect_eq(renamed_by(name, document, 1), -ENOENT);
	cr_expect_str_eq(content_of(document), "[1]");
	write_at(a, 3, BYTES("2]"));
	close_by(a, getppid());
	cr_expect_eq(renamed_by(name, document, 1), 0);
	cr_expect_str_eq(content_of(document), "[2,2]");
}

EveryStore(temporary, what_is_half_written_is_taken_by_who_has_it_open_or_is_not_known)
{
	static const pid_t takers[] = { 1, 0 };

	world_tree->options.has_open = hold_it;
	holding = 1;
	for (size_t i = 0; i < ARRAY_SIZE(takers); i++) {
		struct handle *a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());

		write_at(a, 0, BYTES("[1,"));
		cr_assert_eq(renamed_by(name, document, takers[i]), 0);
		cr_expect_str_eq(content_of(document), "[1,");
		write_at(a, 3, BYTES("1]"));
		close_by(a, getppid());
		cr_expect_str_eq(content_of(document), "[1,1]");
		cr_expect_eq(unlinked(document), 0);
	}
}

static int cannot_tell(void *arg, pid_t pid, uint64_t nodeid, unsigned access)
{
	(void)arg, (void)pid, (void)nodeid, (void)access;
	return -EIO;
}

/* The one who renames may have it open or not. */
EveryStore(temporary, what_is_half_written_is_not_taken_in_doubt)
{
	struct handle *a;

	world_tree->options.has_open = cannot_tell;
	save(document, "[1]");
	a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());
	cr_expect_eq(renamed_by(name, document, 1), -ENOENT);
	write_at(a, 0, BYTES("[1,"));
	cr_expect_eq(renamed_by(name, document, 1), -ENOENT);
	cr_expect_str_eq(content_of(document), "[1]");
	write_at(a, 3, BYTES("1]"));
	cr_expect_eq(renamed_by(name, document, 1), 0);
	cr_expect_str_eq(content_of(document), "[1,1]");
	close_by(a, getppid());
}

/* It may have been the close of a duplicate. */
EveryStore(temporary, what_may_be_written_still_is_not_written_over_in_doubt)
{
	struct handle *a, *b;

	world_tree->options.has_open = cannot_tell;
	a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());
	write_at(a, 0, BYTES("[1,"));
	cr_assert_eq(tree_flush(world_tree, a, getppid()), 0);
	b = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getpid());
	write_at(b, 0, BYTES("[2,2,2]"));
	write_at(a, 3, BYTES("1]"));
	close_by(b, getpid());
	cr_expect_eq(renamed_by(name, document, getpid()), 0);
	cr_expect_str_eq(content_of(document), "[2,2,2]");
	close_by(a, getppid());
}

/* What is put into the file that a writer has open is of another size than what the kernel has seen
 * that one write. */
EveryStore(temporary, a_document_is_not_read_by_the_size_of_another_save)
{
	for (int beside = 0; beside <= 1; beside++) {
		struct handle *a = away_by(1, "[1,1,1,1]", getppid()), *reader = NULL;
		struct handle *b = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, getppid());
		struct inode *inode = inode_at(name);
		struct shown shown;
		int r;

		cr_assert_eq(tree_enter(world_tree, inode, FACE_ANY, getppid(), &shown), 0);
		cr_expect_eq(nodeid_face(shown.nodeid), 0);
		write_at(b, 0, BYTES("[3]"));
		if (beside)
			close_by(a, 1);
		close_by(b, getppid());
		cr_assert_eq(renamed_by(name, document, getppid()), 0);
		cr_expect_str_eq(content_of(document), "[3]");
		r = tree_open_file(world_tree, inode, 0, O_RDONLY, 1, &reader);
		cr_expect_eq(r, beside ? -ESTALE : 0, "%s", strerror(-r));
		if (reader)
			close_handle(reader);
		if (!beside)
			close_by(a, 1);
		forget(inode);
		(void)unlinked(name);
	}
}

EveryStore(temporary, a_name_that_is_removed_does_not_come_back)
{
	struct handle *a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, 1), *b;

	write_at(a, 0, BYTES("[1]"));
	b = open_by(name, O_WRONLY | O_TRUNC, getppid());
	cr_assert_eq(unlinked(name), 0);
	close_by(a, 1);
	close_by(b, getppid());
	cr_expect_eq(looked_up(name), -ENOENT);
	cr_expect_str_eq(names_in("s"), "");
}

EveryStore(temporary, a_save_whose_directory_has_gone_is_given_up)
{
	struct handle *a, *b;

	make_dir("s/d");
	a = open_by("s/d/k.json.tmp", O_WRONLY | O_CREAT | O_TRUNC, 1);
	write_at(a, 0, BYTES("[1]"));
	b = open_by("s/d/k.json.tmp", O_WRONLY | O_TRUNC, getppid());
	write_at(b, 0, BYTES("[2]"));
	close_by(b, getppid());
	cr_assert_eq(renamed_by("s/d/k.json.tmp", document, getppid()), 0);
	cr_assert_eq(removed_dir("s/d"), 0);
	close_by(a, 1);
	cr_expect_str_eq(content_of(document), "[2]");
}

EveryStore(temporary, a_mode_and_an_owner_go_with_the_name)
{
	const struct stat mode = { .st_mode = 0640 };
	struct handle *a = open_by(name, O_WRONLY | O_CREAT | O_TRUNC, 1), *b;

	cr_assert_eq(set_attr(name, &mode, TREE_SET_MODE), 0);
	write_at(a, 0, BYTES("[1]"));
	b = open_by(name, O_WRONLY | O_TRUNC, getppid());
	write_at(b, 0, BYTES("[2]"));
	close_by(b, getppid());
	cr_assert_eq(renamed_by(name, document, getppid()), 0);
	close_by(a, 1);
	cr_expect_eq(stat_of(name).st_mode & 07777, 0640);
	cr_expect_str_eq(content_of(name), "[1]");
}

/* Two that open what looks like a lock mean one file. */
EveryStore(temporary, a_file_that_is_locked_is_shared)
{
	struct handle *a = open_by("s/k.json.lock", O_WRONLY | O_CREAT | O_TRUNC, 1), *b;

	write_at(a, 0, BYTES("1"));
	b = open_by("s/k.json.lock", O_WRONLY | O_TRUNC, getppid());
	cr_expect_str_eq(content_of("s/k.json.lock"), "");
	write_at(b, 0, BYTES("22"));
	write_at(a, 1, BYTES("3"));
	cr_expect_str_eq(content_of("s/k.json.lock"), "23");
	close_by(a, 1);
	close_by(b, getppid());
}
