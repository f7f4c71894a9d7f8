/* SPDX-License-Identifier: MIT */
#ifndef FS_API_EVENTS_H
#define FS_API_EVENTS_H

/* Following what happens in a tree: files whose names ask for events
 * (fs/views/question/question.h).
 * Such a file is opened and closed as any other; what is read by the handle is here. */

#include "fs/api/tree.h"

bool handle_is_stream(const struct handle *handle);
/* At most size bytes of lines, appended to lines; none when there are none yet.  Nobody else may
 * read by the handle at the same time, nor ask whether some are there. */
int stream_read(struct handle *handle, size_t size, struct buf *lines);
bool stream_waits(struct handle *handle);

/* Whom the tree tells that there may be lines by now, for any of these handles: by whatever thread,
 * without a lock of the tree.  He neither waits nor calls the tree.  NULL: nobody; then it returns
 * when he is told no more. */
typedef void tree_happened_fn(void *arg);
void tree_set_follower(struct tree *tree, tree_happened_fn *happened, void *arg);

#endif
