/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_FUSE_H
#define TESTS_UNIT_FUSE_H

/*
 * In the place of libfuse, for the code that serves the kernel: what libfuse would say of a
 * request, and do with its answer, is said and kept by the case.  An answer for which the case has
 * no function is dropped.
 */

#include "fs/kernel/internal.h"

struct fuse_stand_in {
	struct session *session;
	pid_t pid;   /* of the thread that asks; 0: this process */
	bool unseen; /* it is of another pid namespace */
	void (*error)(fuse_req_t req, int error);
	void (*data)(fuse_req_t req, const char *data, size_t size);
	void (*created)(fuse_req_t req, const struct fuse_entry_param *entry,
			const struct fuse_file_info *fi);
	void (*opened)(fuse_req_t req, const struct fuse_file_info *fi);
	void (*forget)(uint64_t nodeid, off_t offset); /* a notice */
};
extern struct fuse_stand_in fuse_stand_in;

#endif
