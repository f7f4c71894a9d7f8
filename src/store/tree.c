/* SPDX-License-Identifier: MIT */
/*
 * By a tree in this process, as the daemon of a mount has it.  The kernel does not check
 * permissions here: a user who may open the store's file may do anything with its content.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/api/trash.h"
#include "fs/api/tree.h"
#include "src/store/way.h"
#include "src/user/settings.h"

enum { LIST_BATCH = 128, OPEN_TRIES = 10 };

static int is_dir(struct tree *tree, struct inode *inode)
{
	struct stat st;
	int r = tree_stat(tree, inode, &st);

	if (r < 0)
		return r;
	return S_ISDIR(st.st_mode) ? 0 : S_ISLNK(st.st_mode) ? -ELOOP : -ENOTDIR;
}

static int tree_step(struct access *access, const struct access_place *from, struct bytes name,
		     struct access_place *ret_place)
{
	struct inode *dir;
	int r = from ? tree_lookup(access->tree, from->dir, name, &dir) :
		       tree_find(access->tree, BACKEND_ROOT, &dir);

	if (r < 0)
		return r;
	r = is_dir(access->tree, dir);
	if (r < 0)
		inode_forget(access->tree, dir, 1);
	else
		ret_place->dir = dir;
	return r;
}

static void tree_done(struct access *access, struct access_place *place)
{
	inode_forget(access->tree, place->dir, 1);
}

/* The inode that a place names, with a reference until found_done(). */
struct found {
	struct tree *tree;
	struct inode *inode; /* NULL: nothing */
	bool open;	     /* the reference is the handle's */
};

static void found_done(struct found *found)
{
	if (found->inode && !found->open)
		inode_forget(found->tree, found->inode, 1);
}

static int place_find(const struct access_place *place, struct found *ret_found)
{
	struct tree *tree = place->access->tree;
	struct inode *inode = place->file ? handle_opened(place->file->handle) : NULL;
	int r = inode	     ? 0 :
		*place->name ? tree_lookup(tree, place->dir, bytes_str(place->name), &inode) :
			       tree_find(tree, BACKEND_ROOT, &inode);

	if (r == 0)
		*ret_found = (struct found){ tree, inode, place->file };
	return r;
}

/* A call of the tree, for what a place names. */
#define TREE_AT(place, call, ...)                                                                  \
	({                                                                                         \
		_cleanup_(found_done) struct found found_ = { 0 };                                 \
		int r_ = place_find(place, &found_);                                               \
		r_ < 0 ? r_ : call(found_.tree, found_.inode, __VA_ARGS__);                        \
	})

static int tree_place_stat(const struct access_place *place, struct stat *ret_stat)
{
	return TREE_AT(place, tree_stat, ret_stat);
}

struct listed {
	char name[NAME_MAX + 1];
	struct stat st;
	struct inode *inode;
};

/* A batch of entries: fn runs without any lock of the tree. */
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
	bool unsound = false;
	int r = 0;

	do {
		listing->count = 0;
		r = tree_list(listing->tree, dir, listing->position, end, with_stat, keep_entry,
			      listing);
		/* The others were handed out. */
		unsound |= r == -EUCLEAN;
		r = r == -EUCLEAN ? 0 : r;
		for (size_t i = 0; i < listing->count; i++) {
			struct listed *listed = &listing->listed[i];
			bool gone = false;

			if (r == 0 && with_stat && !listed->inode) {
				/* What a view lists is looked up by its name. */
				r = tree_lookup(listing->tree, dir, bytes_str(listed->name),
						&listed->inode);
				if (r == 0)
					r = tree_stat(listing->tree, listed->inode, &listed->st);
				gone = r == -ENOENT;
				r = gone ? 0 : r;
			}
			if (listed->inode)
				inode_forget(listing->tree, listed->inode, 1);
			if (r == 0 && !gone)
				r = fn(arg, listed->name, &listed->st);
		}
	} while (r == 0 && listing->count == LIST_BATCH);
	return r == 0 && unsound ? -EIO : r;
}

static int tree_place_list(const struct access_place *place, bool with_stat, access_entry_fn *fn,
			   void *arg)
{
	_cleanup_(freep) struct listing *listing = calloc(1, sizeof(*listing));
	_cleanup_(found_done) struct found dir = { 0 };
	int r = listing ? place_find(place, &dir) : -ENOMEM;

	if (r == 0)
		r = is_dir(dir.tree, dir.inode);
	if (r < 0)
		return r;
	listing->tree = dir.tree;
	return list_all(listing, dir.inode, with_stat, fn, arg);
}

static int make(const struct access_place *place, const struct tree_new *what,
		struct found *ret_found)
{
	const struct caller caller = { geteuid(), getegid() };
	struct tree *tree = place->access->tree;
	struct inode *inode;
	int r = tree_make(tree, &caller, place->dir, bytes_str(place->name), what, &inode);

	if (r == 0)
		*ret_found = (struct found){ tree, inode, false };
	return r;
}

static mode_t masked(mode_t mode)
{
	mode_t mask = umask(0);

	umask(mask);
	return mode & ~mask;
}

static int tree_make_special(const struct access_place *place, const struct access_new *what)
{
	const struct tree_new wanted = {
		.mode = S_ISLNK(what->mode) ? what->mode | 0777 : masked(what->mode),
		.target = S_ISLNK(what->mode) ? bytes_str(what->target) : (struct bytes){ 0 },
		.will_save = S_ISDIR(what->mode),
	};
	_cleanup_(found_done) struct found made = { 0 };

	return make(place, &wanted, &made);
}

static int tree_place_link(const struct access_place *from, const struct access_place *to)
{
	return TREE_AT(from, tree_link, to->dir, bytes_str(to->name));
}

static int tree_read_link(const struct access_place *place, struct buf *target)
{
	return TREE_AT(place, tree_readlink, target);
}

static int set_attr(struct tree *tree, struct inode *inode, struct handle *handle,
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
	return tree_set_attr(tree, inode, &set, &now, &own);
}

static int tree_place_set_attr(const struct access_place *place, const struct stat *st,
			       unsigned mask)
{
	struct handle *handle = place->file ? place->file->handle : NULL;

	return TREE_AT(place, set_attr, handle, st, mask);
}

static int tree_place_list_xattr(const struct access_place *place, struct buf *names)
{
	return TREE_AT(place, tree_list_xattr, names);
}

static int tree_place_get_xattr(const struct access_place *place, const char *name,
				struct buf *value)
{
	return TREE_AT(place, tree_get_xattr, bytes_str(name), value);
}

static int tree_place_set_xattr(const struct access_place *place, const char *name,
				const struct bytes *value)
{
	_cleanup_(found_done) struct found found = { 0 };
	int r = place_find(place, &found);

	return r < 0 ? r :
	       value ? tree_set_xattr(found.tree, found.inode, bytes_str(name), *value, 0) :
		       tree_remove_xattr(found.tree, found.inode, bytes_str(name));
}

static int tree_sync(struct access *access)
{
	return handle_sync(access->tree, NULL);
}

static int tree_remove(const struct access_place *place, bool dir)
{
	return (dir ? tree_rmdir : tree_unlink)(place->access->tree, place->dir,
						bytes_str(place->name));
}

static int tree_place_rename(const struct access_place *from, const char *to)
{
	return tree_rename(from->access->tree, from->dir, bytes_str(from->name), from->dir,
			   bytes_str(to), 0);
}

static int tree_way_order(struct access *access, struct bytes order)
{
	return tree_order(access->tree, order);
}

/* -ESTALE: another mount has made the file just now. */
static int find_or_make(const struct access_place *place, int flags, mode_t mode,
			struct found *ret_found)
{
	const struct tree_new what = {
		.mode = S_IFREG | masked(mode),
		.will_save = !(flags & O_APPEND),
	};
	int r = place_find(place, ret_found);

	if (r == 0 && (flags & O_EXCL))
		return -EEXIST;
	if (r != -ENOENT || !(flags & O_CREAT))
		return r;
	r = make(place, &what, ret_found);
	return r == -EEXIST && !(flags & O_EXCL) ? -ESTALE : r;
}

/* A nameless file goes with its last handle; if we are killed, another mount removes it. */
static int tree_begin(const struct access_place *place, mode_t mode, struct access_file *file)
{
	const struct caller caller = { geteuid(), getegid() };
	_cleanup_(found_done) struct found made = { .tree = place->access->tree };
	int r = tree_make_nameless(made.tree, &caller, place->dir, S_IFREG | masked(mode),
				   &made.inode);

	return r < 0 ? r :
		       tree_open_file(made.tree, made.inode, FACE_ANY, O_WRONLY, getpid(),
				      &file->handle);
}

static int tree_take_place(struct access_file *file, const struct access_place *place)
{
	return tree_name(file->access->tree, handle_opened(file->handle), place->dir,
			 bytes_str(place->name));
}

static int tree_open_place(const struct access_place *place, int flags, mode_t mode,
			   struct access_file *file)
{
	int r, tries = 0;

	do {
		_cleanup_(found_done) struct found found = { 0 };

		r = find_or_make(place, flags, mode, &found);
		if (r == 0)
			r = tree_open_file(found.tree, found.inode, FACE_ANY,
					   flags & ~(O_CREAT | O_EXCL), getpid(), &file->handle);
		/* -ESTALE also when another program has replaced its rows meanwhile. */
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

static int tree_resize(struct access_file *file, uint64_t size)
{
	const struct stat st = { .st_size = (off_t)size };
	const struct set_attr set = {
		.mask = TREE_SET_SIZE, .handle = file->handle, .pid = getpid(), .st = &st
	};
	struct stat now;
	bool own;

	return tree_set_attr(file->access->tree, handle_opened(file->handle), &set, &now, &own);
}

static int tree_settle(struct access_file *file, bool sync)
{
	struct tree *tree = file->access->tree;
	int r = handle_flush(tree, file->handle, getpid());

	return r == 0 && sync ? handle_sync(tree, file->handle) : r;
}

static int tree_finish(struct access_file *file, bool sync)
{
	int r = tree_settle(file, sync);

	handle_free(file->access->tree, file->handle);
	return r;
}

static void tree_drop(struct access_file *file)
{
	handle_abandon(file->access->tree, file->handle);
}

static void tree_end(struct access *access)
{
	access_news_end(access);
	tree_close(access->tree);
}

static const struct access_way way = {
	.close = tree_end,
	.step = tree_step,
	.done = tree_done,
	.stat = tree_place_stat,
	.list = tree_place_list,
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
	.begin = tree_begin,
	.settle = tree_settle,
	.take_place = tree_take_place,
	.read = tree_read,
	.next = access_tree_next,
	.write = tree_write,
	.resize = tree_resize,
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

/* As a mount opens it: shared, when it writes. */
static int open_owned(const char *store, const struct backend_options *options,
		      struct backend **ret_backend, char **ret_why)
{
	struct backend_options wanted = *options;
	char owner[64];

	snprintf(owner, sizeof(owner), "process %d, a command of sessfs", (int)getpid());
	wanted.owner = owner;
	wanted.shared = !options->read_only;
	wanted.must_own = true;
	return backend_open(store, &wanted, ret_backend, ret_why);
}

/* Make files for the rows that other programs have changed while the store had no owner, as a mount
 * would.  -EBUSY when another process owns the store; it does so itself. */
static int take_in(const char *store, const struct options *options, char **ret_why)
{
	const struct backend_options wanted = { .read_only = true, .table = options->table };
	const struct tree_options reading = { .read_only = true, .whole = true };
	struct backend *backend;
	struct tree *tree;
	int r = open_owned(store, &wanted, &backend, ret_why);

	if (r == 0)
		r = plant(backend, &reading, &tree, ret_why);
	if (r == 0)
		tree_close(tree);
	return r;
}

/*
 * An answer has all that was committed before the question.  So before it reads, a command makes
 * the files that are missing, or lets the owner make them: -EBUSY as long as that takes.  It does
 * not wait for changes that come later.
 */
static int catch_up(struct access *access, const char *store, const struct options *options,
		    struct backend *backend, char **ret_why)
{
	int64_t oldest, newest;
	_cleanup_(freep) char *why = NULL;
	struct settings settings = { 0 };
	int r = backend_change_waiting(backend, &oldest, &newest);

	if (r < 0)
		return r == -EOPNOTSUPP ? 0 : r;
	if (!access->newest)
		access->newest = newest;
	/* If a setting is not understood, the reader explains it. */
	if (settings_read(backend, &settings, NULL, &why) < 0)
		settings.unadopted = false;
	if (!settings.unadopted && (!oldest || oldest > access->newest))
		return 0;
	r = take_in(store, options, ret_why);
	/* Of a damaged store what can be read is shown. */
	if (r == 0 || r == -EIO)
		return 0;
	return str_explain(
		ret_why, r,
		"%s: other programs have changed rows that have no files yet, and this command "
		"cannot make them (%s); try again later, or as a user who may write to the store",
		store, *ret_why ? *ret_why : strerror(-r));
}

static int open_to_read(struct access *access, const char *store, const struct options *options,
			char **ret_why)
{
	const struct tree_options wanted = { .read_only = true };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	int r = access_backend(store, options, false, &backend, ret_why);

	if (r == 0)
		r = catch_up(access, store, options, backend, ret_why);
	return r < 0 ? r : plant(steal_ptr(backend), &wanted, &access->tree, ret_why);
}

static int open_to_write(struct access *access, const char *store, bool create,
			 const struct options *options, char **ret_why)
{
	const struct backend_options wanted = { .create = create, .table = options->table };
	const struct tree_options writing = { .strict = options->tree.strict,
					      .exact = options->tree.exact,
					      .history = TRASH_GRACE };
	_cleanup_(backend_closep) struct backend *backend = NULL;
	int r = open_owned(store, &wanted, &backend, ret_why);

	if (r == 0)
		r = settings_agree(backend, options, ret_why);
	return r < 0 ? r : plant(steal_ptr(backend), &writing, &access->tree, ret_why);
}

int access_tree_open(struct access *access, const char *store, unsigned flags,
		     const struct options *options, char **ret_why)
{
	int r = flags & (ACCESS_WRITE | ACCESS_FOLLOW) ?
			open_to_write(access, store, flags & ACCESS_CREATE, options, ret_why) :
			open_to_read(access, store, options, ret_why);

	if (r == 0)
		access->way = &way;
	return r;
}
