/* SPDX-License-Identifier: MIT */
/*
 * put and append: bytes from a file or the standard input into a file of the store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/cleanup.h"
#include "src/base/log.h"
#include "src/stop.h"
#include "src/verb.h"

enum {
	BLOCK = 128 * 1024,
	HELD_MAX = 4 << 20, /* bytes of a line that are held back until it is whole */
};

struct input {
	struct options options;
};

static const struct verb_option input_options[] = {
	{ NULL, 'o', "OPTIONS", verb_take_options, offsetof(struct input, options),
	  "table=NAME, strict, exact: as for a mount, where no mount has its own" },
};

static const struct verb put_verb = {
	&cmd_put,
	input_options,
	ARRAY_SIZE(input_options),
	2,
	3,
	"takes a store, a path in it, and a file to read from",
};

static const struct verb append_verb = {
	&cmd_append,
	input_options,
	ARRAY_SIZE(input_options),
	2,
	3,
	"takes a store, a path in it, and a file to read from",
};

/* One block behind what data holds; 0 at the end of the input, 1 before. */
static int read_block(int fd, struct buf *data)
{
	ssize_t size;
	int r = buf_reserve(data, BLOCK);

	if (r < 0)
		return r;
	do
		size = stop_wanted() ? 0 : read(fd, data->data + data->size, BLOCK);
	while (size < 0 && errno == EINTR && !stop_wanted());
	if (stop_wanted())
		return -EINTR;
	if (size < 0)
		return -errno;
	data->size += (size_t)size;
	return size > 0;
}

/* How much may be written now.  An unfinished line is held back: who is interrupted in the middle
 * of one leaves none of it. */
static size_t ripe(const struct buf *data, enum access_how how)
{
	const char *last = how == ACCESS_FILE_APPEND && data->size ?
				   memrchr(data->data, '\n', data->size) :
				   NULL;

	if (how != ACCESS_FILE_APPEND || (!last && data->size >= HELD_MAX))
		return data->size;
	return last ? (size_t)(last + 1 - data->data) : 0;
}

/* *ret_reading tells whose error it is. */
static int copy(int fd, struct access_file *file, enum access_how how, struct progress *progress,
		bool *ret_reading)
{
	_cleanup_(buf_done) struct buf data = { 0 };
	int r, more;

	do {
		size_t size, held = data.size;

		more = read_block(fd, &data);
		progress_add(progress, 0, data.size - held);
		*ret_reading = more < 0;
		if (more < 0)
			return more;
		size = more ? ripe(&data, how) : data.size;
		r = access_file_write(file, bytes_make(data.data, size));
		buf_consume(&data, size);
	} while (r == 0 && more);
	return r;
}

static int fail_input(const char *name, int error)
{
	if (error != -EINTR || !stop_wanted())
		log_error("cannot read %s: %s", name ? name : "the standard input",
			  strerror(-error));
	return CMD_FAILED;
}

static void begin_progress(struct progress *progress, int fd, enum access_how how)
{
	struct stat st;

	/* Who types sees how far it is. */
	*progress = (struct progress){ .fd = -1 };
	if (isatty(fd))
		return;
	/* A save of many rows takes longer than to read them. */
	progress_begin(progress, how == ACCESS_FILE_APPEND ? "append" : "put",
		       how == ACCESS_FILE_APPEND ? NULL : "rows");
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
		r = copy(fd, file, how, &progress, &reading);
	if (r == 0)
		r = access_file_save(file);
	else
		access_file_drop(file);
	progress_end(&progress);
	if (r == 0)
		return CMD_DONE;
	return reading ? fail_input(operands[2], r) : verb_fail(operands[0], operands[1], r);
}

/* The input before the store: without it there is nothing to do. */
static int open_input(const char *name)
{
	struct stat st;
	int fd = name && strcmp(name, "-") != 0 ? open(name, O_RDONLY | O_CLOEXEC) :
						  dup(STDIN_FILENO);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		return -EISDIR;
	}
	return fd < 0 ? -errno : fd;
}

static int run(const struct verb *verb, enum access_how how, int argc, char **argv)
{
	struct input input = { 0 };
	int first = verb_parse(verb, &input, argc, argv);
	_cleanup_(closep) int fd = -1;
	struct access *access;
	int status = CMD_FAILED;

	if (first < 0)
		return CMD_USAGE;
	fd = open_input(argv[first + 2]);
	if (fd < 0)
		fail_input(argv[first + 2], fd);
	else if (verb_open(argv[first], ACCESS_WRITE | ACCESS_CREATE, &input.options, &access) ==
		 0) {
		status = take_in(access, fd, argv + first, how);
		access_close(access);
	}
	options_done(&input.options);
	return status;
}

static int run_put(int argc, char **argv)
{
	return run(&put_verb, ACCESS_FILE_REPLACE, argc, argv);
}

static int run_append(int argc, char **argv)
{
	return run(&append_verb, ACCESS_FILE_APPEND, argc, argv);
}

static void print_more(const char *failed)
{
	printf("The store, the session and the file are made when they are not there.  While the "
	       "store is\n"
	       "not mounted, nobody can mount it until the input has ended.\n"
	       "\n");
	verb_print_options(input_options, ARRAY_SIZE(input_options));
	cmd_print_status(failed);
}

static void help_put(void)
{
	printf("Replaces the content of a file by that of FILE, or of the standard input, in one\n"
	       "transaction: until all of it is read, and whatever happens meanwhile, the previous "
	       "content\n"
	       "stays.  Mode and owner of a file that is there stay, too.\n");
	print_more("nothing was saved");
}

static void help_append(void)
{
	printf("Appends FILE, or the standard input, to a file.  Each whole line of a list is a "
	       "row as soon\n"
	       "as it is read; a last line without its newline follows at the end of the input.\n");
	print_more("not all was appended; what was is whole lines");
}

const struct command cmd_put = {
	.name = "put",
	.arguments = "[-o OPTIONS] STORE PATH [FILE]",
	.summary = "replace the content of a file, or make one",
	.help = help_put,
	.run = run_put,
};

const struct command cmd_append = {
	.name = "append",
	.arguments = "[-o OPTIONS] STORE PATH [FILE]",
	.summary = "append lines to a file",
	.help = help_append,
	.run = run_append,
};
