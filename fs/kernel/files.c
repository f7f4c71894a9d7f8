/* SPDX-License-Identifier: MIT */

/* What the kernel has open, by fi->fh. */

#include <stdlib.h>

#include "fs/kernel/streams.h"
#include "backend/base/chain.h"

struct open_file *open_file_new(struct session *session, struct handle *handle)
{
	struct open_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->handle = handle;
	WITH_MUTEX(&session->files_lock);
	file->id = ++session->last_file;
	CHAIN_ENTER(session->files, file, next, link);
	return file;
}

struct handle *open_file_free(struct session *session, struct open_file *file)
{
	struct handle *handle = file->handle;

	stream_closing(session, file);
	pthread_mutex_lock(&session->files_lock);
	CHAIN_LEAVE(file, next, link);
	pthread_mutex_unlock(&session->files_lock);
	free(file);
	return handle;
}
