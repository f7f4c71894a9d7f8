/* SPDX-License-Identifier: MIT */

/* Notices to the kernel (fs/kernel/notify.c), without a kernel: fuse.c keeps them. */

#include "fs/kernel/notify.h"
#include "fs/kernel/ops.h"
#include "tests/unit/fuse.h"
#include "tests/unit/world.h"

static struct session session = { .files_lock = PTHREAD_MUTEX_INITIALIZER, .threads = 2 };
static unsigned of_root, of_others, of_pages;

/* What the tree has been told to call. */
static struct tree_watcher watcher;

void __real_tree_set_watcher(struct tree *tree, const struct tree_watcher *wanted);
void __wrap_tree_set_watcher(struct tree *tree, const struct tree_watcher *wanted);

void __wrap_tree_set_watcher(struct tree *tree, const struct tree_watcher *wanted)
{
	watcher = *wanted;
	__real_tree_set_watcher(tree, wanted);
}

static void keep_notice(uint64_t nodeid, off_t offset)
{
	of_root += nodeid == FUSE_ROOT_ID;
	of_others += nodeid != FUSE_ROOT_ID;
	of_pages += nodeid == FUSE_ROOT_ID && offset >= 0;
}

static void begin(void)
{
	fuse_stand_in = (struct fuse_stand_in){ .session = &session, .forget = keep_notice };
	session.tree = world_tree;
	notify_start(&session);
}

static void root_changes(void)
{
	watcher.forget(&session, FUSE_ROOT_ID, 0);
}

EveryStore(notices, about_the_root_wait_until_the_kernel_has_used_it)
{
	struct fuse_file_info fi = { 0 };

	begin();
	root_changes();
	watcher.forget(&session, 5, 0);
	cr_expect_eq(of_root, 0, "it waits for the first answer about its attributes");
	cr_expect_eq(of_others, 1);
	op_opendir(NULL, 5, &fi);
	cr_expect_eq(of_root, 0);
	op_opendir(NULL, FUSE_ROOT_ID, &fi);
	cr_expect_eq(of_root, 1, "the attributes have changed");
	cr_expect_eq(of_pages, 0, "and nothing else is known");
	op_opendir(NULL, FUSE_ROOT_ID, &fi);
	cr_expect_eq(of_root, 1);
	root_changes();
	cr_expect_eq(of_root, 2);
	cr_expect_eq(of_pages, 1);
}

EveryStore(notices, that_nobody_held_back_are_not_sent)
{
	struct fuse_file_info fi = { 0 };

	begin();
	op_opendir(NULL, FUSE_ROOT_ID, &fi);
	cr_expect_eq(of_root, 0);
	root_changes();
	cr_expect_eq(of_root, 1);
}

EveryStore(notices, about_the_root_wait_for_a_name_that_is_looked_up_in_it_as_well)
{
	begin();
	root_changes();
	session_ops.lookup(NULL, FUSE_ROOT_ID, "nothing");
	cr_expect_eq(of_root, 1);
	root_changes();
	cr_expect_eq(of_root, 2);
}
