/* SPDX-License-Identifier: MIT */

/* What a store is told of locks (fs/kernel/lock-requests.c) whose answer is lost, without a kernel
 * and with one mount. */

#include <stdatomic.h>
#include <sys/file.h>

#include "fs/kernel/lock-requests.h"
#include "tests/unit/fuse.h"
#include "tests/unit/until.h"
#include "tests/unit/world.h"

static struct session session = { .files_lock = PTHREAD_MUTEX_INITIALIZER };
static int error; /* the answer */

/* What the store has noted, and how many of its answers are lost from now on. */
static atomic_bool noted;
static atomic_uint lost;

int __real_tree_hold_locks(struct tree *tree, bool pending);
int __wrap_tree_hold_locks(struct tree *tree, bool pending);

int __wrap_tree_hold_locks(struct tree *tree, bool pending)
{
	(void)tree;
	noted = pending;
	if (!lost)
		return 1;
	lost--;
	return -EIO;
}

static void keep_error(fuse_req_t req, int err)
{
	(void)req;
	error = -err;
}

static void begin(void)
{
	fuse_stand_in = (struct fuse_stand_in){ .session = &session, .error = keep_error };
	session.tree = world_tree;
	cr_assert_eq(lock_requests_start(&session), 0);
}

static int set(struct open_file *file, int operation)
{
	error = 1;
	lock_request_whole(NULL, file, operation | LOCK_NB);
	return error;
}

EveryStore(notes, of_locks_are_taken_back_though_their_answers_were_lost)
{
	struct open_file file = {
		.handle = open_at("s/l.jsonl", O_RDWR | O_CREAT),
		.id = 1,
		.flushes = true,
	};

	begin();
	lost = 1;
	cr_expect_eq(set(&file, LOCK_EX), -EIO);
	cr_expect(UNTIL(!noted), "no lock is held");
	cr_expect_eq(set(&file, LOCK_EX), 0, "the next one is granted");
	cr_expect(noted);
	lost = 3;
	cr_expect_eq(set(&file, LOCK_UN), 0);
	cr_expect(UNTIL(!lost && !noted), "until an answer says that it is");
	lock_requests_stop(&session);
	close_handle(file.handle);
}
