/* SPDX-License-Identifier: MIT */
/*
 * An example of a backend: a journal of batches.
 *
 * What a filesystem asks for is found in memory, and the store in memory (backend/memory/) knows
 * how; so this one takes all of its operations over, and puts its own in place of three.  commit()
 * lets the memory apply a batch, and when it has taken all of it, and before it lets anybody see
 * that, writes the batch to the file; if that fails, the memory gives the batch up.  Opening
 * applies all batches of the file again.
 *
 * The file is a header, then a record a batch: its size and its digest, then the operations, each
 * as the structs of backend.h, with the bytes that they point to behind them.  A record that is not
 * whole was being written when the power failed, and ends the file.  The header has the sizes of
 * the structs and the number of kinds of operations: a program that was built with others does not
 * take the file.
 *
 * README.md tells what this lacks.
 */
#include "contrib/backend-journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/memory/memory.h"
#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "backend/base/log.h"

struct journal {
	struct backend_ops ops;		/* must be first: the store in memory points to it */
	const struct backend_ops *rest; /* the memory's own */
	int fd;
	off_t end; /* of the last record that is whole */
};

static struct journal *journal_of(struct backend *backend)
{
	return (struct journal *)backend->ops;
}

struct header {
	char magic[16];
	uint32_t op_size;
	uint32_t node_size;
	uint32_t op_types;
};

static const struct header own_header = { "sessfs journal\n", sizeof(struct backend_op),
					  sizeof(struct backend_node), BACKEND_OP_TYPES };

struct record {
	uint64_t size; /* of what follows */
	uint8_t digest[DIGEST_SIZE];
};

static const uint8_t no_key[16];

/* Operations as bytes. */

static const size_t op_texts[] = {
	offsetof(struct backend_op, session),	 offsetof(struct backend_op, key),
	offsetof(struct backend_op, session_to), offsetof(struct backend_op, key_to),
	offsetof(struct backend_op, name),	 offsetof(struct backend_op, data),
};
static const size_t node_texts[] = {
	offsetof(struct backend_node, session),
	offsetof(struct backend_node, key),
	offsetof(struct backend_node, target),
};

/* A struct, then its texts.  Pointers in it only tell whether there is something. */
static int put(struct buf *record, const void *from, size_t size, const size_t *texts, size_t count)
{
	int r = buf_append(record, from, size);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct bytes text;

		memcpy(&text, (const char *)from + texts[i], sizeof(text));
		r = buf_append_bytes(record, text);
	}
	return r;
}

static int put_op(struct buf *record, const struct backend_op *op)
{
	int r = put(record, op, sizeof(*op), op_texts, ARRAY_SIZE(op_texts));

	if (r == 0 && op->node)
		r = put(record, op->node, sizeof(*op->node), node_texts, ARRAY_SIZE(node_texts));
	return r;
}

/* Takes size bytes from the front of rest; NULL when there are not as many. */
static const char *take_bytes(struct bytes *rest, size_t size)
{
	const char *data = rest->data;

	if (rest->size < size)
		return NULL;
	*rest = bytes_make(data + size, rest->size - size);
	return data;
}

static int take(struct bytes *rest, void *to, size_t size, const size_t *texts, size_t count)
{
	const char *from = take_bytes(rest, size);

	if (!from)
		return -EIO;
	memcpy(to, from, size);
	for (size_t i = 0; i < count; i++) {
		struct bytes text;

		memcpy(&text, (char *)to + texts[i], sizeof(text));
		from = take_bytes(rest, text.size);
		if (!from)
			return -EIO;
		text.data = text.data ? from : NULL;
		memcpy((char *)to + texts[i], &text, sizeof(text));
	}
	return 0;
}

static int take_op(struct bytes *rest, struct backend_op *op, struct backend_node *node)
{
	int r = take(rest, op, sizeof(*op), op_texts, ARRAY_SIZE(op_texts));

	if (r < 0 || !op->node)
		return r;
	r = take(rest, node, sizeof(*node), node_texts, ARRAY_SIZE(node_texts));
	node->owned = NULL;
	op->node = node;
	return r;
}

/* Writing. */

static int write_at(int fd, const void *data, size_t size, off_t offset)
{
	while (size) {
		ssize_t written = pwrite(fd, data, size, offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		data = (const char *)data + written;
		size -= (size_t)written;
		offset += written;
	}
	return 0;
}

/* What was written of a record that failed is not whole, and the next one is written over it. */
static int write_record(struct journal *journal, struct buf *record)
{
	struct record head = { .size = record->size - sizeof(head) };
	int r;

	digest_make(no_key, bytes_make(record->data + sizeof(head), head.size), head.digest);
	memcpy(record->data, &head, sizeof(head));
	r = write_at(journal->fd, record->data, record->size, journal->end);
	if (r == 0)
		journal->end += (off_t)record->size;
	else
		log_error("the journal cannot be written: %s", strerror(-r));
	return r;
}

struct writing {
	struct journal *journal;
	struct backend_batch *batch; /* the caller's */
	struct buf record;
};

/* The memory has taken the operations so far, and has the lock that lets in one batch at a time. */
static int write_more(struct backend_batch *batch)
{
	struct writing *writing = batch->arg;
	int r = 0;

	for (size_t i = 0; r == 0 && i < batch->count; i++)
		r = put_op(&writing->record, &batch->ops[i]);
	if (r == 0 && writing->batch->more)
		r = writing->batch->more(writing->batch);
	if (r == 0)
		r = write_record(writing->journal, &writing->record);
	batch->ops = writing->batch->ops;
	batch->count = writing->batch->count;
	return r;
}

static void write_again(struct backend_batch *batch)
{
	struct writing *writing = batch->arg;

	writing->record.size = sizeof(struct record);
	if (writing->batch->rewind)
		writing->batch->rewind(writing->batch);
	batch->ops = writing->batch->ops;
	batch->count = writing->batch->count;
}

static int journal_commit(struct backend *backend, struct backend_batch *batch, unsigned flags)
{
	struct writing writing = { .journal = journal_of(backend), .batch = batch };
	struct backend_batch with_record = {
		.ops = batch->ops,
		.count = batch->count,
		.more = write_more,
		.rewind = write_again,
		.arg = &writing,
	};
	int r = buf_append_zeros(&writing.record, sizeof(struct record));

	if (r == 0)
		r = writing.journal->rest->commit(backend, &with_record, flags);
	buf_done(&writing.record);
	return r;
}

static int journal_sync(struct backend *backend)
{
	return fdatasync(journal_of(backend)->fd) < 0 ? -errno : 0;
}

/* Closing gives up the lock. */
static void journal_close(struct backend *backend)
{
	struct journal *journal = journal_of(backend);

	journal->rest->close(backend);
	fsync(journal->fd);
	close(journal->fd);
	free(journal);
}

/* Reading what is there. */

struct replay {
	struct bytes all;
	struct bytes rest;
	struct backend_op op;
	struct backend_node node;
};

static int replay_more(struct backend_batch *batch)
{
	struct replay *replay = batch->arg;
	int r;

	if (!replay->rest.size)
		return 0;
	r = take_op(&replay->rest, &replay->op, &replay->node);
	batch->ops = &replay->op;
	batch->count = 1;
	return r < 0 ? r : 1;
}

static void replay_again(struct backend_batch *batch)
{
	struct replay *replay = batch->arg;

	replay->rest = replay->all;
	batch->count = 0;
}

/* The operations of the next record; false when it is not whole. */
static bool take_record(struct bytes *rest, struct bytes *ret_ops)
{
	const char *from = take_bytes(rest, sizeof(struct record));
	uint8_t digest[DIGEST_SIZE];
	struct record head;

	if (!from)
		return false;
	memcpy(&head, from, sizeof(head));
	from = take_bytes(rest, head.size);
	if (!from)
		return false;
	*ret_ops = bytes_make(from, head.size);
	digest_make(no_key, *ret_ops, digest);
	return memcmp(digest, head.digest, sizeof(digest)) == 0;
}

static int replay_all(struct journal *journal, struct backend *backend, struct bytes file)
{
	struct bytes rest = file;
	struct replay replay;
	int r = 0;

	take_bytes(&rest, sizeof(struct header));
	journal->end = sizeof(struct header);
	while (r == 0 && take_record(&rest, &replay.all)) {
		struct backend_batch batch = { .more = replay_more,
					       .rewind = replay_again,
					       .arg = &replay };

		replay_again(&batch);
		r = journal->rest->commit(backend, &batch, BACKEND_ANYWAY);
		journal->end = rest.data - file.data;
	}
	if ((size_t)journal->end < file.size)
		log_warning("the journal ends in a batch that is not whole, which never was");
	return r;
}

static int replay_file(struct journal *journal, struct backend *backend, size_t size)
{
	void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, journal->fd, 0);
	int r;

	if (data == MAP_FAILED)
		return -errno;
	r = size >= sizeof(own_header) && memcmp(data, &own_header, sizeof(own_header)) == 0 ?
		    replay_all(journal, backend, bytes_make(data, size)) :
		    -EMEDIUMTYPE;
	munmap(data, size);
	return r;
}

/* The root has its number and its times from now on. */
static int begin_file(struct journal *journal, struct backend *backend)
{
	struct backend_op op = { .type = BACKEND_NODE_PUT };
	struct backend_snapshot *snapshot;
	struct backend_node root = { 0 };
	int r = write_at(journal->fd, &own_header, sizeof(own_header), 0);

	if (r < 0)
		return r;
	journal->end = sizeof(own_header);
	r = journal->rest->snapshot_begin(backend, BACKEND_ANYWAY, &snapshot);
	if (r < 0)
		return r;
	r = journal->rest->node_get(backend, snapshot, BACKEND_ROOT, &root);
	journal->rest->snapshot_end(backend, snapshot);
	op.node = &root;
	if (r == 0)
		r = backend_commit(backend, &op, 1, BACKEND_ANYWAY);
	backend_node_done(&root);
	return r;
}

static int open_file(const char *path, const struct backend_options *options, int *ret_fd)
{
	int flags = options->read_only ? O_RDONLY : O_RDWR | (options->create ? O_CREAT : 0);
	_cleanup_(closep) int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	/* Another one would not hear of our batches, so there is no guest either. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	*ret_fd = fd;
	fd = -1;
	return 0;
}

static int fill(struct backend *backend, const struct backend_options *options)
{
	struct journal *journal = journal_of(backend);
	struct stat st;
	int r;

	if (fstat(journal->fd, &st) < 0)
		return -errno;
	if (st.st_size)
		r = replay_file(journal, backend, (size_t)st.st_size);
	else
		r = options->create ? begin_file(journal, backend) : -EMEDIUMTYPE;
	/* What a mount that is read-only remembers for itself it remembers in memory. */
	if (options->read_only)
		journal->ops.commit = journal->rest->commit;
	backend->read_only = options->read_only;
	return r;
}

static int make(int fd, const struct backend_options *options, struct backend **ret_backend)
{
	const struct backend_options in_memory = { .max_size = options->max_size };
	_cleanup_(freep) struct journal *journal = calloc(1, sizeof(*journal));
	int r;

	if (!journal)
		return -ENOMEM;
	r = memory_backend_open(&in_memory, ret_backend);
	if (r < 0)
		return r;
	*journal = (struct journal){ .ops = *(*ret_backend)->ops,
				     .rest = (*ret_backend)->ops,
				     .fd = fd };
	journal->ops.name = "journal";
	journal->ops.close = journal_close;
	journal->ops.commit = journal_commit;
	journal->ops.sync = journal_sync;
	(*ret_backend)->ops = &steal_ptr(journal)->ops;
	return 0;
}

static int refuse(int error, const char *path, char **ret_why)
{
	static const struct {
		int error;
		const char *format;
	} sentences[] = {
		{ -ENOENT, "there is no journal at %s" },
		{ -EBUSY, "%s is in use by another program" },
		{ -EMEDIUMTYPE, "%s is not a journal that this program can read" },
		{ 0, "%s cannot be opened: %m" },
	};
	size_t i = 0;

	while (sentences[i].error && sentences[i].error != error)
		i++;
	errno = -error;
	if (ret_why && asprintf(ret_why, sentences[i].format, path) < 0)
		*ret_why = NULL;
	return error;
}

int journal_backend_open(const char *path, const struct backend_options *options,
			 struct backend **ret_backend, char **ret_why)
{
	struct backend *backend = NULL;
	int fd = -1, r = open_file(path, options, &fd);

	if (r < 0)
		return refuse(r, path, ret_why);
	r = make(fd, options, &backend);
	if (r < 0) {
		close(fd);
		return refuse(r, path, ret_why);
	}
	r = fill(backend, options);
	if (r < 0) {
		backend_close(backend);
		return refuse(r, path, ret_why);
	}
	*ret_backend = backend;
	return 0;
}
