/* SPDX-License-Identifier: MIT */
#include "tests/fuzz/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>

#include "backend/memory/memory.h"

enum {
	DEPTH_MAX = 40,	      /* directories in each other that are looked into */
	ENTRIES_MAX = 100000, /* no input makes so many */
	READ_MAX = 1 << 20,   /* bytes of one file */
	WALK_ENTRIES = 200,   /* entries of one tree that are looked at */
	EACH_ENTRIES = 20,    /* and that are changed */
	PART = 4096,
};

static char folder[64];
static char store[96];
static pid_t owner;

static const char *const ends[] = { "", "-wal", "-shm", "-journal", "-reserve" };

static const char *path_of(const char *end)
{
	static char path[128];

	place_store();
	snprintf(path, sizeof(path), "%s%s", store, end);
	return path;
}

void place_clear(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		unlink(path_of(ends[i]));
}

static void remove_folder(void)
{
	if (getpid() != owner)
		return;
	place_clear();
	rmdir(folder);
}

const char *place_store(void)
{
	const char *room = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

	if (*store)
		return store;
	snprintf(folder, sizeof(folder), "%s/sessfs-fuzz-XXXXXX", room ? room : "/tmp");
	fuzz_need(mkdtemp(folder));
	snprintf(store, sizeof(store), "%s/store.db", folder);
	owner = getpid();
	atexit(remove_folder);
	return store;
}

void place_put(const char *end, struct bytes bytes)
{
	FILE *file;

	unlink(path_of(end));
	if (!bytes.size)
		return;
	file = fopen(path_of(end), "we");
	fuzz_need(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size);
	fuzz_need(fclose(file) == 0);
}

void place_get(const char *end, struct buf *bytes)
{
	FILE *file = fopen(path_of(end), "re");
	char part[PART];
	size_t n;

	while (file && (n = fread(part, 1, sizeof(part), file)) > 0)
		fuzz_put(bytes, part, n);
	if (file)
		fclose(file);
}

static void make_fresh(struct buf *fresh)
{
	const struct backend_options options = { .create = true };
	struct backend *backend;

	place_clear();
	fuzz_need(backend_open(place_store(), &options, &backend, NULL) == 0);
	backend_close(backend);
	place_get("", fresh);
}

void place_fresh(void)
{
	static struct buf fresh;

	if (!fresh.size)
		make_fresh(&fresh);
	place_clear();
	place_put("", buf_bytes(&fresh));
}

static struct tree *tree_of(struct backend *backend, const struct tree_options *options,
			    int *ret_error)
{
	_cleanup_(freep) char *why = NULL;
	struct tree *tree = NULL;

	*ret_error = tree_open(backend, options, &tree, &why);
	if (*ret_error == 0)
		return tree;
	fuzz_check(*ret_error < 0 && why && *why, "tree_open: %d without a sentence", *ret_error);
	backend_close(backend);
	return NULL;
}

struct tree *place_open(const struct backend_options *options,
			const struct tree_options *tree_options, int *ret_error)
{
	_cleanup_(freep) char *why = NULL;
	struct backend *backend = NULL;

	*ret_error = backend_open(place_store(), options, &backend, &why);
	if (*ret_error == 0)
		return tree_of(backend, tree_options, ret_error);
	fuzz_check(*ret_error < 0 && why && *why, "backend_open: %d without a sentence",
		   *ret_error);
	return NULL;
}

struct tree *place_memory(const struct tree_options *tree_options)
{
	const struct backend_options options = { .create = true };
	struct backend *backend;
	struct tree *tree;
	int r;

	fuzz_need(memory_backend_open(&options, &backend) == 0);
	tree = tree_of(backend, tree_options, &r);
	fuzz_need(tree);
	return tree;
}

static int end_ghosts(struct tree *tree)
{
	WITH_WRITE_LOCK(tree);

	return ghosts_end(tree, true, NULL);
}

void place_settle(struct tree *tree)
{
	TREE_RETRY(tree, end_ghosts(tree));
	tree_write_times(tree, true);
}

void place_check_inodes(struct tree *tree)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	size_t count = 0;

	/* The tree's own threads may hold one for a moment. */
	for (unsigned attempt = 0; attempt < 100000 && count != 1; attempt++) {
		if (attempt)
			nanosleep(&moment, NULL);
		place_settle(tree);
		pthread_mutex_lock(&tree->table_lock);
		count = tree->inodes.count;
		pthread_mutex_unlock(&tree->table_lock);
	}
	fuzz_check(count == 1, "%zu inodes are known beside the root", count - 1);
}

static void report(void *arg, const char *sentence)
{
	if (arg)
		fuzz_need(buf_printf(arg, "%s\n", sentence) == 0);
}

int64_t place_violations(struct backend *backend, struct buf *said)
{
	struct check_result result = { 0 };
	int r = check_store(backend, report, said, &result);

	return r < 0 ? r : (int64_t)result.violations;
}

/* Walking. */

struct entry {
	char *name;
	size_t name_size;
	uint64_t ino;
};

struct listing {
	struct tree *tree;
	enum walk walk;
	uint64_t position;
	bool with_inodes;
	struct entry *entry;
	size_t count;
};

static void check_name(struct bytes name)
{
	fuzz_check(name.size >= 1 && name.size <= 255, "a name of %zu bytes", name.size);
	fuzz_check(!memchr(name.data, '/', name.size) && !memchr(name.data, '\0', name.size),
		   "the name %.*s", (int)name.size, name.data);
	fuzz_check(!bytes_equal(name, BYTES(".")) && !bytes_equal(name, BYTES("..")),
		   "a second dot entry");
}

static int list_entry(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		      uint64_t position)
{
	struct listing *listing = arg;
	bool dots = listing->position < 2;

	fuzz_check(position > listing->position, "position %" PRIu64 " behind %" PRIu64, position,
		   listing->position);
	listing->position = position;
	if (dots)
		return 0;
	fuzz_check((inode != NULL) == listing->with_inodes, "inodes of entries");
	if (listing->walk != WALK_DAMAGED)
		check_name(name);
	fuzz_check(listing->count < ENTRIES_MAX, "a listing does not end");
	listing->entry = reallocarray(listing->entry, listing->count + 1, sizeof(*listing->entry));
	fuzz_need(listing->entry);
	listing->entry[listing->count++] = (struct entry){
		.name = bytes_dup(name),
		.name_size = name.size,
		.ino = shown->st.st_ino,
	};
	if (inode)
		inode_forget(listing->tree, inode, 1);
	return 0;
}

/* Twice: as readdir sees it, and with inodes, in a call each. */
static int list(struct tree *tree, struct inode *dir, enum walk walk, struct listing *listing)
{
	struct listing plus = { .tree = tree, .walk = walk, .with_inodes = true };
	int r;

	*listing = (struct listing){ .tree = tree, .walk = walk };
	r = tree_list(tree, dir, 0, UINT64_MAX, false, list_entry, listing);
	if (tree_list(tree, dir, 0, UINT64_MAX, true, list_entry, &plus) == 0 && r == 0 &&
	    walk == WALK_WHOLE)
		fuzz_check(plus.count == listing->count, "%zu entries, and %zu with inodes",
			   listing->count, plus.count);
	for (size_t i = 0; i < plus.count; i++)
		free(plus.entry[i].name);
	free(plus.entry);
	return r;
}

/* FNV-1a */
static uint64_t digest(uint64_t sum, struct bytes bytes)
{
	for (size_t i = 0; i < bytes.size; i++)
		sum = (sum ^ (unsigned char)bytes.data[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* Up to a limit, in parts of a size that is no divisor of anything. */
static int read_file(struct tree *tree, struct inode *inode, struct buf *bytes)
{
	struct handle *handle;
	size_t before;
	int r = tree_open_file(tree, inode, FACE_ANY, O_RDONLY, getpid(), &handle);

	if (r < 0)
		return r;
	do {
		before = bytes->size;
		r = handle_read(tree, handle, bytes->size, PART - 1, bytes);
		fuzz_check(r <= 0 && bytes->size >= before && bytes->size - before <= PART - 1,
			   "read: %d, %zu bytes", r, bytes->size - before);
	} while (r == 0 && bytes->size > before && bytes->size < READ_MAX);
	handle_flush(tree, handle, getpid());
	handle_free(tree, handle);
	return r;
}

/* Parts of it again, each by a handle that has read nothing before. */
static void read_parts(struct tree *tree, struct inode *inode, struct bytes whole)
{
	const size_t places[] = { 1, whole.size / 2, whole.size ? whole.size - 1 : 0 };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_(buf_done) struct buf part = { 0 };
		struct handle *handle;
		size_t size = MIN((size_t)100, whole.size - MIN(places[i], whole.size));

		if (tree_open_file(tree, inode, FACE_ANY, O_RDONLY, getpid(), &handle) < 0)
			return;
		if (handle_read(tree, handle, places[i], 100, &part) == 0 && size)
			fuzz_check(bytes_equal(buf_bytes(&part),
					       bytes_make(whole.data + places[i], size)),
				   "byte %zu of %zu reads differently", places[i], whole.size);
		handle_free(tree, handle);
	}
}

static void read_attributes(struct tree *tree, struct inode *inode)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	_cleanup_(buf_done) struct buf value = { 0 };
	size_t size;

	if (tree_list_xattr(tree, inode, &names) < 0)
		return;
	fuzz_check(!names.size || !names.data[names.size - 1], "the end of a name");
	for (size_t at = 0; at < names.size; at += size + 1) {
		size = strlen(names.data + at);
		tree_get_xattr(tree, inode, bytes_make(names.data + at, size), &value);
	}
	tree_get_xattr(tree, inode, BYTES("user.sessfs.invalid"), &value);
}

static int walk_file(struct tree *tree, struct inode *inode, enum walk walk, struct stat *st,
		     uint64_t *ret_digest)
{
	_cleanup_(buf_done) struct buf bytes = { 0 };
	int r = 0;

	if (S_ISLNK(st->st_mode))
		r = tree_readlink(tree, inode, &bytes);
	else if (S_ISREG(st->st_mode))
		r = read_file(tree, inode, &bytes);
	if (r == 0 && walk == WALK_WHOLE && S_ISREG(st->st_mode) && bytes.size < READ_MAX) {
		/* What a reader may have in the kernel keeps its size until it is told. */
		while (tree_is_notifying(tree))
			sched_yield();
		if (bytes.size != (uint64_t)st->st_size)
			tree_stat(tree, inode, st);
		fuzz_check(bytes.size == (uint64_t)st->st_size, "size %" PRId64 ", read %zu bytes",
			   (int64_t)st->st_size, bytes.size);
		read_parts(tree, inode, buf_bytes(&bytes));
	}
	*ret_digest = digest(UINT64_C(0xcbf29ce484222325), buf_bytes(&bytes));
	return r;
}

static void walk_dir(struct tree *tree, struct inode *dir, enum walk walk, unsigned depth,
		     struct buf *out);

static void walk_entry(struct tree *tree, struct inode *dir, const struct entry *entry,
		       enum walk walk, unsigned depth, struct buf *out)
{
	struct inode *inode = NULL;
	struct stat st = { 0 };
	uint64_t sum = 0;
	int r = tree_lookup(tree, dir, bytes_make(entry->name, entry->name_size), &inode);

	if (r == 0) {
		r = tree_stat(tree, inode, &st);
		if (r == 0)
			r = walk_file(tree, inode, walk, &st, &sum);
		read_attributes(tree, inode);
	}
	if (walk == WALK_WHOLE)
		fuzz_check(r == 0 && st.st_ino == entry->ino,
			   "%.*s: %s, inode %" PRIu64 " is listed as %" PRIu64,
			   (int)entry->name_size, entry->name, strerror(-r), (uint64_t)st.st_ino,
			   entry->ino);
	if (out)
		fuzz_need(buf_printf(out, "%*s%.*s %o %" PRId64 " %016" PRIx64 " %d\n", depth, "",
				     (int)entry->name_size, entry->name, st.st_mode,
				     S_ISDIR(st.st_mode) ? 0 : (int64_t)st.st_size, sum, r) == 0);
	if (r == 0 && S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
		walk_dir(tree, inode, walk, depth + 1, out);
	if (inode)
		inode_forget(tree, inode, 1);
}

/* Each entry costs a walk below it: in a damaged store directories may hold each other. */
static unsigned budget;

static void walk_dir(struct tree *tree, struct inode *dir, enum walk walk, unsigned depth,
		     struct buf *out)
{
	struct listing listing;
	int r = list(tree, dir, walk, &listing);

	if (walk == WALK_WHOLE)
		fuzz_check(r == 0, "tree_list: %s", strerror(-r));
	for (size_t i = 0; i < listing.count; i++) {
		if (budget) {
			budget--;
			walk_entry(tree, dir, &listing.entry[i], walk, depth, out);
		}
		free(listing.entry[i].name);
	}
	free(listing.entry);
}

void place_walk(struct tree *tree, enum walk walk, struct buf *out)
{
	budget = WALK_ENTRIES;
	walk_dir(tree, tree_inode(tree, BACKEND_ROOT), walk, 0, out);
}

static void each_in(struct tree *tree, struct inode *dir, enum walk walk, unsigned depth,
		    place_fn *fn, void *arg)
{
	struct listing listing;

	list(tree, dir, walk, &listing);
	for (size_t i = 0; i < listing.count; i++) {
		struct bytes name = bytes_make(listing.entry[i].name, listing.entry[i].name_size);
		struct inode *inode;

		if (budget && tree_lookup(tree, dir, name, &inode) == 0) {
			budget--;
			fn(arg, tree, dir, name, inode);
			if (inode_is_dir(inode) && depth < DEPTH_MAX)
				each_in(tree, inode, walk, depth + 1, fn, arg);
			inode_forget(tree, inode, 1);
		}
		free(listing.entry[i].name);
	}
	free(listing.entry);
}

void place_each(struct tree *tree, enum walk walk, place_fn *fn, void *arg)
{
	budget = EACH_ENTRIES;
	each_in(tree, tree_inode(tree, BACKEND_ROOT), walk, 0, fn, arg);
}

int place_write(struct tree *tree, struct inode *inode, int flags, uint64_t offset,
		struct bytes data)
{
	struct handle *handle;
	ssize_t n;
	int r = tree_open_file(tree, inode, FACE_ANY, flags, getpid(), &handle);

	if (r < 0)
		return r;
	n = handle_write(tree, handle, getpid(), offset, data);
	fuzz_check(n <= (ssize_t)data.size, "wrote %zd of %zu", n, data.size);
	r = handle_flush(tree, handle, getpid());
	handle_free(tree, handle);
	return n < 0 ? (int)n : r;
}
