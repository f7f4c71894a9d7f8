/* SPDX-License-Identifier: MIT */

/* Creating a file (fs/kernel/ops-open.c) whose open fails, without a kernel: what libfuse would say
 * of the request is said by fuse.c, and the answer is kept here. */

#include <unistd.h>

#include "fs/kernel/ops.h"
#include "tests/unit/fuse.h"
#include "tests/unit/world.h"

static struct session session = { .files_lock = PTHREAD_MUTEX_INITIALIZER };

/* The answer. */
static int error;
static uint64_t nodeid;
static struct fuse_file_info opened;

static void keep_error(fuse_req_t req, int err)
{
	(void)req;
	error = -err;
}

static void keep_created(fuse_req_t req, const struct fuse_entry_param *entry,
			 const struct fuse_file_info *fi)
{
	(void)req;
	error = 0;
	nodeid = entry->ino;
	opened = *fi;
}

/* Opens that fail from now on, since the file has been taken away. */
static unsigned stale;

int __real_tree_open_file(struct tree *tree, struct inode *inode, unsigned face, int flags,
			  pid_t pid, struct handle **ret_handle);
int __wrap_tree_open_file(struct tree *tree, struct inode *inode, unsigned face, int flags,
			  pid_t pid, struct handle **ret_handle);

int __wrap_tree_open_file(struct tree *tree, struct inode *inode, unsigned face, int flags,
			  pid_t pid, struct handle **ret_handle)
{
	if (stale) {
		stale--;
		return -ESTALE;
	}
	return __real_tree_open_file(tree, inode, face, flags, pid, ret_handle);
}

static void create(const char *name, int flags)
{
	struct inode *dir = inode_at("s");
	struct fuse_file_info fi = { .flags = O_CREAT | O_WRONLY | flags };

	fuse_stand_in = (struct fuse_stand_in){
		.session = &session,
		.error = keep_error,
		.created = keep_created,
	};
	session.tree = world_tree;
	error = 1;
	op_create(NULL, inode_number(dir), name, 0644, &fi);
	forget(dir);
}

static void end(void)
{
	struct inode *inode = tree_inode(world_tree, nodeid);
	struct open_file *file = request_file(&opened);

	handle_free(world_tree, open_file_free(&session, file));
	tree_forget(world_tree, inode, nodeid, 1);
}

EveryStore(create, of_a_file_that_is_taken_away_is_tried_again)
{
	stale = 3;
	create("l.jsonl", 0);
	cr_assert_eq(error, 0);
	end();
	cr_expect_str_eq(names_in("s"), "l.jsonl");
	stale = 1000;
	create("l.jsonl", 0);
	cr_expect_eq(error, -ESTALE, "not for ever");
	cr_expect_gt(stale, 900);
	stale = 0;
}

/* What the first try has made is not what the caller is to be told of: the kernel asks again. */
EveryStore(create, of_a_file_that_must_not_be_there_is_tried_once)
{
	stale = 1;
	create("l.jsonl", O_EXCL);
	cr_expect_eq(error, -ESTALE);
	create("m.jsonl", O_EXCL);
	cr_assert_eq(error, 0);
	end();
	create("m.jsonl", O_EXCL);
	cr_expect_eq(error, -EEXIST);
}
