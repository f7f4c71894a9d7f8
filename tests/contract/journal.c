/* SPDX-License-Identifier: MIT */
/* The example of a backend, contrib/backend-journal/: what is its own, which is to be opened again.
 * All that holds for every store is tried on it, too (stores.c). */
#include "contrib/backend-journal/journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/log.h"
#include "tests/contract/contract.h"

static const struct backend_options fresh = { .create = true, .owner = "the test" };
static const struct backend_options reader = { .read_only = true };

static struct backend *open_journal(const struct backend_options *options)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;
	int r = journal_backend_open(scratch_path("journal"), options, &backend, &why);

	cr_assert_eq(r, 0, "%s", why);
	return remember(backend);
}

struct backend *fresh_journal(void)
{
	return open_journal(&fresh);
}

static void expect_refusal(const struct backend_options *options, int error, const char *words)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;

	cr_assert_eq(journal_backend_open(scratch_path("journal"), options, &backend, &why), error);
	cr_assert_null(backend);
	cr_assert(strstr(why, words), "\"%s\" does not say \"%s\"", why, words);
}

TestSuite(journals, .fini = close_stores);

/* Something of everything, in several batches. */
static void commit_some(struct backend *backend)
{
	struct backend_node node = state_node(5, S, K), plain = plain_node(6);

	node.btime = 4711;
	plain.target = BYTES("to\0where");
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("{}")), node_put(&node)), 0);
	cr_assert_eq(COMMIT(backend, row_insert(S, K, 0, BYTES("no"))), -EEXIST);
	cr_assert_eq(COMMIT(backend, node_put(&plain), entry_put(1, 2, BYTES("f"), 6),
			    xattr_put(6, BYTES("user.a"), BYTES("")),
			    chunk_put(6, 3, BYTES("c\0d")), piece_put(5, 1, 2, BYTES("p"))),
		     0);
}

static void expect_some(struct backend *backend)
{
	struct backend_snapshot *snapshot = look(backend);
	struct backend_node node;

	cr_assert_eq(backend->ops->node_find(backend, snapshot, S, K, &node), 0);
	cr_assert_eq(node.btime, 4711);
	backend_node_done(&node);
	cr_assert_eq(backend->ops->node_get(backend, snapshot, 6, &node), 0);
	cr_assert(bytes_equal(node.target, BYTES("to\0where")));
	cr_assert_null(node.session.data);
	backend_node_done(&node);
	unlook(backend, snapshot);
	cr_assert_str_eq(rows_of(backend, S, K), "0={}");
	cr_assert_str_eq(entries_of(backend, 1, 0), "2:f=6");
	cr_assert_str_eq(xattrs_of(backend, 6), "user.a");
	cr_assert_str_eq(chunks_of(backend, 6, 0, 9), "3=c\\0d");
	cr_assert_str_eq(pieces_of(backend, 5, 0), "1.2=p");
}

Test(journals, that_are_opened_again_have_what_was_committed)
{
	struct backend *backend = open_journal(&fresh);

	commit_some(backend);
	shut(backend);
	backend = open_journal(&fresh);
	expect_some(backend);
	cr_assert_eq(COMMIT(backend, row_put(S, K, 1, BYTES("1"))), 0);
	shut(backend);
	cr_assert_str_eq(rows_of(open_journal(&reader), S, K), "0={} 1=1");
}

static off_t size_of_journal(void)
{
	struct stat st;

	cr_assert_eq(stat(scratch_path("journal"), &st), 0);
	return st.st_size;
}

Test(journals, that_end_anywhere_in_a_batch_never_had_it)
{
	struct backend *backend = open_journal(&fresh);
	off_t before, after;

	log_set_level(LOG_ERR);
	commit_some(backend);
	before = size_of_journal();
	cr_assert_eq(COMMIT(backend, row_put(S, K, 1, BYTES("1")), row_put(S, K, 2, BYTES("2"))),
		     0);
	after = size_of_journal();
	shut(backend);
	for (off_t end = after - 1; end >= before; end--) {
		cr_assert_eq(truncate(scratch_path("journal"), end), 0);
		backend = open_journal(&reader);
		cr_assert_str_eq(rows_of(backend, S, K), "0={}", "%ld of %ld bytes", (long)end,
				 (long)after);
		shut(backend);
	}
	/* what is left of it does not stand in the way of the next one */
	cr_assert_eq(truncate(scratch_path("journal"), after), 0);
	backend = open_journal(&fresh);
	cr_assert_eq(COMMIT(backend, row_put(S, K, 7, BYTES("7"))), 0);
	shut(backend);
	backend = open_journal(&fresh);
	cr_assert_str_eq(rows_of(backend, S, K), "0={} 7=7");
	cr_assert_eq(COMMIT(backend, row_delete(S, K, 7, 7)), 0);
	expect_some(backend);
}

Test(journals, of_which_the_last_batch_was_written_in_part_never_had_it)
{
	struct backend *backend = open_journal(&fresh);
	off_t before, after;

	log_set_level(LOG_ERR);
	commit_some(backend);
	before = size_of_journal();
	cr_assert_eq(COMMIT(backend, row_put(S, K, 1, BYTES("1"))), 0);
	after = size_of_journal();
	shut(backend);
	/* The file had grown already, but not all of its blocks were there. */
	cr_assert_eq(truncate(scratch_path("journal"), before + (after - before) / 2), 0);
	cr_assert_eq(truncate(scratch_path("journal"), after), 0);
	expect_some(open_journal(&fresh));
}

Test(journals, belong_to_one_store_at_a_time)
{
	struct backend *backend = open_journal(&fresh);

	expect_refusal(&fresh, -EBUSY, "in use");
	expect_refusal(&reader, -EBUSY, "in use");
	shut(backend);
	shut(open_journal(&fresh));
}

Test(journals, that_are_not_there_or_none_are_refused)
{
	FILE *file;

	expect_refusal(&reader, -ENOENT, "no journal");
	file = fopen(scratch_path("journal"), "w");
	cr_assert_gt(fputs("hello, this is no journal, although it is long enough for one", file),
		     0);
	fclose(file);
	expect_refusal(&reader, -EMEDIUMTYPE, "not a journal");
}

Test(journals, for_reading_only_are_not_written)
{
	struct backend *backend = open_journal(&fresh);
	off_t size;

	commit_some(backend);
	shut(backend);
	size = size_of_journal();
	backend = open_journal(&reader);
	cr_assert_eq(COMMIT(backend, row_put(S, K, 1, BYTES("1"))), -EROFS);
	cr_assert_eq(COMMIT(backend, xattr_put(6, BYTES("user.b"), BYTES("1"))), 0);
	shut(backend);
	cr_assert_eq(size_of_journal(), size);
}
