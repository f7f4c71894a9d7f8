/* SPDX-License-Identifier: MIT */

/* The process that writes: how to tell it from a child that has only inherited a descriptor. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/inode/window.h"
#include "fs/write/handle.h"
#include "backend/base/chain.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

static pid_t read_process(pid_t pid)
{
	char path[32], line[128];
	pid_t process = pid;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = descriptor_stream(path);
	if (!status)
		return pid;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "Tgid: %d", &process) == 1)
			break;
	fclose(status);
	return process;
}

/* A thread's number is not given to another for so long: many thousands come before. */
static const int64_t PROCESS_KNOWN = (int64_t)200 * 1000000;

/* The process of a thread; the thread itself when it has ended.  Reading that takes as long as
 * committing a row, so it is remembered for a moment. */
pid_t process_number(pid_t pid)
{
	static _Thread_local struct {
		pid_t pid;
		pid_t process;
		int64_t until;
	} known[8];
	size_t at = (size_t)pid % ARRAY_SIZE(known);
	int64_t now = tick_now();

	if (pid <= 0)
		return pid ? pid : PROCESS_UNSEEN;
	if (known[at].pid != pid || known[at].until < now) {
		known[at].process = read_process(pid);
		known[at].pid = pid;
		known[at].until = now + PROCESS_KNOWN;
	}
	return known[at].process;
}

int writing_lost_lock(struct tree *tree, const struct writing *writing)
{
	if (!writing->lease || writing->lease == backend_lease(tree->backend))
		return 0;
	log_error("a write to inode %llu fails: its program has lost a lock, because other mounts "
		  "did not hear from this one for too long",
		  (unsigned long long)writing->inode->ino);
	return -EIO;
}

void writing_is_saver(struct tree *tree, struct writing *writing)
{
	if (writing->is_saver)
		return;
	writing->is_saver = true;
	WITH_MUTEX(&tree->times_lock);
	CHAIN_ENTER(tree->savers, writing, saver_next, saver_link);
}

bool process_lives(pid_t process)
{
	char path[32];
	FILE *status;

	if (process <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
	status = descriptor_stream(path);
	if (status)
		fclose(status);
	return status;
}

void handle_written_by(struct handle *handle, pid_t pid)
{
	/* The kernel does not say which process changes the size; see process_unseen(). */
	if (handle->writing->process && (handle->writing->writer == pid || !pid))
		return;
	handle->writing->writer = pid;
	handle->writing->process = process_number(pid);
}

void handle_opened_by(struct handle *handle, pid_t pid)
{
	handle->opener = process_number(pid);
	if (handle->writing->count == 1)
		handle_written_by(handle, pid);
}

bool handle_is_opened_by(const struct handle *handle, pid_t pid)
{
	return process_number(pid) == handle->opener;
}

static bool writing_is_by(const struct writing *writing, pid_t pid)
{
	return pid == writing->writer || !writing->process ||
	       process_number(pid) == writing->process;
}

bool handle_is_written_by(const struct handle *handle, pid_t pid)
{
	return !pid || writing_is_by(handle->writing, pid);
}

/* 1, 0; -errno when /proc cannot tell. */
static int has_nodeid(const struct tree *tree, uint64_t nodeid, pid_t pid)
{
	const struct tree_options *options = &tree->options;
	int r = pid > 0 ? options->has_open(options->arg, pid, nodeid,
					    DESCRIPTOR_WRITES | DESCRIPTOR_DOES_BOTH) :
			  0;

	return r == -ENOENT || r == -ESRCH ? 0 : r;
}

static int has_open(const struct tree *tree, const struct handle *handle, pid_t pid)
{
	return has_nodeid(tree,
			  handle->window ? handle->window :
					   inode_nodeid(handle->inode, handle->face->number),
			  pid);
}

bool handle_has_sibling(const struct handle *handle)
{
	for (const struct handle *other = handle->inode->open; other; other = other->next)
		if (other->writing != handle->writing && !other->closed &&
		    other->opener == handle->opener)
			return true;
	return false;
}

bool handle_is_held(const struct tree *tree, const struct handle *handle)
{
	return tree->options.has_open && handle->opener > 0 &&
	       has_open(tree, handle, handle->opener) != 0;
}

bool handle_is_held_by(const struct tree *tree, const struct handle *handle, pid_t process)
{
	return tree->options.has_open && has_open(tree, handle, process) > 0;
}

bool handle_goes_on(struct tree *tree, const struct handle *handle, pid_t pid)
{
	const struct writing *writing = handle->writing;
	const struct inode *inode = handle->inode;
	pid_t asked = process_number(pid);

	if (!pid || !tree->options.has_open)
		return writing->writers > 1;
	/* Any close releases the locks of a process, so what was written under them must be seen.
	 * In doubt the close is the last one of this process, and what another has is released
	 * later. */
	if (!inode->locked && has_open(tree, handle, pid) > 0)
		return true;
	if (writing->process && writing->process != asked) {
		asked = writing->process;
		if (has_open(tree, handle, asked))
			return true;
	}
	for (const struct handle *other = inode->open; other; other = other->next) {
		if (other->writing != writing || !handle_writes(other) || other->opener == asked ||
		    other->opener == process_number(pid))
			continue;
		asked = other->opener;
		/* The opener of a file that was ordinary then is not known. */
		if (asked ? has_open(tree, handle, asked) : other != handle)
			return true;
	}
	return false;
}

void through_opened_by(struct through *through, pid_t pid)
{
	through->opener = process_number(pid);
	through_written_by(through, pid);
}

void through_written_by(const struct through *through, pid_t pid)
{
	through->inode->window->saving.process = process_number(pid);
}

bool through_goes_on(const struct tree *tree, const struct through *through, pid_t pid)
{
	const struct window_saving *saving = &through->inode->window->saving;
	uint64_t nodeid = through->inode->ino;
	pid_t process = process_number(pid);

	if (!pid || !tree->options.has_open)
		return saving->writers > 1;
	if (pid < 0)
		return saving->process != pid;
	if (has_nodeid(tree, nodeid, pid) > 0)
		return true;
	if (saving->process != process && has_nodeid(tree, nodeid, saving->process))
		return true;
	return through->opener != process && through->opener != saving->process &&
	       has_nodeid(tree, nodeid, through->opener);
}

uint64_t writing_size(const struct writing *writing, uint64_t published)
{
	if (writing->mode == HANDLE_SAVE && writing->dirty)
		return writing->stage.size;
	return writing->mode == HANDLE_APPEND ? published + writing->piece.size : published;
}

bool face_is_reached(const struct tree *tree, const struct inode *inode, const struct face *face,
		     pid_t pid)
{
	const struct tree_options *options = &tree->options;
	unsigned access = DESCRIPTOR_PATH;

	if (!pid || !face->own || !options->has_open || writing_is_by(face->writing, pid))
		return true;
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->face == face)
			access |= descriptor_access(handle->flags);
	return options->has_open(options->arg, pid, inode_nodeid(inode, face->number), access) != 0;
}

void handles_times_set(struct inode *inode)
{
	for (struct handle *handle = inode->open; handle; handle = handle->next)
		handle->writing->times_set = true;
}
