/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_PACKED_H
#define FS_BASE_PACKED_H

/*
 * Transcripts that a client has compressed (zstd), and that it makes plain again to go on with
 * them.  Such a file has the name of the transcript with PACKED_SUFFIX behind it (layouts.h).  It
 * is an ordinary file, and its bytes stay what the client has written; what it says is read here.
 */

#include "backend/backend.h"

#define PACKED_SUFFIX ".zst"

/* The path of the plain transcript, if a path is that of a packed one by these layouts: 1, with the
 * session and key of that; 0. */
int packed_judge(uint64_t layouts, struct bytes path, struct buf *session, struct buf *key);
/* The path of a packed transcript of a session, appended; -ENOENT: it can have none. */
int packed_path(uint64_t layouts, struct bytes session, struct buf *path);
/* Those of the layouts whose clients compress. */
uint64_t packed_layouts(uint64_t layouts);

/* The lines of a packed transcript, without their newlines, in their order; those that are not JSON
 * are left out, and are not counted.  fn as in backend.h.  -EOPNOTSUPP: this build cannot unpack;
 * -EBADMSG: it is damaged, or needs too much memory; what can be read was. */
bool packed_can_read(void);
typedef int packed_line_fn(void *arg, int64_t index, struct bytes line);
int packed_read(struct backend *backend, struct backend_snapshot *snapshot,
		const struct backend_node *node, packed_line_fn *fn, void *arg);

#endif
