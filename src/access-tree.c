/* SPDX-License-Identifier: MIT */
/*
 * By a tree in this process, as the daemon of a mount has it.  There is no kernel in between that
 * checks permissions: who may open the store's file may do anything with what is in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "fs/model/trash.h"
#include "fs/model/tree.h"
#include "src/access-way.h"
#include "src/base/cleanup.h"

enum { LIST_BATCH = 128, OPEN_TRIES = 10 };

static int is_dir(struct tree *tree, struct inode *inode)
{
	struct stat st;
	int r = tree_stat(tree, inode, &st);

	if (r < 0)
		return r;
	return S_ISDIR(st.st_mode) ? 0 : S_ISLNK(st.st_mode) ? -ELOOP : -ENOTDIR;
}

/* From a directory to one of its own, whose count takes the place of the other. */
static int descend(struct tree *tree, struct bytes name, struct inode **dir)
{
	struct inode *next;
	int r = tree_lookup(tree, *dir, name, &next);

	if (r < 0)
		return r;
	inode_forget(tree, *dir, 1);
	*dir = next;
	return is_dir(tree, next);
}

static int walk_dirs(struct tree *tree, struct bytes path, struct inode **dir)
{
	int r = 0;

	while (r == 0 && path.size) {
		const char *slash = memchr(path.data, '/', path.size);
		size_t size = slash ? (size_t)(slash - path.data) : path.size;

		r = descend(tree, bytes_make(path.data, size), dir);
		size += slash != NULL;
		path = bytes_make(path.data + size, path.size - size);
	}
	return r;
}

static int tree_place(struct access *access, const char *path, struct access_place *ret_place)
{
	struct inode *dir;
	size_t size;
	const char *name = access_split(path, &size);
	int r = tree_find(access->tree, BACKEND_ROOT, &dir);

	if (r < 0)
		return r;
	r = walk_dirs(access->tree, bytes_make(path, size), &dir);
	if (r < 0) {
		inode_forget(access->tree, dir, 1);
		return r;
	}
	ret_place->dir = dir;
	ret_place->name = name;
	return 0;
}

static void tree_done(struct access *access, struct access_place *place)
{
	inode_forget(access->tree, place->dir, 1);
}

/* What the place names, counted. */
static int find(struct access *access, const struct access_place *place, struct inode **ret_inode)
{
	if (!*place->name)
		return tree_find(access->tree, BACKEND_ROOT, ret_inode);
	return tree_lookup(access->tree, place->dir, bytes_str(place->name), ret_inode);
}

static int tree_place_stat(struct access *access, const struct access_place *place,
			   struct stat *ret_stat)
{
	struct inode *inode;
	int r = find(access, place, &inode);

	if (r < 0)
		return r;
	r = tree_stat(access->tree, inode, ret_stat);
	inode_forget(access->tree, inode, 1);
	return r;
}

struct listed {
	char name[NAME_MAX + 1];
	struct stat st;
	struct inode *inode;
};

/* Some entries at a time, so that nothing of the store is held while fn does its work. */
struct listing {
	struct tree *tree;
	struct listed listed[LIST_BATCH];
	size_t count;
	uint64_t position;
};

static int keep_entry(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		      uint64_t position)
{
	struct listing *listing = arg;
	struct listed *listed = &listing->listed[listing->count];

	if (listing->count == LIST_BATCH)
		return 1;
	listing->position = position;
	if (bytes_equal(name, BYTES(".")) || bytes_equal(name, BYTES("..")))
		return 0;
	snprintf(listed->name, sizeof(listed->name), "%.*s", (int)name.size, name.data);
	listed->st = shown->st;
	listed->inode = inode; /* given back when no lock is held */
	listing->count++;
	return 0;
}

static int list_all(struct listing *listing, struct inode *dir, bool with_stat, access_entry_fn *fn,
		    void *arg)
{
	const uint64_t end = tree_list_end(listing->tree);
	int r = 0;

	do {
		listing->count = 0;
		r = tree_list(listing->tree, dir, listing->position, end, with_stat, keep_entry,
			      listing);
		for (size_t i = 0; i < listing->count; i++) {
			struct listed *listed = &listing->listed[i];

			if (listed->inode)
				inode_forget(listing->tree, listed->inode, 1);
			if (r == 0)
				r = fn(arg, listed->name, &listed->st);
		}
	} while (r == 0 && listing->count == LIST_BATCH);
	return r;
}

static int tree_place_list(struct access *access, const struct access_place *place, bool with_stat,
			   access_entry_fn *fn, void *arg)
{
	_cleanup_(freep) struct listing *listing = calloc(1, sizeof(*listing));
	struct inode *dir;
	int r = listing ? find(access, place, &dir) : -ENOMEM;

	if (r < 0)
		return r;
	listing->tree = access->tree;
	r = is_dir(access->tree, dir);
	if (r == 0)
		r = list_all(listing, dir, with_stat, fn, arg);
	inode_forget(access->tree, dir, 1);
	return r;
}

static int make_as(struct access *access, const struct access_place *place,
		   const struct tree_new *what, struct inode **ret_inode)
{
	const struct caller caller = { geteuid(), getegid() };

	return tree_make(access->tree, &caller, place->dir, bytes_str(place->name), what,
			 ret_inode);
}

static int make(struct access *access, const struct access_place *place, mode_t mode,
		struct inode **ret_inode)
{
	const struct tree_new what = { .mode = mode, .will_write = true };

	return make_as(access, place, &what, ret_inode);
}

static mode_t masked(mode_t mode)
{
	mode_t mask = umask(0);

	umask(mask);
	return mode & ~mask;
}

static int tree_make_dir(struct access *access, const struct access_place *place, mode_t mode)
{
	struct inode *inode;
	int r = make(access, place, S_IFDIR | masked(mode), &inode);

	if (r == 0)
		inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_make_special(struct access *access, const struct access_place *place,
			     const struct access_new *what)
{
	const struct tree_new wanted = {
		.mode = S_ISLNK(what->mode) ? what->mode | 0777 : masked(what->mode),
		.rdev = what->rdev,
		.target = bytes_str(what->target ? what->target : ""),
	};
	struct inode *inode;
	int r = make_as(access, place, &wanted, &inode);

	if (r == 0)
		inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_place_link(struct access *access, const struct access_place *from,
			   const struct access_place *to)
{
	struct inode *inode;
	int r = find(access, from, &inode);

	if (r < 0)
		return r;
	r = tree_link(access->tree, inode, to->dir, bytes_str(to->name));
	inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_read_link(struct access *access, const struct access_place *place,
			  struct buf *target)
{
	struct inode *inode;
	int r = find(access, place, &inode);

	if (r < 0)
		return r;
	r = tree_readlink(access->tree, inode, target);
	inode_forget(access->tree, inode, 1);
	return r;
}

static int set_attr(struct access *access, struct inode *inode, struct handle *handle,
		    const struct stat *st, unsigned mask)
{
	struct set_attr set = { .handle = handle, .pid = getpid(), .st = st };
	struct stat now;
	bool own;

	if (mask & ACCESS_SET_MODE)
		set.mask |= TREE_SET_MODE;
	if (mask & ACCESS_SET_OWNER)
		set.mask |= TREE_SET_UID | TREE_SET_GID;
	if (mask & ACCESS_SET_TIMES)
		set.mask |= TREE_SET_ATIME | TREE_SET_MTIME;
	return tree_set_attr(access->tree, inode, &set, &now, &own);
}

static int tree_place_set_attr(struct access *access, const struct access_place *place,
			       const struct stat *st, unsigned mask)
{
	struct inode *inode;
	int r = find(access, place, &inode);

	if (r < 0)
		return r;
	r = set_attr(access, inode, NULL, st, mask);
	inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_place_list_xattr(struct access *access, const struct access_place *place,
				 struct buf *names)
{
	struct inode *inode;
	int r = find(access, place, &inode);

	if (r < 0)
		return r;
	r = tree_list_xattr(access->tree, inode, names);
	inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_place_get_xattr(struct access *access, const struct access_place *place,
				const char *name, struct buf *value)
{
	struct inode *inode;
	int r = find(access, place, &inode);

	if (r < 0)
		return r;
	r = tree_get_xattr(access->tree, inode, bytes_str(name), value);
	inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_place_set_xattr(struct access *access, const struct access_place *place,
				const char *name, const struct bytes *value)
{
	struct inode *inode;
	int r = find(access, place, &inode);

	if (r < 0)
		return r;
	r = value ? tree_set_xattr(access->tree, inode, bytes_str(name), *value, 0) :
		    tree_remove_xattr(access->tree, inode, bytes_str(name));
	inode_forget(access->tree, inode, 1);
	return r;
}

static int tree_sync(struct access *access)
{
	return handle_sync(access->tree, NULL);
}

static int tree_remove(struct access *access, const struct access_place *place, bool dir)
{
	return (dir ? tree_rmdir : tree_unlink)(access->tree, place->dir, bytes_str(place->name));
}

static int tree_place_rename(struct access *access, const struct access_place *from, const char *to)
{
	return tree_rename(access->tree, from->dir, bytes_str(from->name), from->dir, bytes_str(to),
			   0);
}

static int tree_way_order(struct access *access, struct bytes order)
{
	return tree_order(access->tree, order);
}

static int find_or_make(struct access *access, const struct access_place *place, int flags,
			mode_t mode, struct inode **ret_inode)
{
	int r = find(access, place, ret_inode);

	if (r == 0 && (flags & O_EXCL)) {
		inode_forget(access->tree, *ret_inode, 1);
		return -EEXIST;
	}
	if (r == -ENOENT && (flags & O_CREAT))
		r = make(access, place, S_IFREG | masked(mode), ret_inode);
	return r;
}

static int tree_open_place(struct access *access, const struct access_place *place, int flags,
			   mode_t mode, struct access_file *file)
{
	struct inode *inode;
	int r, tries = 0;

	do {
		r = find_or_make(access, place, flags, mode, &inode);
		if (r < 0)
			break;
		r = tree_open_file(access->tree, inode, FACE_ANY, flags & ~(O_CREAT | O_EXCL),
				   getpid(), &file->handle);
		inode_forget(access->tree, inode, 1);
		/* Another program has replaced its rows meanwhile. */
	} while (r == -ESTALE && ++tries < OPEN_TRIES);
	return r;
}

static ssize_t tree_read(struct access_file *file, void *data, size_t size)
{
	_cleanup_(buf_done) struct buf read = { 0 };
	int r = handle_read(file->access->tree, file->handle, file->offset, size, &read);

	if (r < 0)
		return r;
	if (read.size)
		memcpy(data, read.data, read.size);
	return (ssize_t)read.size;
}

static ssize_t tree_write(struct access_file *file, struct bytes data)
{
	return handle_write(file->access->tree, file->handle, getpid(), file->offset, data);
}

static int tree_dress(struct access_file *file, const struct stat *like, unsigned mask)
{
	return set_attr(file->access, handle_inode(file->handle), file->handle, like, mask);
}

static int tree_finish(struct access_file *file, bool sync)
{
	struct tree *tree = file->access->tree;
	int r = handle_flush(tree, file->handle, getpid());

	if (r == 0 && sync)
		r = handle_sync(tree, file->handle);
	handle_free(tree, file->handle);
	return r;
}

static void tree_drop(struct access_file *file)
{
	handle_abandon(file->access->tree, file->handle);
}

static void tree_end(struct access *access)
{
	tree_close(access->tree);
}

static const struct access_way way = {
	.keeps_dirs = true,
	.close = tree_end,
	.place = tree_place,
	.done = tree_done,
	.stat = tree_place_stat,
	.list = tree_place_list,
	.make_dir = tree_make_dir,
	.remove = tree_remove,
	.rename = tree_place_rename,
	.make = tree_make_special,
	.link = tree_place_link,
	.read_link = tree_read_link,
	.set_attr = tree_place_set_attr,
	.list_xattr = tree_place_list_xattr,
	.get_xattr = tree_place_get_xattr,
	.set_xattr = tree_place_set_xattr,
	.sync = tree_sync,
	.order = tree_way_order,
	.open = tree_open_place,
	.read = tree_read,
	.write = tree_write,
	.dress = tree_dress,
	.finish = tree_finish,
	.drop = tree_drop,
};

/* Takes the backend over, also when it fails. */
static int plant(struct backend *backend, const struct tree_options *wanted, struct tree **ret_tree,
		 char **ret_why)
{
	int r = tree_open(backend, wanted, ret_tree, ret_why);

	if (r < 0)
		backend_close(backend);
	return r;
}

static int open_owned(const char *store, const struct backend_options *options,
		      struct backend **ret_backend, char **ret_why)
{
	struct backend_options wanted = *options;
	char owner[64];

	snprintf(owner, sizeof(owner), "process %d, a command of sessfs", (int)getpid());
	wanted.owner = owner;
	return backend_open(store, &wanted, ret_backend, ret_why);
}

/* What other programs have changed while nobody owned the store is taken in, as a mount would.  Who
 * cannot shows what there was before. */
static void catch_up(const char *store, const struct options *options)
{
	const struct backend_options wanted = { .read_only = true, .table = options->table };
	const struct tree_options reading = { .read_only = true };
	_cleanup_(freep) char *why = NULL;
	struct backend *backend;
	struct tree *tree;

	if (backend_is_owned(store) || open_owned(store, &wanted, &backend, &why) < 0)
		return;
	if (!backend_is_owned(store)) { /* there is nothing of ours in it to bring up to date */
		backend_close(backend);
		return;
	}
	if (plant(backend, &reading, &tree, NULL) == 0)
		tree_close(tree);
}

static int open_to_read(struct access *access, const char *store, const struct options *options,
			char **ret_why)
{
	const struct tree_options wanted = { .read_only = true };
	struct backend *backend;
	int r = access_backend(store, options, &backend, ret_why);

	if (r < 0)
		return r;
	catch_up(store, options);
	return plant(backend, &wanted, &access->tree, ret_why);
}

static int open_to_write(struct access *access, const char *store, bool create,
			 const struct options *options, char **ret_why)
{
	const struct backend_options wanted = { .create = create, .table = options->table };
	const struct tree_options writing = { .strict = options->strict, .exact = options->exact };
	struct backend *backend;
	int r = open_owned(store, &wanted, &backend, ret_why);

	return r < 0 ? r : plant(backend, &writing, &access->tree, ret_why);
}

int access_tree_open(struct access *access, const char *store, unsigned flags,
		     const struct options *options, char **ret_why)
{
	int r = flags & ACCESS_WRITE ?
			open_to_write(access, store, flags & ACCESS_CREATE, options, ret_why) :
			open_to_read(access, store, options, ret_why);

	if (r == 0)
		access->way = &way;
	return r;
}
