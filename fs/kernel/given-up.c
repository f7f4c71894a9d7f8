/* SPDX-License-Identifier: MIT */

/*
 * Requests that are given up.
 *
 * The kernel says once that a waiting process has got a signal, and not which.  Many signals do not
 * end a process: those of a timer or a profiler, that of a terminal that stops it.  -EINTR would
 * then be an error that a program never gets from a disk filesystem.  So a request is given up only
 * when a signal is pending that ends the process (proc(5), signal(7)): then each of its threads has
 * a pending SIGKILL, unless the signal leaves a core.
 */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "fs/kernel/ops.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

/* Signals that do not end a process by default. */
static uint64_t harmless(void)
{
	static const int numbers[] = { SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP,
				       SIGTTIN, SIGTTOU, SIGURG,  SIGWINCH };
	uint64_t set = 0;

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		set |= UINT64_C(1) << (numbers[i] - 1);
	return set;
}

/* Whether a process or thread, by its status, is about to end. */
static bool is_ending(FILE *status)
{
	uint64_t waiting = 0, handled = harmless(), set;
	char line[128];

	while (fgets(line, sizeof(line), status)) {
		if (sscanf(line, "SigPnd: %" SCNx64, &set) == 1 ||
		    sscanf(line, "ShdPnd: %" SCNx64, &set) == 1)
			waiting |= set;
		if (sscanf(line, "SigBlk: %" SCNx64, &set) == 1 ||
		    sscanf(line, "SigIgn: %" SCNx64, &set) == 1 ||
		    sscanf(line, "SigCgt: %" SCNx64, &set) == 1)
			handled |= set;
	}
	return waiting & ~handled;
}

bool request_is_given_up(void *arg)
{
	fuse_req_t req = arg;
	char path[32];
	FILE *status;
	bool ends;

	if (!fuse_req_interrupted(req))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)fuse_req_ctx(req)->pid);
	status = descriptor_stream(path);
	/* It has ended, or is in another pid namespace. */
	if (!status)
		return true;
	ends = is_ending(status);
	fclose(status);
	return ends;
}
