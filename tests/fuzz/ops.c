/* SPDX-License-Identifier: MIT */

/*
 * Sequences of operations on the model, with inodes and handles that live on between them: nothing
 * is leaked, the store is whole at the end, and the memory store and SQLite answer alike.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/xattr.h>

#include "tests/fuzz/place.h"

const char fuzz_name[] = "ops";
const unsigned fuzz_runs = 400;
const struct bytes fuzz_words[] = { BYTES("\0"), { NULL, 0 } };

bool fuzz_seed(unsigned n, struct buf *seed)
{
	uint8_t head = (uint8_t)n;

	if (n >= 60)
		return false;
	fuzz_put(seed, &head, 1);
	fuzz_noise(n, 20 + 15 * (size_t)n, seed);
	return true;
}

enum { INODES = 12, HANDLES = 6 };

struct game {
	struct fuzz_input in;
	struct tree *tree;
	struct inode *inodes[INODES]; /* the first is the root */
	struct handle *handles[HANDLES];
	struct buf answers;
};

/* What was done, and what came of it. */
static void answer(struct game *game, const char *what, int64_t r, struct bytes bytes)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes.size; i++)
		sum = (sum ^ (unsigned char)bytes.data[i]) * UINT64_C(0x100000001b3);
	if (getenv("FUZZ_LOG"))
		fprintf(stderr, "%s %" PRId64 " %.*s\n", what, r, (int)MIN(bytes.size, (size_t)200),
			bytes.data ? bytes.data : "");
	fuzz_need(buf_printf(&game->answers, "%s %" PRId64 " %zu %016" PRIx64 "\n", what, r,
			     bytes.size, sum) == 0);
}

static void answer_code(struct game *game, const char *what, int64_t r)
{
	answer(game, what, r, bytes_make(NULL, 0));
}

static char long_name[300];
static const struct bytes names[] = {
	BYTES("s"),
	BYTES("t"),
	BYTES("d"),
	BYTES("a.jsonl"),
	BYTES("b.jsonl"),
	BYTES("a.json"),
	BYTES("a.hash"),
	BYTES("a.txt"),
	BYTES("a.json.tmp"),
	BYTES("k:_hash.json"),
	BYTES(".json"),
	BYTES("..json"),
	BYTES("%2E.json"),
	BYTES("%2F"),
	BYTES("a\n\xff.jsonl"),
	{ long_name, 255 },
	{ long_name, 256 },
	{ long_name, 249 },
};

static struct bytes take_name(struct game *game)
{
	uint8_t choice = take_byte(&game->in);

	memset(long_name, 'n', sizeof(long_name));
	memcpy(long_name + 249, ".jsonl", 6);
	/* Most of them mean something. */
	return names[choice < 200 ? choice % 8 : choice % ARRAY_SIZE(names)];
}

static struct inode *take_inode(struct game *game)
{
	struct inode *inode = game->inodes[take_below(&game->in, INODES)];

	return inode ? inode : game->inodes[0];
}

/* Operations on directories need one, as the kernel sees to. */
static struct inode *take_dir(struct game *game)
{
	struct inode *inode = take_inode(game);

	return inode_is_dir(inode) ? inode : game->inodes[0];
}

static void keep_inode(struct game *game, struct inode *inode)
{
	struct inode **slot = &game->inodes[1 + take_below(&game->in, INODES - 1)];

	if (*slot)
		inode_forget(game->tree, *slot, 1);
	*slot = inode;
}

/* The threads of these are looked up: one that is ours, one that is another's, none, nobody. */
static pid_t take_pid(struct game *game)
{
	static const pid_t pids[] = { 0, 1, 0x3fffffff };
	uint8_t choice = take_byte(&game->in);

	return choice < 160 ? getpid() : pids[choice % ARRAY_SIZE(pids)];
}

static uint64_t take_offset(struct game *game)
{
	uint64_t number = take_number(&game->in);

	return number & INT64_MAX;
}

static const char *const scraps[] = {
	"1\n",	       "{\"a\": [1, 2]}\n",
	"\n",	       "# no\n",
	"{\"torn\":",  "\"text",
	"\"\n",	       "3",
	"]\n",	       "[4,\n",
	"null\n\n5\n", " \n",
	"\r\n",	       "x",
	"{}",	       "{\"a\": 1}",
};

static void take_data(struct game *game, struct buf *data)
{
	unsigned choice = take_byte(&game->in);
	struct bytes raw;

	if (choice >= 250) {
		/* Beyond what one chunk, one part of a stage, one mark takes. */
		for (size_t i = (size_t)take_byte(&game->in) * 1000; i; i -= MIN(i, (size_t)10))
			fuzz_put(data, i % 1000 ? "123456789\n" : "\"23\"\n56789", 10);
		return;
	}
	if (choice >= 220) {
		raw = take_bytes(&game->in, 5000);
		fuzz_put(data, raw.data, raw.size);
		return;
	}
	for (unsigned i = 1 + choice % 4; i; i--) {
		const char *scrap = take_of(&game->in, scraps);

		fuzz_put(data, scrap, strlen(scrap));
	}
}

/* Names. */

static const struct caller callers[] = { { 0, 0 }, { 1000, 1000 }, { 1000, 7 } };

static void do_lookup(struct game *game)
{
	struct inode *inode = NULL;
	int r = tree_lookup(game->tree, take_dir(game), take_name(game), &inode);

	answer_code(game, "lookup", r);
	if (r == 0)
		keep_inode(game, inode);
}

static void do_forget(struct game *game)
{
	struct inode **slot = &game->inodes[1 + take_below(&game->in, INODES - 1)];

	if (*slot)
		inode_forget(game->tree, *slot, 1);
	*slot = NULL;
}

static void do_make(struct game *game)
{
	static const mode_t modes[] = {
		S_IFREG | 0644, S_IFDIR | 0755, S_IFDIR | 02755, S_IFREG | 0600,
		S_IFLNK | 0777, S_IFIFO | 0644, S_IFCHR | 0600,	 S_IFSOCK | 0600,
	};
	uint8_t choice = take_byte(&game->in);
	mode_t mode = choice < 100 ? modes[choice % 2] : modes[choice % ARRAY_SIZE(modes)];
	struct inode *dir = take_dir(game), *inode = NULL;
	struct tree_new what = { .mode = mode, .will_save = choice & 32, .rdev = choice };
	int r;

	if (S_ISLNK(mode))
		what.target = BYTES("../a/b");
	r = tree_make(game->tree, &take_of(&game->in, callers), dir, take_name(game), &what,
		      &inode);
	answer_code(game, "make", r);
	if (r == 0)
		keep_inode(game, inode);
}

static void do_link(struct game *game)
{
	struct inode *inode = take_inode(game);

	/* The kernel links no directories. */
	if (inode_is_dir(inode))
		return;
	answer_code(game, "link", tree_link(game->tree, inode, take_dir(game), take_name(game)));
}

static void do_unlink(struct game *game)
{
	struct inode *dir = take_dir(game), *inode;
	struct bytes name = take_name(game);
	int r = tree_lookup(game->tree, dir, name, &inode);

	/* The kernel knows what it removes. */
	if (r < 0)
		return;
	r = inode_is_dir(inode) ? tree_rmdir(game->tree, dir, name) :
				  tree_unlink(game->tree, dir, name);
	inode_forget(game->tree, inode, 1);
	answer_code(game, "unlink", r);
}

static bool is_below(const struct inode *dir, const struct inode *above)
{
	for (; dir; dir = dir->parent)
		if (dir == above)
			return true;
	return false;
}

/* The kernel refuses what would move a directory into itself, and what differs in type. */
static bool may_rename(struct game *game, struct inode *dir, struct bytes name,
		       struct inode *dir_to, struct bytes name_to, unsigned flags)
{
	struct inode *inode = NULL, *inode_to = NULL;
	bool may = tree_lookup(game->tree, dir, name, &inode) == 0 && !is_below(dir_to, inode);

	if (may && tree_lookup(game->tree, dir_to, name_to, &inode_to) == 0) {
		may = !is_below(dir, inode_to);
		if (!(flags & RENAME_EXCHANGE) && inode_is_dir(inode) != inode_is_dir(inode_to))
			may = false;
	}
	if (inode)
		inode_forget(game->tree, inode, 1);
	if (inode_to)
		inode_forget(game->tree, inode_to, 1);
	return may;
}

static void do_rename(struct game *game)
{
	static const unsigned flags[] = { 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, 4 };
	struct inode *dir = take_dir(game), *dir_to = take_dir(game);
	struct bytes name = take_name(game), name_to = take_name(game);
	unsigned flag = take_of(&game->in, flags);

	if (may_rename(game, dir, name, dir_to, name_to, flag))
		answer_code(game, "rename",
			    tree_rename(game->tree, dir, name, dir_to, name_to, flag));
}

static int list_entry(void *arg, struct bytes name, struct inode *inode, const struct shown *shown,
		      uint64_t position)
{
	struct game *game = arg;

	fuzz_check(name.size && name.size <= 255 && position, "an entry");
	fuzz_check(!inode || shown->nodeid, "a nodeid");
	fuzz_need(buf_append_bytes(&game->answers, name) == 0);
	if (inode)
		inode_forget(game->tree, inode, 1);
	return 0;
}

static void do_list(struct game *game)
{
	uint8_t choice = take_byte(&game->in);
	uint64_t position = choice < 200 ? 0 : take_offset(game);

	answer_code(game, "list",
		    tree_list(game->tree, take_dir(game), position, UINT64_MAX, choice & 1,
			      list_entry, game));
}

/* Attributes. */

static void do_stat(struct game *game)
{
	struct inode *inode = take_inode(game);
	struct shown shown = { 0 };
	struct stat st = { 0 };
	bool own = false;
	int r = tree_stat_face(game->tree, inode, 0, 0, &st, &own);

	fuzz_check(r < 0 || (st.st_ino == inode->ino && st.st_size >= 0), "a stat");
	answer_code(game, "stat", r);
	if (take_byte(&game->in) & 1)
		answer_code(game, "enter",
			    tree_enter(game->tree, inode, FACE_ANY, take_pid(game), &shown));
	r = tree_stat(game->tree, inode, &st);
	answer_code(game, "size", r || inode_is_dir(inode) ? r : st.st_size);
}

static struct handle *take_handle(struct game *game)
{
	return game->handles[take_below(&game->in, HANDLES)];
}

static void do_set_attr(struct game *game)
{
	struct handle *handle = take_handle(game);
	struct inode *inode = handle ? handle_inode(handle) : take_inode(game);
	struct stat st = {
		.st_mode = take_byte(&game->in),
		.st_size = (off_t)take_offset(game),
		.st_uid = take_byte(&game->in),
		.st_mtim.tv_sec = (time_t)take_number(&game->in),
		.st_mtim.tv_nsec = take_byte(&game->in),
	};
	struct set_attr set = { .handle = handle, .pid = take_pid(game), .st = &st };
	bool own = false;
	int r;

	set.mask = take_byte(&game->in) | (take_byte(&game->in) & 1 ? TREE_SET_SIZE : 0u);
	set.mask &= inode_is_dir(inode) ? ~(unsigned)TREE_SET_SIZE : ~0u;
	/* The kernel cuts files only; what is larger than a store can take takes long to refuse. */
	if (inode_is_state(inode) && st.st_size > 1 << 30)
		st.st_size &= (1 << 22) - 1;
	r = tree_set_attr(game->tree, inode, &set, &st, &own);
	answer_code(game, "set", r);
}

static void do_xattr(struct game *game)
{
	static const struct bytes attributes[] = {
		BYTES("user.a"), BYTES("user.b"), BYTES("user.sessfs.invalid"), BYTES("trusted.a"),
		BYTES("user."),	 BYTES(""),	  BYTES("security.capability"),
	};
	struct inode *inode = take_inode(game);
	struct bytes name = take_of(&game->in, attributes);
	_cleanup_(buf_done) struct buf out = { 0 };

	switch (take_below(&game->in, 4)) {
	case 0:
		answer_code(game, "setxattr",
			    tree_set_xattr(game->tree, inode, name, take_bytes(&game->in, 5000),
					   take_below(&game->in, 4)));
		break;
	case 1:
		answer(game, "getxattr", tree_get_xattr(game->tree, inode, name, &out),
		       buf_bytes(&out));
		break;
	case 2:
		answer(game, "listxattr", tree_list_xattr(game->tree, inode, &out),
		       buf_bytes(&out));
		break;
	default:
		answer_code(game, "removexattr", tree_remove_xattr(game->tree, inode, name));
	}
}

static void do_readlink(struct game *game)
{
	_cleanup_(buf_done) struct buf target = { 0 };
	struct inode *inode = take_inode(game);

	if (S_ISLNK(inode->node.mode))
		answer(game, "readlink", tree_readlink(game->tree, inode, &target),
		       buf_bytes(&target));
}

static void do_statfs(struct game *game)
{
	struct statvfs st;

	answer_code(game, "statfs", tree_statfs(game->tree, NULL, &st));
}

/* Open files. */

static void end_handle(struct game *game, struct handle **slot, unsigned how)
{
	struct handle *handle = *slot;

	*slot = NULL;
	if (!handle)
		return;
	if (how & 3)
		answer_code(game, "flush", handle_flush(game->tree, handle, getpid()));
	if (how == 4)
		handle_abandon(game->tree, handle);
	else
		handle_free(game->tree, handle);
}

static void do_open(struct game *game)
{
	static const int flags[] = {
		O_RDONLY, O_WRONLY | O_APPEND, O_RDWR,	 O_WRONLY | O_TRUNC,  O_RDWR | O_APPEND,
		O_RDONLY, O_RDWR | O_TRUNC,    O_WRONLY, O_WRONLY | O_APPEND, O_RDWR | O_SYNC,
	};
	struct handle **slot = &game->handles[take_below(&game->in, HANDLES)];
	struct inode *inode = take_inode(game);
	int flag = take_of(&game->in, flags);
	pid_t pid = take_pid(game);
	unsigned face = take_byte(&game->in) & 1 ? FACE_ANY : 0;
	struct handle *handle = NULL;
	int r;

	if (!S_ISREG(inode->node.mode))
		return;
	r = tree_open_file(game->tree, inode, face, flag, pid, &handle);
	/* The kernel looks the name up again. */
	if (r == -ESTALE)
		r = tree_open_file(game->tree, inode, FACE_ANY, flag, pid, &handle);
	answer_code(game, "open", r);
	if (r < 0)
		return;
	end_handle(game, slot, take_byte(&game->in) & 7);
	*slot = handle;
}

static void do_read(struct game *game)
{
	struct handle *handle = take_handle(game);
	_cleanup_(buf_done) struct buf data = { 0 };
	uint8_t choice = take_byte(&game->in);
	uint64_t offset = choice < 100 ? 0 : take_offset(game);
	size_t size = choice & 1 ? 131072 : choice;
	int r;

	if (!handle || !(choice & 8 || (handle->flags & O_ACCMODE) != O_WRONLY))
		return;
	r = (choice & 2 && choice & 4 ? handle_fill : handle_read)(game->tree, handle, offset, size,
								   &data);
	fuzz_check(data.size <= size, "read %zu for %zu", data.size, size);
	fuzz_check(r <= 0, "read: %d", r);
	answer(game, "read", r, buf_bytes(&data));
}

static void do_write(struct game *game)
{
	struct handle *handle = take_handle(game);
	_cleanup_(buf_done) struct buf data = { 0 };
	uint8_t choice = take_byte(&game->in);
	uint64_t offset = choice < 150 ? choice % 40 : take_offset(game);
	ssize_t n;

	take_data(game, &data);
	if (!handle || (handle->flags & O_ACCMODE) == O_RDONLY)
		return;
	/* As for sizes above. */
	if (inode_is_state(handle_inode(handle)) && offset > 1 << 30)
		offset &= (1 << 22) - 1;
	/* The kernel sees to it that a write does not end behind the largest offset. */
	offset = MIN(offset, (uint64_t)INT64_MAX - data.size);
	n = handle_write(game->tree, handle, choice & 1 ? take_pid(game) : getpid(), offset,
			 buf_bytes(&data));
	fuzz_check(n <= (ssize_t)data.size, "wrote %zd of %zu", n, data.size);
	answer_code(game, "write", n);
}

static void do_flush(struct game *game)
{
	struct handle *handle = take_handle(game);

	if (handle)
		answer_code(game, "flush", handle_flush(game->tree, handle, take_pid(game)));
}

static void do_sync(struct game *game)
{
	answer_code(game, "sync", handle_sync(game->tree, take_handle(game)));
}

static void do_allocate(struct game *game)
{
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_COLLAPSE_RANGE,
	};
	struct handle *handle = take_handle(game);
	int mode = take_of(&game->in, modes);
	uint64_t offset = take_offset(game), size = take_offset(game);

	if (!handle || (handle->flags & O_ACCMODE) == O_RDONLY)
		return;
	if (inode_is_state(handle_inode(handle)) && MAX(offset, size) > 1 << 30)
		offset = size = 5;
	/* What is asked of memory and of disks must not be more than there is. */
	if (!(mode & FALLOC_FL_PUNCH_HOLE))
		size %= 1 << 22;
	if (!size || offset > INT64_MAX - size)
		return;
	answer_code(game, "allocate", handle_allocate(game->tree, handle, mode, offset, size));
}

static void do_seek(struct game *game)
{
	struct handle *handle = take_handle(game);
	int whence = take_byte(&game->in) & 1 ? SEEK_DATA : SEEK_HOLE;
	uint64_t offset = take_offset(game), found = 0;
	int r;

	if (!handle)
		return;
	r = handle_seek(game->tree, handle, offset, whence, &found);
	fuzz_check(r < 0 || (found >= offset && found <= INT64_MAX), "found %" PRIu64, found);
	answer_code(game, "seek", r < 0 ? r : (int64_t)found);
}

static void do_close(struct game *game)
{
	end_handle(game, &game->handles[take_below(&game->in, HANDLES)], take_byte(&game->in) & 7);
}

static void do_lock(struct game *game)
{
	struct handle *handle = take_handle(game);

	if (!handle)
		return;
	inode_set_locked(handle_inode(handle));
	if (take_byte(&game->in) & 1)
		handle_lock_granted(game->tree, handle);
	else
		answer_code(game, "unlocking", handle_unlocking(game->tree, handle));
}

static void do_settle(struct game *game)
{
	place_settle(game->tree);
}

static void (*const moves[])(struct game *game) = {
	do_lookup, do_lookup, do_make,	do_make,     do_make,	  do_open,   do_open,
	do_open,   do_write,  do_write, do_write,    do_write,	  do_read,   do_read,
	do_flush,  do_sync,   do_close, do_rename,   do_rename,	  do_unlink, do_unlink,
	do_link,   do_list,   do_stat,	do_set_attr, do_set_attr, do_xattr,  do_readlink,
	do_statfs, do_seek,   do_lock,	do_allocate, do_forget,	  do_settle,
};

/* A session, and a directory in it: where all begins. */
static void begin(struct game *game)
{
	const struct tree_new dir = { .mode = S_IFDIR | 0755 };

	game->inodes[0] = tree_inode(game->tree, BACKEND_ROOT);
	fuzz_need(tree_make(game->tree, &callers[1], game->inodes[0], BYTES("s"), &dir,
			    &game->inodes[1]) == 0);
	fuzz_need(tree_make(game->tree, &callers[1], game->inodes[1], BYTES("d"), &dir,
			    &game->inodes[2]) == 0);
}

static void end(struct game *game)
{
	_cleanup_(buf_done) struct buf said = { 0 };

	for (size_t i = 0; i < HANDLES; i++)
		end_handle(game, &game->handles[i], 1);
	for (size_t i = 1; i < INODES; i++)
		if (game->inodes[i])
			inode_forget(game->tree, game->inodes[i], 1);
	place_check_inodes(game->tree);
	place_walk(game->tree, WALK_WHOLE, &game->answers);
	fuzz_check(place_violations(game->tree->backend, &said) == 0,
		   "check says:\n%.*safter\n%.*s", (int)said.size, said.data,
		   (int)game->answers.size, game->answers.data);
	place_check_inodes(game->tree);
	tree_close(game->tree);
}

static void play(struct game *game, struct fuzz_input in, struct tree *tree)
{
	*game = (struct game){ .in = in, .tree = tree };
	begin(game);
	while (fuzz_left(&game->in))
		take_of(&game->in, moves)(game);
	end(game);
}

static struct tree *open_sqlite(const struct tree_options *options)
{
	const struct backend_options backend_options = { .owner = "the target" };
	struct tree *tree;
	int r;

	place_fresh();
	tree = place_open(&backend_options, options, &r);
	fuzz_need(tree);
	return tree;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	uint8_t choices = take_byte(&in);
	/* No clock publishes anything. */
	const struct tree_options options = {
		.strict = (choices & 12) == 12,
		.exact = choices & 16,
		.set_pause = true,
	};
	struct game memory = { 0 }, sqlite = { 0 };

	if (size > 2048)
		return -1;
	if (choices & 3)
		play(&memory, in, place_memory(&options));
	if ((choices & 3) != 1 && (choices & 3) != 3)
		play(&sqlite, in, open_sqlite(&options));
	if ((choices & 3) == 2)
		fuzz_check(bytes_equal(buf_bytes(&memory.answers), buf_bytes(&sqlite.answers)),
			   "in memory:\n%.*s\nSQLite:\n%.*s", (int)memory.answers.size,
			   memory.answers.data, (int)sqlite.answers.size, sqlite.answers.data);
	buf_done(&memory.answers);
	buf_done(&sqlite.answers);
	return 0;
}
