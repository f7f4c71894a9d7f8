/* SPDX-License-Identifier: MIT */
/*
 * put and append: bytes from a file or the standard input into a file of the store.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/lines.h"
#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/mounts/mounts.h"
#include "src/cmd/cmd.h"
#include "src/cmd/input.h"

/* A line is held back until it is whole, up to so many bytes; in a state, any line is. */
enum { BUFFERED_MAX = 4 << 20, BUFFERED_STATE_MAX = 1 << 30 };

static const struct cmd_option input_options[] = { CMD_WRITER };

/* How many bytes of an unfinished line are held back: after an interruption, no part of the line is
 * in the file. */
static size_t most_held(const char *path, enum access_how how)
{
	const char *slash = strrchr(path, '/');

	if (how != ACCESS_FILE_APPEND)
		return 0;
	return names_split(bytes_str(slash ? slash + 1 : path)).kind == BACKEND_ORDINARY ?
		       BUFFERED_MAX :
		       BUFFERED_STATE_MAX;
}

/* How much may be written now; no line ends in what was held. */
static size_t ripe(const struct buf *data, size_t held, size_t most)
{
	size_t whole = lines_whole(bytes_make(data->data + held, data->size - held)).size;

	if (whole && most)
		return held + whole;
	return data->size >= most ? data->size : 0;
}

/* *ret_reading tells whose error it is. */
static int copy(int fd, struct access_file *file, size_t most, struct progress *progress,
		bool *ret_reading)
{
	_cleanup_(buf_done) struct buf data = { 0 };
	int r, more;

	do {
		size_t size, held = data.size;

		more = input_block(fd, &data);
		progress_add(progress, 0, data.size - held);
		*ret_reading = more < 0;
		if (more < 0)
			return more;
		size = more ? ripe(&data, held, most) : data.size;
		r = access_file_write(file, bytes_make(data.data, size));
		buf_consume(&data, size);
	} while (r == 0 && more);
	return r;
}

static void begin_progress(struct progress *progress, int fd, enum access_how how)
{
	struct stat st;

	/* At a terminal, the user types the input: show no progress. */
	*progress = (struct progress){ .fd = -1 };
	if (isatty(fd))
		return;
	/* A save of many rows takes longer than to read them. */
	progress_begin(progress, how == ACCESS_FILE_APPEND ? "append" : "put",
		       how == ACCESS_FILE_APPEND ? NULL : "row");
	if (how != ACCESS_FILE_APPEND)
		progress_follow(progress, PROGRESS_TICKS);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		progress_set_total(progress, 0, (uint64_t)st.st_size);
}

/* The operands are a store, a path, and perhaps a file. */
static int take_in(struct access *access, int fd, char **operands, enum access_how how)
{
	struct access_file *file = NULL;
	struct progress progress;
	bool reading = false;
	int r = access_file_open(access, operands[1], how, &file);

	begin_progress(&progress, fd, how);
	if (r == 0)
		r = copy(fd, file, most_held(operands[1], how), &progress, &reading);
	if (r == 0)
		r = access_file_save(file);
	else
		access_file_drop(file);
	progress_end(&progress);
	if (r == 0)
		return CMD_DONE;
	return reading ? input_fail(operands[2], r) : cmd_fail(operands[0], operands[1], r);
}

static int run(struct options *options, enum access_how how, char **operands)
{
	_cleanup_(access_closep) struct access *access = NULL;
	_cleanup_(closep) int fd = input_open(operands[2]);
	struct stat from, to;

	if (fd < 0)
		return input_fail(operands[2], fd);
	if (store_open(operands[0], ACCESS_WRITE | ACCESS_CREATE, options, &access) < 0)
		return CMD_FAILED;
	/* Appending a file to itself would never end. */
	if (how == ACCESS_FILE_APPEND && fstat(fd, &from) == 0 && S_ISREG(from.st_mode) &&
	    mounts_shows(from.st_dev, operands[0]) && access_stat(access, operands[1], &to) == 0 &&
	    from.st_ino == to.st_ino)
		return log_fail(CMD_FAILED, "%s: %s: a file cannot be appended to itself",
				operands[0], operands[1]);
	return take_in(access, fd, operands, how);
}

static int run_put(void *values, char **operands)
{
	return run(values, ACCESS_FILE_REPLACE, operands);
}

static int run_append(void *values, char **operands)
{
	return run(values, ACCESS_FILE_APPEND, operands);
}

#define INPUT_MORE "The store, the session and the file are created if they do not exist."

const struct command cmd_put = {
	.name = "put",
	.arguments = "[-o OPTIONS] STORE PATH [FILE]",
	.summary = "replace the content of a file, or create one",
	.help = "Replaces the content of a file with FILE or the standard input, in one "
		"transaction: until all of it is read, and if anything fails, the previous "
		"content remains.  Mode and owner of an existing file are preserved.",
	.more = INPUT_MORE,
	.failed = "nothing was saved",
	CMD_OPTIONS(input_options),
	.least = 2,
	.most = 3,
	.operands = "takes a store, a path in it, and a file to read from",
	.size = sizeof(struct options),
	.run = run_put,
};

const struct command cmd_append = {
	.name = "append",
	.arguments = "[-o OPTIONS] STORE PATH [FILE]",
	.summary = "append lines to a file",
	.help = "Appends FILE, or the standard input, to a file.  Each complete line of a list "
		"becomes a row as soon as it is read; a last line without a newline follows at "
		"the end of the input.",
	.more = INPUT_MORE,
	.failed = "not everything was appended (what was is complete lines)",
	CMD_OPTIONS(input_options),
	.least = 2,
	.most = 3,
	.operands = "takes a store, a path in it, and a file to read from",
	.size = sizeof(struct options),
	.run = run_append,
};
