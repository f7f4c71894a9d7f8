/* SPDX-License-Identifier: MIT */

/*
 * Random operations on several mounts of one store, against one mount of another: what each call
 * returns and what the trees hold is the same, whichever mount a call is made on and whatever the
 * others do just before it commits.
 *
 * SESSFS_RANDOM_OPS=N sets how many operations are made; a failure names the seed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/memory/memory.h"
#include "fs/api/trash.h"
#include "fs/base/lines.h"
#include "fs/tree/tree.h"
#include "tests/unit/many.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"

enum { MOUNTS = 3, SLOTS = 4, OPS = 1000, OPS_SOAK = 3000, COMPARED = 16, TOLD = 512 };

enum what {
	MKDIR,
	RMDIR,
	UNLINK,
	RENAME,
	CHMOD,
	LINK,
	ATTRIBUTE,
	CUT,
	TRASH,
	UNDO,
	OPEN,
	WRITE,
	FLUSH,
	CLOSE,
	READ,
	SAVE,
	APPEND,
	WHATS,
	LAST_SINGLE = WRITE, /* up to here, one commit each */
};

static const char *const names_of_what[] = {
	"mkdir", "rmdir", "unlink", "rename", "chmod", "link", "attribute", "cut",    "trash",
	"undo",	 "open",  "write",  "flush",  "close", "read", "save",	    "append",
};

struct deed {
	enum what what;
	int mount;
	const char *path;
	const char *path_to;
	const char *text;
	int slot;
	int flags;
	mode_t mode;
};

/* An open file, on a mount and on the one that it is compared with. */
struct slot {
	int mount;
	struct handle *handle[2];
	bool of_state; /* when it was opened, */
	char path[64]; /* by this name */
};

static struct slot slots[SLOTS];
static uint64_t state;
static struct tree *plain_tree;
static struct backend *plain_store;
static char history[TOLD][200];
static unsigned step;

static const char *const dirs[] = { "s", "t", "s/d", "s/e", "s/d/f", "t/d", "u" };
static const char *const files[] = { "k.json", "l.jsonl", "o", "k.jsonl", "h.hash" };
static const char *const texts[] = { "1\n", "{\"a\": 1}", "[1]\n[2]\n", "{\"torn", "x\n\n", "7" };

static size_t below(size_t limit)
{
	return random_below(&state, limit);
}

static const char *path_of_file(void)
{
	static char paths[4][64];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, 64, "%s/%s", dirs[below(ARRAY_SIZE(dirs))], files[below(ARRAY_SIZE(files))]);
	return path;
}

static const char *path_of_any(void)
{
	return below(3) ? path_of_file() : dirs[below(ARRAY_SIZE(dirs))];
}

static struct deed make_deed(bool single)
{
	static const int flags[] = { O_RDWR, O_WRONLY | O_APPEND, O_RDONLY, O_WRONLY };
	struct deed deed = {
		.what = (enum what)below(single ? LAST_SINGLE + 1 : WHATS),
		.mount = (int)below(MOUNTS),
		.path = path_of_any(),
		.path_to = path_of_any(),
		.text = texts[below(ARRAY_SIZE(texts))],
		.slot = (int)below(SLOTS),
		.flags = flags[below(ARRAY_SIZE(flags))],
		.mode = below(2) ? 0600 : 0644,
	};

	switch (deed.what) {
	case MKDIR:
	case RMDIR:
	case TRASH:
		deed.path = dirs[below(ARRAY_SIZE(dirs))];
		break;
	case UNLINK:
		deed.path = slots[deed.slot].handle[0] && below(2) ? slots[deed.slot].path :
								     path_of_file();
		break;
	case OPEN:
		deed.flags |= below(2) ? O_CREAT : 0;
		deed.path = path_of_file();
		break;
	case CUT:
	case SAVE:
	case APPEND:
		deed.path = path_of_file();
		break;
	case WRITE:
	case FLUSH:
	case CLOSE:
	case READ:
		deed.mount = slots[deed.slot].mount;
		break;
	default:
		break;
	}
	return deed;
}

static int made_dir(const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir_path[64];
	struct inode *dir, *inode;
	int r;

	snprintf(dir_path, sizeof(dir_path), "%.*s", slash ? (int)(slash - path) : 0, path);
	r = find_inode(dir_path, &dir);
	if (r < 0)
		return r;
	r = tree_make(world_tree, &(struct caller){ 0, 0 }, dir,
		      bytes_str(slash ? slash + 1 : path),
		      &(struct tree_new){ .mode = S_IFDIR | 0755 }, &inode);
	if (r == 0)
		forget(inode);
	forget(dir);
	return r;
}

static int set_attribute(const char *path, const char *text)
{
	struct inode *inode;
	int r = find_inode(path, &inode);

	if (r < 0)
		return r;
	r = tree_set_xattr(world_tree, inode, BYTES("user.a"), bytes_str(text), 0);
	forget(inode);
	return r;
}

/* As the kernel does it: when it is told ESTALE, it looks the name up once more. */
static int cut(const char *path, off_t size)
{
	const struct stat st = { .st_size = size };
	struct set_attr set = { .pid = getpid(), .st = &st, .mask = TREE_SET_SIZE };
	struct shown shown;
	struct inode *inode = NULL;
	struct stat now;
	bool own;
	int r = find_inode(path, &inode);

	for (int i = 0; r == 0 && i < 2; i++) {
		r = tree_enter(world_tree, inode, FACE_ANY, getpid(), &shown);
		set.face = nodeid_face(shown.nodeid);
		if (r == 0)
			r = tree_set_attr(world_tree, inode, &set, &now, &own);
		if (r != -ESTALE)
			break;
		r = i ? r : 0;
	}
	if (inode)
		forget(inode);
	return r;
}

static int keep_last(void *arg, const struct trash_item *item)
{
	struct trash_item *last = arg;

	if (item->removed >= last->removed)
		*last = *item;
	return 0;
}

/* What was removed last. */
static int brought_back(void)
{
	struct backend_snapshot *snapshot;
	struct trash_item last = { 0 };

	cr_assert_eq(world_store->ops->snapshot_begin(world_store, BACKEND_ANYWAY, &snapshot), 0);
	cr_assert_eq(trash_list(world_store, snapshot, keep_last, &last), 0);
	world_store->ops->snapshot_end(world_store, snapshot);
	return last.id ? tree_trash_undo(world_tree, last.id) : -ENOENT;
}

static int wrote(struct handle *handle, const char *text)
{
	ssize_t n = handle_write(world_tree, handle, getpid(), strlen(text) % 3, bytes_str(text));

	return n < 0 ? (int)n : n == (ssize_t)strlen(text) ? 0 : -EIO;
}

static int saved(const char *path, int flags, const char *text)
{
	struct handle *handle;
	int r = try_open(path, flags | O_WRONLY | O_CREAT, &handle);

	if (r < 0)
		return r;
	r = (int)handle_write(world_tree, handle, getpid(), 0, bytes_str(text));
	if (r >= 0)
		r = handle_flush(world_tree, handle, getpid());
	handle_free(world_tree, handle);
	return r;
}

static struct handle **handle_of(const struct deed *deed)
{
	return &slots[deed->slot].handle[world_tree == plain_tree];
}

static int opened(const struct deed *deed)
{
	struct handle **handle = handle_of(deed);

	return *handle ? -EBUSY : try_open(deed->path, deed->flags, handle);
}

static int closed(struct handle **handle)
{
	int r = handle_flush(world_tree, *handle, getpid());

	handle_free(world_tree, *handle);
	*handle = NULL;
	return r;
}

/* What it read is in said. */
static int do_deed(const struct deed *deed, struct buf *said)
{
	const struct stat st = { .st_mode = deed->mode, .st_size = 3 };
	struct handle **handle = handle_of(deed);

	switch (deed->what) {
	case MKDIR:
		return made_dir(deed->path);
	case RMDIR:
		return removed_dir(deed->path);
	case UNLINK:
		return unlinked(deed->path);
	case RENAME:
		return renamed(deed->path, deed->path_to, 0);
	case CHMOD:
		return set_attr(deed->path, &st, TREE_SET_MODE);
	case LINK:
		return linked(deed->path, deed->path_to);
	case ATTRIBUTE:
		return set_attribute(deed->path, deed->text);
	case CUT:
		return cut(deed->path, 3);
	case TRASH:
		return tree_trash(world_tree, bytes_str(deed->path), INT64_MAX, TRASH_GRACE);
	case UNDO:
		return brought_back();
	case OPEN:
		return opened(deed);
	case SAVE:
		return saved(deed->path, O_TRUNC, deed->text);
	case APPEND:
		return saved(deed->path, O_APPEND, deed->text);
	default:
		break;
	}
	if (!*handle)
		return -EBADF;
	switch (deed->what) {
	case WRITE:
		return (*handle)->flags & O_ACCMODE ? wrote(*handle, deed->text) : -EBADF;
	case FLUSH:
		return handle_flush(world_tree, *handle, getpid());
	case CLOSE:
		return closed(handle);
	case READ:
		/* What another mount replaces is kept for who only reads. */
		if (((*handle)->flags & O_ACCMODE) != O_RDONLY)
			return -EBADF;
		/* What others have added is read when the kernel knows of it. */
		while (tree_is_notifying(world_tree))
			usleep(100);
		cr_assert_eq(buf_append_str(said, read_by(*handle)), 0);
		return 0;
	default:
		return -EINVAL;
	}
}

static void use_plain(void)
{
	world_tree = plain_tree;
	world_store = plain_store;
}

static void tell_history(void)
{
	for (unsigned i = step > TOLD ? step - TOLD : 0; i < step; i++)
		fprintf(stderr, "%s\n", history[i % TOLD]);
}

static void note(const struct deed *deed, const char *how, int r)
{
	snprintf(history[step % TOLD], sizeof(history[0]), "%u: mount %d %s %s %s slot %d: %d%s",
		 step, deed->mount, names_of_what[deed->what], deed->path, deed->path_to,
		 deed->slot, r, how);
	step++;
}

static void describe_content(const char *path, struct buf *out)
{
	while (tree_is_notifying(world_tree))
		usleep(100);
	cr_assert_eq(buf_printf(out, "  %s\n", content_of(path)), 0);
}

/* What lies below a path, sorted, with all that a program sees of it. */
static void describe(const char *path, struct buf *out)
{
	char *all = strdup(names_in(path)), *place = NULL, *name[32];
	size_t count = 0;

	for (name[count] = strtok_r(all, " ", &place); name[count];
	     name[count] = strtok_r(NULL, " ", &place))
		count++;
	for (size_t i = 1; i < count; i++)
		for (size_t j = i; j && strcmp(name[j - 1], name[j]) > 0; j--) {
			char *other = name[j];

			name[j] = name[j - 1];
			name[j - 1] = other;
		}
	for (size_t i = 0; i < count; i++) {
		char below[2048];
		struct stat st;

		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", name[i]);
		st = stat_of(below);
		cr_assert_eq(buf_printf(out, "%s %o %u %lld\n", below, st.st_mode,
					(unsigned)st.st_nlink, (long long)st.st_size),
			     0);
		if (S_ISDIR(st.st_mode))
			describe(below, out);
		else
			describe_content(below, out);
	}
	free(all);
}

static void compare(void)
{
	_cleanup_(buf_done) struct buf expected = { 0 };

	use_plain();
	describe("", &expected);
	cr_assert_eq(buf_append_byte(&expected, '\0'), 0);
	for (int i = 0; i < MOUNTS; i++) {
		_cleanup_(buf_done) struct buf found = { 0 };
		size_t at;

		many_use(i);
		describe("", &found);
		cr_assert_eq(buf_append_byte(&found, '\0'), 0);
		if (strcmp(found.data, expected.data) == 0)
			continue;
		at = 0;
		while (found.data[at] == expected.data[at])
			at++;
		while (at && found.data[at - 1] != '\n')
			at--;
		tell_history();
		cr_assert(false, "on mount %d\n%.200s\ninstead of\n%.200s", i, found.data + at,
			  expected.data + at);
	}
}

static void settle_all(void)
{
	for (int i = 0; i < MOUNTS; i++) {
		many_use(i);
		cr_assert_eq(world_tree->take_in(world_tree), 0);
	}
	many_settle();
	use_plain();
	world_settle();
}

/* Files in use on no mount are deleted, also before the mounts have heard of each other. */
static void reap_all(void)
{
	for (int i = 0; i < MOUNTS; i++) {
		many_use(i);
		many_reap_here();
	}
}

/* A file that has lost its name, and the reapers have come by. */
static void same_without_name(const struct slot *slot)
{
	_cleanup_(freep) char *expected = NULL;
	const char *found;

	if (slot->of_state || kind_is_state(handle_inode(slot->handle[1])->node.kind) ||
	    (slot->handle[0]->flags & O_ACCMODE) == O_WRONLY)
		return;
	for (int i = 0; i < 2; i++) {
		use_plain();
		freep(&expected);
		expected = strdup(read_by(slot->handle[1]));
		many_use(slot->mount);
		found = read_by(slot->handle[0]);
		if (strcmp(found, expected) != 0) {
			tell_history();
			cr_assert(false, "mount %d has lost \"%s\": \"%s\"", slot->mount, expected,
				  found);
		}
		if ((slot->handle[0]->flags & O_ACCMODE) == O_RDONLY)
			return;
		cr_assert_eq(wrote(slot->handle[0], "more"), 0);
		use_plain();
		cr_assert_eq(wrote(slot->handle[1], "more"), 0);
		reap_all();
	}
}

/* A file without a name that is open on several mounts is several files from then on. */
static void let_go(void)
{
	for (int i = 0; i < SLOTS; i++) {
		struct slot *slot = &slots[i];

		if (!slot->handle[0] || handle_inode(slot->handle[1])->node.nlink)
			continue;
		same_without_name(slot);
		use_plain();
		closed(&slot->handle[1]);
		many_use(slot->mount);
		closed(&slot->handle[0]);
	}
}

/* What is added between rows, or to a line that is not finished, and what is cut within a line,
 * replaces the file for other mounts: who has opened that before has what was there then, as of any
 * file that is replaced. */
static bool is_of_before(const struct deed *deed, const struct buf *said,
			 const struct buf *expected)
{
	struct bytes rest = buf_bytes(expected);
	struct line line;

	if (deed->what != READ || !bytes_starts_with(rest, buf_bytes(said)))
		return false;
	rest = bytes_make(rest.data + said->size, rest.size - said->size);
	return (said->size && said->data[said->size - 1] != '\n') ||
	       (lines_next(&rest, &line) && !(line.newline && lines_is_row(line.text, NULL)));
}

/* And so it is when another mount makes an ordinary file of the state. */
static bool is_state_no_more(const struct deed *deed)
{
	const struct slot *slot = &slots[deed->slot];

	return deed->what == READ && slot->of_state &&
	       !kind_is_state(handle_inode(slot->handle[1])->node.kind);
}

static void same(const struct deed *deed, int r, struct buf *said, int plain, struct buf *expected)
{
	if (r == plain && (bytes_equal(buf_bytes(said), buf_bytes(expected)) ||
			   is_of_before(deed, said, expected) || is_state_no_more(deed)))
		return;
	tell_history();
	cr_assert(false, "%s on mount %d: %d (%.*s) instead of %d (%.*s)",
		  names_of_what[deed->what], deed->mount, r, (int)said->size, said->data, plain,
		  (int)expected->size, expected->data);
}

static struct deed second;
static struct buf second_said;
static int second_r;

static void do_second(void)
{
	second_r = do_deed(&second, &second_said);
}

static void do_plain(const struct deed *deed, int r, struct buf *said, const char *how)
{
	_cleanup_(buf_done) struct buf expected = { 0 };
	int plain;

	use_plain();
	plain = do_deed(deed, &expected);
	note(deed, how, r);
	same(deed, r, said, plain, &expected);
}

static void play_one(void)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	struct deed first = make_deed(false);
	int r;

	if (first.what == OPEN && !slots[first.slot].handle[0])
		slots[first.slot].mount = first.mount;
	many_use(first.mount);
	r = do_deed(&first, &said);
	do_plain(&first, r, &said, "");
	if (first.what != OPEN || r < 0)
		return;
	slots[first.slot].of_state =
		kind_is_state(handle_inode(slots[first.slot].handle[1])->node.kind);
	snprintf(slots[first.slot].path, sizeof(slots[0].path), "%s", first.path);
}

/* Calls that look a name up first, and then change the file, whatever becomes of the name. */
static bool goes_on_without_name(enum what what)
{
	return what == CHMOD || what == ATTRIBUTE || what == CUT;
}

static bool takes_names(enum what what)
{
	return what == UNLINK || what == RENAME || what == RMDIR || what == TRASH;
}

static unsigned names_of(const char *path)
{
	struct inode *inode;
	unsigned count;

	use_plain();
	if (find_inode(path, &inode) < 0)
		return 0;
	count = (unsigned)stat_of_inode(inode).st_nlink;
	forget(inode);
	return count;
}

/* A link is to the file that was found, whatever its name is by then; it is refused if the file has
 * lost its last name since. */
static bool loses_name(const struct deed *deed, const struct deed *by)
{
	if (deed->what != LINK)
		return false;
	return (by->what == RENAME &&
		(strcmp(deed->path, by->path) == 0 || strcmp(deed->path, by->path_to) == 0)) ||
	       (by->what == UNLINK && strcmp(deed->path, by->path) == 0 &&
		names_of(deed->path) > 1);
}

/* A call that has found the directory goes on in it, wherever it is by then; and one that brings a
 * session back has chosen it. */
static bool moves_dir(const struct deed *deed)
{
	struct inode *inode;
	bool moves = false;

	if (deed->what == TRASH || deed->what == UNDO)
		return true;
	if (deed->what != RENAME)
		return false;
	use_plain();
	for (int i = 0; i < 2; i++) {
		if (find_inode(i ? deed->path_to : deed->path, &inode) < 0)
			continue;
		moves |= S_ISDIR(stat_of_inode(inode).st_mode);
		forget(inode);
	}
	return moves;
}

/* One in the middle of another. */
static void play_two(void)
{
	_cleanup_(buf_done) struct buf said = { 0 };
	struct deed first = make_deed(true);
	bool later;
	int r;

	if (first.what == OPEN)
		first.what = CHMOD;
	do
		second = make_deed(false);
	while (second.mount == first.mount || second.what == OPEN || moves_dir(&second) ||
	       loses_name(&first, &second) ||
	       (goes_on_without_name(first.what) && takes_names(second.what)));
	buf_clear(&second_said);
	many_meanwhile(first.mount, second.mount, do_second);
	many_use(first.mount);
	r = do_deed(&first, &said);
	later = many_forget_meanwhile();
	if (later) {
		do_plain(&first, r, &said, "");
		many_use(second.mount);
		do_second();
		do_plain(&second, second_r, &second_said, "");
	} else {
		do_plain(&second, second_r, &second_said, " meanwhile");
		do_plain(&first, r, &said, " with that");
	}
}

/* A file is slower. */
static unsigned count_ops(int kind)
{
	unsigned count = (unsigned)rounds("SESSFS_RANDOM_OPS", OPS, OPS_SOAK);

	return kind == WORLD_SQLITE ? count / 3 : count;
}

ParameterizedTestParameters(many_random, mounts_of_one_store_are_as_one)
{
	return every_kind();
}

ParameterizedTest(const int *kind, many_random, mounts_of_one_store_are_as_one)
{
	static const struct backend_options options = { .create = true };

	state = random_seed("many-random");
	many_open(*kind, MOUNTS);
	cr_assert_eq(memory_backend_open(&options, &plain_store), 0);
	cr_assert_eq(tree_open(plain_store, &world_options, &plain_tree, NULL), 0);
	use_plain();
	make_dir("s");
	for (unsigned i = 0, count = count_ops(*kind); i < count; i++) {
		if (below(2))
			play_one();
		else
			play_two();
		reap_all();
		let_go();
		settle_all();
		let_go();
		if (i % COMPARED == 0)
			compare();
	}
	for (int i = 0; i < SLOTS; i++) {
		if (!slots[i].handle[0])
			continue;
		use_plain();
		closed(&slots[i].handle[1]);
		many_use(slots[i].mount);
		closed(&slots[i].handle[0]);
	}
	settle_all();
	compare();
	use_plain();
	tree_close(plain_tree);
	many_use(0);
	many_close();
	buf_done(&second_said);
}
