/* SPDX-License-Identifier: MIT */
#ifndef FS_API_EVENTS_H
#define FS_API_EVENTS_H

/* Following what happens in a tree: files whose names ask for events
 * (fs/views/question/question.h).  Such a file is opened and closed as any other; reading by its
 * handle is here. */

#include "fs/api/tree.h"

bool handle_is_stream(const struct handle *handle);
/* At most size bytes of lines, appended to lines; none when there are none yet.  One thread at a
 * time may call this or stream_waits() for a handle. */
int stream_read(struct handle *handle, size_t size, struct buf *lines);
bool stream_waits(struct handle *handle);

/* Sets the function that the tree calls when any of these handles may have lines: in any thread,
 * without a lock of the tree.  It must neither wait nor call the tree.  With NULL this returns when
 * no thread is in the function any more. */
typedef void tree_happened_fn(void *arg);
void tree_set_follower(struct tree *tree, tree_happened_fn *happened, void *arg);

#endif
