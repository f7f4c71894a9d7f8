/* SPDX-License-Identifier: MIT */

/*
 * Requests of the kernel without a kernel: headers are well framed and name what the kernel would
 * know - nodeids that were handed out, handles that are open - but values are anything.  Every
 * request is answered once, with an answer that the kernel would take.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/uio.h>

#include "fs/kernel/internal.h"
#include "fs/kernel/lock-requests.h"
#include "fs/kernel/notify.h"
#include "tests/fuzz/place.h"

const char fuzz_name[] = "requests";
const unsigned fuzz_runs = 400;
const struct bytes fuzz_words[] = { BYTES("\0"), { NULL, 0 } };

bool fuzz_seed(unsigned n, struct buf *seed)
{
	uint8_t head = (uint8_t)n;

	if (n >= 60)
		return false;
	fuzz_put(seed, &head, 1);
	fuzz_noise(n + 1000, 20 + 20 * (size_t)n, seed);
	return true;
}

/* The bit of a request's number that the kernel sets in those of signals. */
enum { FUSE_INT_REQ_BIT = 1 };
enum { NODES = 24, FILES = 8, WAITING = 64, READ_MAX = 1 << 17, WRITE_MAX = 1 << 17 };

/* What the kernel knows. */
struct known_node {
	uint64_t nodeid;
	uint64_t count; /* lookups */
	mode_t mode;
};

struct known_file {
	bool open;
	uint64_t nodeid;
	uint64_t fh;
	int flags;
};

struct game {
	struct fuzz_input in;
	struct tree *tree;
	struct session *session;
	struct known_node nodes[NODES]; /* the first is the root */
	struct known_file files[FILES];
	uint64_t unique;
	/* The request under way, and its answer. */
	struct buf request;
	struct fuse_in_header header;
	uint64_t asked; /* bytes that it may be answered with */
};

/* Answers may come from other threads: those to locks that were waited for. */
static pthread_mutex_t answers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t waiting[WAITING];
static size_t waiting_count;
static struct buf answered; /* of the last request, with its header */

/* Notices have a code in place of the error. */
static void check_notice(const struct fuse_out_header *out)
{
	fuzz_check(out->error > 0 && out->error < FUSE_NOTIFY_CODE_MAX, "a notice of kind %d",
		   out->error);
}

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *arg)
{
	_cleanup_(buf_done) struct buf all = { 0 };
	struct fuse_out_header out;
	size_t i;

	(void)fd;
	(void)arg;
	for (int part = 0; part < count; part++)
		fuzz_put(&all, iov[part].iov_base, iov[part].iov_len);
	fuzz_check(all.size >= sizeof(out), "an answer of %zu bytes", all.size);
	memcpy(&out, all.data, sizeof(out));
	fuzz_check(out.len == all.size, "an answer of %zu bytes says %u", all.size, out.len);
	if (!out.unique) {
		check_notice(&out);
		return (ssize_t)all.size;
	}
	fuzz_check(out.error <= 0 && out.error > -512, "error %d", out.error);
	fuzz_check(!out.error || out.len == sizeof(out), "an error with %u bytes", out.len);
	/* To a signal for a request that is not there. */
	if (out.unique & FUSE_INT_REQ_BIT) {
		fuzz_check(out.error == -EAGAIN, "a signal was answered with %d", out.error);
		return (ssize_t)all.size;
	}
	pthread_mutex_lock(&answers_lock);
	for (i = 0; i < waiting_count && waiting[i] != out.unique; i++)
		;
	fuzz_check(i < waiting_count, "an answer to request %" PRIu64 ", which waits for none",
		   (uint64_t)out.unique);
	waiting[i] = waiting[--waiting_count];
	buf_clear(&answered);
	fuzz_put(&answered, all.data, all.size);
	pthread_mutex_unlock(&answers_lock);
	return (ssize_t)all.size;
}

static ssize_t device_read(int fd, void *data, size_t size, void *arg)
{
	(void)fd;
	(void)data;
	(void)size;
	(void)arg;
	return -EAGAIN;
}

/* Requests. */

static void put(struct game *game, const void *data, size_t size)
{
	fuzz_put(&game->request, data, size);
}

#define PUT(game, argument) put((game), &(argument), sizeof(argument))

static void begin_request(struct game *game, uint32_t opcode, uint64_t nodeid)
{
	static const uint32_t pids[] = { 0, 1, 0x3fffffff };
	uint8_t who = take_byte(&game->in);

	buf_clear(&game->request);
	game->asked = 0;
	game->header = (struct fuse_in_header){
		.opcode = opcode,
		.unique = ++game->unique * 2 | (opcode == FUSE_INTERRUPT ? FUSE_INT_REQ_BIT : 0),
		.nodeid = nodeid,
		.uid = who & 1 ? 1000 : 0,
		.gid = who & 2 ? 1000 : 0,
		.pid = who < 200 ? (uint32_t)getpid() : pids[who % ARRAY_SIZE(pids)],
	};
	PUT(game, game->header);
}

static bool wants_answer(uint32_t opcode)
{
	return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

static bool is_waiting(uint64_t unique)
{
	bool found = false;

	pthread_mutex_lock(&answers_lock);
	for (size_t i = 0; i < waiting_count; i++)
		found |= waiting[i] == unique;
	pthread_mutex_unlock(&answers_lock);
	return found;
}

/* -errno, or 0 with *ret_body; 1 when it is not answered yet. */
static int send_request(struct game *game, struct bytes *ret_body)
{
	struct fuse_out_header out;
	struct fuse_buf buf;
	uint64_t unique = game->header.unique;

	game->header.len = (uint32_t)game->request.size;
	memcpy(game->request.data, &game->header, sizeof(game->header));
	if (wants_answer(game->header.opcode)) {
		pthread_mutex_lock(&answers_lock);
		waiting[waiting_count++] = unique;
		pthread_mutex_unlock(&answers_lock);
	}
	buf = (struct fuse_buf){ .size = game->request.size, .mem = game->request.data };
	fuse_session_process_buf(game->session->fuse, &buf);
	if (!wants_answer(game->header.opcode))
		return 0;
	if (is_waiting(unique))
		return 1;
	memcpy(&out, answered.data, sizeof(out));
	fuzz_check(out.unique == unique, "the answer to another request");
	*ret_body = bytes_make(answered.data + sizeof(out), answered.size - sizeof(out));
	return out.error;
}

/* Only requests for locks may wait; and a close that gives locks up waits for what is told. */
static int ask(struct game *game, struct bytes *ret_body)
{
	int r = send_request(game, ret_body);

	while (r == 1 && is_waiting(game->header.unique))
		sched_yield();
	if (r != 1)
		return r;
	*ret_body = bytes_make(NULL, 0);
	return -EAGAIN;
}

static int ask_nothing(struct game *game)
{
	struct bytes body = { 0 };
	int r = ask(game, &body);

	fuzz_check(r < 0 || !body.size, "%zu bytes answer opcode %u", body.size,
		   game->header.opcode);
	return r;
}

/* What the kernel checks in attributes. */
static void check_attr(const struct fuse_attr *attr)
{
	static const mode_t types[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO,
					S_IFCHR, S_IFBLK, S_IFSOCK };
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		known |= (attr->mode & S_IFMT) == types[i];
	fuzz_check(known, "mode %o", attr->mode);
	fuzz_check(attr->ino, "no inode number");
	fuzz_check(attr->size <= INT64_MAX, "size %" PRIu64, (uint64_t)attr->size);
	fuzz_check(attr->mtimensec < 1000000000 && attr->atimensec < 1000000000 &&
			   attr->ctimensec < 1000000000,
		   "nanoseconds");
}

/* Choices. */

static struct known_node *take_node(struct game *game)
{
	struct known_node *node = &game->nodes[take_below(&game->in, NODES)];

	return node->count ? node : &game->nodes[0];
}

static struct known_node *take_dir(struct game *game)
{
	struct known_node *node = take_node(game);

	return S_ISDIR(node->mode) ? node : &game->nodes[0];
}

static struct known_file *take_file(struct game *game)
{
	struct known_file *file = &game->files[take_below(&game->in, FILES)];

	return file->open ? file : NULL;
}

static const char *const names[] = {
	"s",	  "t",	      "d",	   "a.jsonl",	    "b.jsonl",
	"a.json", "a.hash",   "a.txt",	   "a.tmp",	    "x:_hash.json",
	".json",  "%2E.json", "a\n.jsonl", "\xff\xfe.json", "%2F",
	"d.json",
};

/* A name, with its NUL. */
static void put_name(struct game *game)
{
	uint8_t choice = take_byte(&game->in);
	char name[1025];

	if (choice < 230) {
		const char *likely = names[choice < 180 ? choice % 8 : choice % ARRAY_SIZE(names)];

		put(game, likely, strlen(likely) + 1);
		return;
	}
	/* Longer than any, or arbitrary; as the kernel would send it. */
	memset(name, 'n', sizeof(name));
	if (choice < 240) {
		name[choice & 1 ? 256 : 1024] = '\0';
	} else {
		struct bytes raw = take_bytes(&game->in, 255);
		size_t size = 0;

		for (size_t i = 0; i < raw.size; i++)
			if (raw.data[i] && raw.data[i] != '/')
				name[size++] = raw.data[i];
		while (size && size <= 2 && name[0] == '.' && name[size - 1] == '.')
			name[size - 1] = 'x';
		size = MAX(size, (size_t)1);
		name[size] = '\0';
	}
	put(game, name, strlen(name) + 1);
}

static uint64_t take_offset(struct game *game)
{
	return take_number(&game->in) & INT64_MAX;
}

/* Names. */

/* What the kernel does when it keeps no node any more. */
static void forget_node(struct game *game, struct known_node *node, uint64_t count)
{
	const struct fuse_forget_in in = { .nlookup = count };
	struct bytes body;

	if (!node->count || node == game->nodes)
		return;
	for (size_t i = 0; i < FILES; i++)
		if (game->files[i].open && game->files[i].nodeid == node->nodeid)
			return;
	node->count -= count;
	begin_request(game, FUSE_FORGET, node->nodeid);
	PUT(game, in);
	send_request(game, &body);
}

/* One more lookup of a nodeid. */
static void know(struct game *game, uint64_t nodeid, mode_t mode)
{
	struct known_node *node = NULL;
	struct known_node other = { .nodeid = nodeid, .count = 1, .mode = mode };

	for (size_t i = 0; i < NODES; i++)
		if (game->nodes[i].count && game->nodes[i].nodeid == nodeid)
			node = &game->nodes[i];
	if (node) {
		node->count += node != game->nodes;
		return;
	}
	for (size_t i = 1; i < NODES; i++)
		if (!game->nodes[i].count)
			node = &game->nodes[i];
	if (!node) {
		node = &game->nodes[1 + take_below(&game->in, NODES - 1)];
		forget_node(game, node, node->count);
	}
	if (node->count)
		forget_node(game, &other, 1);
	else
		*node = other;
}

static void know_entry(struct game *game, struct bytes body, size_t expected)
{
	struct fuse_entry_out out;

	fuzz_check(body.size == expected, "an entry of %zu bytes", body.size);
	memcpy(&out, body.data, sizeof(out));
	/* A name that is not there, to be remembered. */
	if (!out.nodeid && game->header.opcode == FUSE_LOOKUP)
		return;
	fuzz_check(out.nodeid, "an entry without a node");
	check_attr(&out.attr);
	know(game, out.nodeid, out.attr.mode);
}

static void ask_entry(struct game *game)
{
	struct bytes body;

	if (ask(game, &body) == 0)
		know_entry(game, body, sizeof(struct fuse_entry_out));
}

static void do_lookup(struct game *game)
{
	begin_request(game, FUSE_LOOKUP, take_dir(game)->nodeid);
	put_name(game);
	ask_entry(game);
}

static void do_forget(struct game *game)
{
	struct known_node *node = &game->nodes[take_below(&game->in, NODES)];

	if (node->count)
		forget_node(game, node, 1 + take_byte(&game->in) % node->count);
}

static void do_make(struct game *game)
{
	static const uint32_t modes[] = { S_IFREG | 0644, S_IFIFO | 0600, S_IFCHR | 0600,
					  S_IFSOCK | 0600 };
	struct fuse_mkdir_in mkdir_in = { .mode = take_byte(&game->in) };
	struct fuse_mknod_in mknod_in = { .mode = take_of(&game->in, modes),
					  .rdev = take_byte(&game->in) };

	switch (take_below(&game->in, 4)) {
	case 0:
		begin_request(game, FUSE_MKNOD, take_dir(game)->nodeid);
		PUT(game, mknod_in);
		put_name(game);
		break;
	case 1:
		begin_request(game, FUSE_SYMLINK, take_dir(game)->nodeid);
		put_name(game);
		put_name(game);
		break;
	default:
		begin_request(game, FUSE_MKDIR, take_dir(game)->nodeid);
		PUT(game, mkdir_in);
		put_name(game);
	}
	ask_entry(game);
}

static void do_link(struct game *game)
{
	struct known_node *node = take_node(game);
	const struct fuse_link_in in = { .oldnodeid = node->nodeid };

	/* The kernel links no directories. */
	if (S_ISDIR(node->mode))
		return;
	begin_request(game, FUSE_LINK, take_dir(game)->nodeid);
	PUT(game, in);
	put_name(game);
	ask_entry(game);
}

static void do_remove(struct game *game)
{
	begin_request(game, take_byte(&game->in) & 1 ? FUSE_UNLINK : FUSE_RMDIR,
		      take_dir(game)->nodeid);
	put_name(game);
	ask_nothing(game);
}

/* In the root or in sessions only, so that no directory comes to lie in itself, which the kernel
 * prevents. */
static void do_rename(struct game *game)
{
	static const uint32_t flags[] = { 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE };
	struct known_node *dir = take_dir(game);
	struct fuse_rename2_in in = { .newdir = dir->nodeid, .flags = take_of(&game->in, flags) };

	begin_request(game, FUSE_RENAME2, dir->nodeid);
	PUT(game, in);
	put_name(game);
	put_name(game);
	ask_nothing(game);
}

static void do_readlink(struct game *game)
{
	struct known_node *node = take_node(game);
	struct bytes body;

	if (!S_ISLNK(node->mode))
		return;
	begin_request(game, FUSE_READLINK, node->nodeid);
	if (ask(game, &body) == 0)
		fuzz_check(body.size && body.size < 4096, "a target of %zu bytes", body.size);
}

/* Attributes. */

static void ask_attr(struct game *game)
{
	struct fuse_attr_out out;
	struct bytes body;

	if (ask(game, &body) < 0)
		return;
	fuzz_check(body.size == sizeof(out), "attributes of %zu bytes", body.size);
	memcpy(&out, body.data, sizeof(out));
	check_attr(&out.attr);
}

static void do_getattr(struct game *game)
{
	struct known_file *file = take_file(game);
	struct fuse_getattr_in in = { 0 };

	if (file) {
		in.getattr_flags = FUSE_GETATTR_FH;
		in.fh = file->fh;
	}
	begin_request(game, FUSE_GETATTR, file ? file->nodeid : take_node(game)->nodeid);
	PUT(game, in);
	ask_attr(game);
}

static void do_setattr(struct game *game)
{
	struct known_file *file = take_file(game);
	struct known_node *node = take_node(game);
	struct fuse_setattr_in in = {
		.valid = take_byte(&game->in) | (uint32_t)take_byte(&game->in) << 8,
		.size = take_offset(game),
		.mtime = take_number(&game->in),
		.mtimensec = take_byte(&game->in),
		.mode = take_byte(&game->in),
		.uid = take_byte(&game->in),
	};

	/* The kernel cuts regular files only; and what is larger than a store takes is another
	 * target's trouble. */
	in.valid &= ~(uint32_t)(FATTR_FH | FATTR_LOCKOWNER);
	in.size %= 1 << 22;
	if (!S_ISREG(node->mode))
		in.valid &= ~(uint32_t)FATTR_SIZE;
	if (file && take_byte(&game->in) & 1 && (file->flags & O_ACCMODE) != O_RDONLY) {
		in.valid |= FATTR_FH | FATTR_SIZE;
		in.fh = file->fh;
	}
	begin_request(game, FUSE_SETATTR, in.valid & FATTR_FH ? file->nodeid : node->nodeid);
	PUT(game, in);
	ask_attr(game);
}

static void do_statfs(struct game *game)
{
	struct bytes body;

	begin_request(game, FUSE_STATFS, 1);
	if (ask(game, &body) == 0)
		fuzz_check(body.size == sizeof(struct fuse_statfs_out), "%zu bytes", body.size);
}

static void do_xattr(struct game *game)
{
	static const char *const attributes[] = {
		"user.a",    "user.b", "user.sessfs.invalid", "security.capability",
		"trusted.a", "user."
	};
	static const uint32_t sizes[] = { 0, 1, 5, 100, 65536 };
	const char *name = take_of(&game->in, attributes);
	struct fuse_getxattr_in get = { .size = take_of(&game->in, sizes) };
	struct bytes value = take_bytes(&game->in, 3000), body = { 0 };
	struct fuse_setxattr_in set = { .size = (uint32_t)value.size,
					.flags = take_below(&game->in, 4) };
	uint64_t nodeid = take_node(game)->nodeid;
	bool lists = false;

	switch (take_below(&game->in, 4)) {
	case 0:
		begin_request(game, FUSE_SETXATTR, nodeid);
		/* Without FUSE_SETXATTR_EXT the structure is shorter. */
		put(game, &set, FUSE_COMPAT_SETXATTR_IN_SIZE);
		put(game, name, strlen(name) + 1);
		put(game, value.data, value.size);
		ask_nothing(game);
		return;
	case 1:
		begin_request(game, FUSE_REMOVEXATTR, nodeid);
		put(game, name, strlen(name) + 1);
		ask_nothing(game);
		return;
	case 2:
		lists = true;
	}
	begin_request(game, lists ? FUSE_LISTXATTR : FUSE_GETXATTR, nodeid);
	PUT(game, get);
	if (!lists)
		put(game, name, strlen(name) + 1);
	if (ask(game, &body) == 0)
		fuzz_check(body.size <= (get.size ? get.size : sizeof(struct fuse_getxattr_out)),
			   "%zu bytes for %u", body.size, get.size);
}

/* Open files. */

static struct known_file *free_file(struct game *game)
{
	for (size_t i = 0; i < FILES; i++)
		if (!game->files[i].open)
			return &game->files[i];
	return NULL;
}

static void know_file(struct game *game, uint64_t nodeid, int flags, struct bytes body)
{
	struct known_file *file = free_file(game);
	struct fuse_open_out out;

	memcpy(&out, body.data, sizeof(out));
	fuzz_check(out.fh, "no handle");
	*file = (struct known_file){ .open = true, .nodeid = nodeid, .fh = out.fh, .flags = flags };
}

static int take_flags(struct game *game)
{
	static const int flags[] = {
		O_RDONLY,	   O_WRONLY | O_APPEND, O_RDWR,	  O_WRONLY | O_TRUNC,
		O_RDWR | O_APPEND, O_RDWR | O_TRUNC,	O_WRONLY, O_RDONLY,
	};

	return take_of(&game->in, flags);
}

static void do_open(struct game *game)
{
	struct known_node *node = take_node(game);
	struct fuse_open_in in = { .flags = (uint32_t)take_flags(game) };
	struct bytes body;

	if (!S_ISREG(node->mode) || !free_file(game))
		return;
	begin_request(game, FUSE_OPEN, node->nodeid);
	PUT(game, in);
	if (ask(game, &body) < 0)
		return;
	fuzz_check(body.size == sizeof(struct fuse_open_out), "%zu bytes", body.size);
	know_file(game, node->nodeid, (int)in.flags, body);
}

/* Some files are made without a name, where libfuse can ask for that. */
static uint32_t create_opcode(uint8_t how)
{
#ifdef HAVE_FUSE_TMPFILE
	if (how >= 192)
		return FUSE_TMPFILE;
#endif
	(void)how;
	return FUSE_CREATE;
}

static void do_create(struct game *game)
{
	int flags = take_flags(game);
	uint8_t how = take_byte(&game->in);
	struct fuse_create_in in = {
		.flags = (uint32_t)(flags | O_CREAT | (how & 1 ? O_EXCL : 0)),
		.mode = S_IFREG | 0644,
	};
	struct fuse_entry_out entry;
	struct bytes body;

	if (!free_file(game))
		return;
	begin_request(game, create_opcode(how), take_dir(game)->nodeid);
	PUT(game, in);
	put_name(game);
	if (ask(game, &body) < 0)
		return;
	memcpy(&entry, body.data, sizeof(entry));
	/* The answer is overwritten by what know_entry() may send. */
	know_file(game, entry.nodeid, (int)in.flags,
		  bytes_make(body.data + sizeof(entry), body.size - sizeof(entry)));
	know_entry(game, body, sizeof(entry) + sizeof(struct fuse_open_out));
}

static void do_read(struct game *game)
{
	struct known_file *file = take_file(game);
	uint8_t choice = take_byte(&game->in);
	struct fuse_read_in in = {
		.offset = choice < 128 ? 0 : take_offset(game),
		.size = choice & 1 ? READ_MAX : choice,
		.read_flags = choice & 2 ? FUSE_READ_LOCKOWNER : 0,
		.lock_owner = 7,
	};
	struct bytes body;

	if (!file || (file->flags & O_ACCMODE) == O_WRONLY)
		return;
	in.fh = file->fh;
	begin_request(game, FUSE_READ, file->nodeid);
	PUT(game, in);
	if (ask(game, &body) == 0)
		fuzz_check(body.size <= in.size, "read %zu for %u", body.size, in.size);
}

static void do_write(struct game *game)
{
	static const char *const scraps[] = {
		"1\n",	"{\"a\": [1, 2]}\n", "\n",   "# no\n", "{\"torn\":",
		"\"\n", "null\n\n5\n",	     "\r\n", "3",      "{\"a\": 1}",
	};
	struct known_file *file = take_file(game);
	uint8_t choice = take_byte(&game->in);
	const char *scrap = take_of(&game->in, scraps);
	struct bytes data = choice < 200 ? bytes_str(scrap) : take_bytes(&game->in, 4000), body;
	struct fuse_write_in in = {
		.offset = choice & 1 ? (uint64_t)choice : take_offset(game) % (1 << 22),
		.size = (uint32_t)data.size,
		.write_flags = choice % 16 == 15 ? FUSE_WRITE_CACHE : 0,
	};
	struct fuse_write_out out;

	if (!file || (file->flags & O_ACCMODE) == O_RDONLY)
		return;
	in.fh = file->fh;
	begin_request(game, FUSE_WRITE, file->nodeid);
	PUT(game, in);
	put(game, data.data, data.size);
	if (ask(game, &body) < 0)
		return;
	fuzz_check(body.size == sizeof(out), "%zu bytes", body.size);
	memcpy(&out, body.data, sizeof(out));
	fuzz_check(out.size <= in.size, "wrote %u of %u", out.size, in.size);
}

static void flush(struct game *game, const struct known_file *file)
{
	const struct fuse_flush_in in = { .fh = file->fh, .lock_owner = take_byte(&game->in) };

	begin_request(game, FUSE_FLUSH, file->nodeid);
	PUT(game, in);
	ask_nothing(game);
}

static void do_flush(struct game *game)
{
	struct known_file *file = take_file(game);

	if (file)
		flush(game, file);
}

static void do_fsync(struct game *game)
{
	struct known_file *file = take_file(game);
	struct fuse_fsync_in in = { 0 };

	in.fh = file ? file->fh : 0;
	begin_request(game, file ? FUSE_FSYNC : FUSE_FSYNCDIR, file ? file->nodeid : 1);
	PUT(game, in);
	ask_nothing(game);
}

static void do_allocate(struct game *game)
{
	struct known_file *file = take_file(game);
	struct fuse_fallocate_in in = {
		.offset = take_offset(game) % (1 << 22),
		.length = 1 + take_offset(game) % (1 << 22),
		.mode = take_below(&game->in, 64),
	};

	if (!file || (file->flags & O_ACCMODE) == O_RDONLY)
		return;
	in.fh = file->fh;
	begin_request(game, FUSE_FALLOCATE, file->nodeid);
	PUT(game, in);
	ask_nothing(game);
}

static void do_seek(struct game *game)
{
	struct known_file *file = take_file(game);
	struct fuse_lseek_in in = { .offset = take_offset(game),
				    .whence = take_byte(&game->in) & 1 ? SEEK_DATA : SEEK_HOLE };
	struct fuse_lseek_out out;
	struct bytes body;

	if (!file)
		return;
	in.fh = file->fh;
	begin_request(game, FUSE_LSEEK, file->nodeid);
	PUT(game, in);
	if (ask(game, &body) < 0)
		return;
	fuzz_check(body.size == sizeof(out), "%zu bytes", body.size);
	memcpy(&out, body.data, sizeof(out));
	fuzz_check(out.offset >= in.offset && out.offset <= INT64_MAX, "%" PRIu64,
		   (uint64_t)out.offset);
}

static void release(struct game *game, struct known_file *file)
{
	struct fuse_release_in in = { .fh = file->fh, .flags = (uint32_t)file->flags };

	file->open = false;
	begin_request(game, FUSE_RELEASE, file->nodeid);
	PUT(game, in);
	ask_nothing(game);
}

/* Locks. */

/* A signal for a request that waits.  Libfuse keeps one that comes too late until the next request,
 * so that follows. */
static void interrupt(struct game *game, uint64_t unique)
{
	const struct fuse_interrupt_in in = { .unique = unique };
	struct bytes body;

	begin_request(game, FUSE_INTERRUPT, 0);
	PUT(game, in);
	send_request(game, &body);
	do_statfs(game);
}

/* What waits for a file is ended before the file is closed: the kernel closes none that a request
 * is about. */
static void interrupt_all(struct game *game)
{
	uint64_t unique;

	while (waiting_count) {
		pthread_mutex_lock(&answers_lock);
		unique = waiting_count ? waiting[0] : 0;
		pthread_mutex_unlock(&answers_lock);
		if (unique)
			interrupt(game, unique);
		while (unique && is_waiting(unique))
			sched_yield();
	}
}

static void do_close(struct game *game)
{
	struct known_file *file = take_file(game);

	if (!file)
		return;
	interrupt_all(game);
	if (take_byte(&game->in) % 8)
		flush(game, file);
	release(game, file);
}

static void do_lock(struct game *game)
{
	static const uint32_t types[] = { F_RDLCK, F_WRLCK, F_UNLCK, F_WRLCK, 9 };
	static const uint32_t opcodes[] = { FUSE_GETLK, FUSE_SETLK, FUSE_SETLKW, FUSE_SETLK };
	struct known_file *file = take_file(game);
	struct fuse_lk_in in = {
		.owner = take_below(&game->in, 3),
		.lk = { .start = take_offset(game),
			.end = take_offset(game),
			.type = take_of(&game->in, types),
			.pid = (uint32_t)getpid() },
		.lk_flags = take_byte(&game->in) & 1 ? FUSE_LK_FLOCK : 0,
	};
	uint32_t opcode = take_of(&game->in, opcodes);
	struct bytes body;

	if (!file || waiting_count >= WAITING / 2)
		return;
	if (in.lk.end < in.lk.start)
		in.lk.end = INT64_MAX;
	if (in.lk_flags & FUSE_LK_FLOCK && opcode == FUSE_GETLK)
		opcode = FUSE_SETLK;
	in.fh = file->fh;
	begin_request(game, opcode, file->nodeid);
	PUT(game, in);
	send_request(game, &body);
}

static void do_interrupt(struct game *game)
{
	uint64_t unique = game->unique * 2;

	pthread_mutex_lock(&answers_lock);
	if (waiting_count && take_byte(&game->in) & 1)
		unique = waiting[0];
	pthread_mutex_unlock(&answers_lock);
	interrupt(game, unique);
}

/* Directories. */

static void check_dirent(const struct fuse_dirent *entry, const char *name, uint64_t *position)
{
	fuzz_check(entry->namelen >= 1 && entry->namelen <= 255, "a name of %u bytes",
		   entry->namelen);
	fuzz_check(!memchr(name, '/', entry->namelen) && !memchr(name, '\0', entry->namelen),
		   "the name %.*s", (int)entry->namelen, name);
	fuzz_check(entry->off > *position, "position %" PRIu64 " behind %" PRIu64,
		   (uint64_t)entry->off, *position);
	*position = entry->off;
	fuzz_check(entry->ino, "no inode number");
}

/* One entry; the bytes that it takes. */
static size_t read_dirent(struct game *game, struct bytes rest, bool plus, uint64_t *position)
{
	size_t head = plus ? offsetof(struct fuse_direntplus, dirent) : 0, size;
	struct fuse_entry_out out = { 0 };
	struct fuse_dirent entry;

	fuzz_check(rest.size >= head + FUSE_NAME_OFFSET, "a part of an entry");
	if (plus)
		memcpy(&out, rest.data, sizeof(out));
	memcpy(&entry, rest.data + head, FUSE_NAME_OFFSET);
	size = FUSE_DIRENT_ALIGN(head + FUSE_NAME_OFFSET + entry.namelen);
	fuzz_check(size <= rest.size, "a part of a name");
	check_dirent(&entry, rest.data + head + FUSE_NAME_OFFSET, position);
	if (out.nodeid) {
		check_attr(&out.attr);
		know(game, out.nodeid, out.attr.mode);
	}
	return size;
}

static void list(struct game *game, uint64_t nodeid, uint64_t fh)
{
	uint8_t choice = take_byte(&game->in);
	bool plus = choice & 1;
	struct fuse_read_in in = {
		.fh = fh,
		.offset = choice & 2 ? 0 : take_offset(game),
		.size = choice & 4 ? 4096 : choice * 2,
	};
	_cleanup_(buf_done) struct buf copy = { 0 };
	uint64_t position = in.offset;
	struct bytes body;

	begin_request(game, plus ? FUSE_READDIRPLUS : FUSE_READDIR, nodeid);
	PUT(game, in);
	if (ask(game, &body) < 0)
		return;
	fuzz_check(body.size <= in.size, "%zu bytes for %u", body.size, in.size);
	fuzz_put(&copy, body.data, body.size);
	for (size_t at = 0; at < copy.size;)
		at += read_dirent(game, bytes_make(copy.data + at, copy.size - at), plus,
				  &position);
}

static void do_readdir(struct game *game)
{
	uint64_t nodeid = take_dir(game)->nodeid;
	struct fuse_release_in release = { 0 };
	struct fuse_open_in in = { 0 };
	struct fuse_open_out out;
	struct bytes body;

	begin_request(game, FUSE_OPENDIR, nodeid);
	PUT(game, in);
	if (ask(game, &body) < 0)
		return;
	fuzz_check(body.size == sizeof(out), "%zu bytes", body.size);
	memcpy(&out, body.data, sizeof(out));
	for (unsigned times = take_byte(&game->in) % 4; times-- > 0;)
		list(game, nodeid, out.fh);
	release.fh = out.fh;
	begin_request(game, FUSE_RELEASEDIR, nodeid);
	PUT(game, release);
	ask_nothing(game);
}

static void do_settle(struct game *game)
{
	place_settle(game->tree);
}

static void (*const moves[])(struct game *game) = {
	do_lookup,  do_lookup,	do_lookup,  do_make,	 do_make,      do_create, do_create,
	do_create,  do_open,	do_open,    do_open,	 do_write,     do_write,  do_write,
	do_write,   do_read,	do_read,    do_flush,	 do_fsync,     do_close,  do_close,
	do_rename,  do_rename,	do_remove,  do_remove,	 do_link,      do_lock,	  do_lock,
	do_getattr, do_setattr, do_setattr, do_xattr,	 do_readdir,   do_seek,	  do_allocate,
	do_forget,  do_statfs,	do_settle,  do_readlink, do_interrupt,
};

/* A session without a mount. */

static void say_hello(struct game *game)
{
	struct fuse_init_in in = {
		.major = 7,
		.minor = 36,
		.max_readahead = READ_MAX,
		.flags = ~0u & ~(uint32_t)(FUSE_INIT_EXT | FUSE_SETXATTR_EXT),
	};
	struct bytes body;

	begin_request(game, FUSE_INIT, 0);
	PUT(game, in);
	fuzz_check(ask(game, &body) == 0, "no hello");
}

static void session_begin(struct game *game)
{
	static const struct fuse_custom_io io = { .read = device_read, .writev = device_writev };
	char *argv[] = { (char *)"sessfs", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct session *session = calloc(1, sizeof(*session));

	fuzz_need(session);
	game->session = session;
	session->tree = game->tree;
	session->threads = 8;
	session->keep = 86400;
	pthread_mutex_init(&session->files_lock, NULL);
	session->fuse = fuse_session_new(&args, &session_ops, sizeof(session_ops), session);
	fuse_opt_free_args(&args);
	fuzz_need(session->fuse);
	fuzz_need(fuse_session_custom_io(session->fuse, &io, eventfd(0, EFD_CLOEXEC)) == 0);
	session->mounted = true;
	fuzz_need(lock_requests_start(session) == 0);
	notify_start(session);
	say_hello(game);
}

/* Some end as a mount does whose users are still there. */
static void session_end(struct game *game, bool orderly)
{
	if (orderly) {
		interrupt_all(game);
		for (size_t i = 0; i < FILES; i++)
			if (game->files[i].open)
				release(game, &game->files[i]);
		for (size_t i = 1; i < NODES; i++)
			forget_node(game, &game->nodes[i], game->nodes[i].count);
		place_check_inodes(game->tree);
	}
	session_free(game->session);
	fuzz_check(!waiting_count, "%zu requests were not answered", waiting_count);
}

static struct tree *open_tree(uint8_t choices)
{
	const struct backend_options backend_options = { .owner = "the target" };
	const struct tree_options options = {
		.strict = (choices & 12) == 12,
		.set_pause = true,
	};
	struct tree *tree;
	int r;

	if (choices & 3)
		return place_memory(&options);
	place_fresh();
	tree = place_open(&backend_options, &options, &r);
	fuzz_need(tree);
	return tree;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct game game = { .in = fuzz_input(data, size) };
	uint8_t choices = take_byte(&game.in);
	_cleanup_(buf_done) struct buf said = { 0 };

	if (size > 2048)
		return -1;
	game.tree = open_tree(choices);
	game.nodes[0] = (struct known_node){ .nodeid = 1, .count = 1, .mode = S_IFDIR | 0755 };
	session_begin(&game);
	while (fuzz_left(&game.in))
		take_of(&game.in, moves)(&game);
	session_end(&game, choices & 16);
	fuzz_check(place_violations(game.tree->backend, &said) == 0, "check says:\n%.*s",
		   (int)said.size, said.data);
	tree_close(game.tree);
	buf_done(&game.request);
	buf_done(&answered);
	return 0;
}
