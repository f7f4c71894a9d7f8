/* SPDX-License-Identifier: MIT */
#include "fs/kernel/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/kernel/lock-requests.h"
#include "fs/kernel/locks-others.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"

/* Another mount that has just come may not have stored its rights yet: try again. */
enum { AGAIN_US = 5000 };
static const int64_t PATIENCE_NS = INT64_C(10000000000);

/* Logs it once in a while, since a program may try again and again. */
void maps_warn(struct session *session, uint64_t ino)
{
	char sentence[256];
	bool news;

	snprintf(sentence, sizeof(sentence),
		 "inode %llu is mapped as shared memory on another mount of the store: until that "
		 "ends, this mount refuses to map it (ENODEV) or lock it (ENOLCK)",
		 (unsigned long long)ino);
	pthread_mutex_lock(&session->files_lock);
	news = log_news_is(&session->refused, bytes_str(sentence), tick_now());
	pthread_mutex_unlock(&session->files_lock);
	if (news)
		log_warning("%s", sentence);
}

static bool is_ordinary(const struct inode *inode)
{
	return !inode_is_state(inode) && !inode_is_window(inode);
}

int maps_may_open(struct session *session, const struct inode *inode, int flags)
{
	int r;

	if ((flags & O_ACCMODE) != O_RDWR || !is_ordinary(inode))
		return 0;
	r = others_map(session->tree, inode_number(inode));
	if (r > 0)
		maps_warn(session, inode_number(inode));
	return r > 0 ? -ENODEV : r;
}

void maps_opened(struct session *session, struct open_file *file, int flags)
{
	struct inode *inode = handle_opened(file->handle);

	if (!is_ordinary(inode))
		return;
	file->can_map = (flags & O_ACCMODE) == O_RDWR;
	file->by_name = tree_memory_by_name(session->tree, inode);
	file->lease = file->by_name != TREE_NO_MEMORY ? tree_lease(session->tree) : 0;
}

uint64_t maps_file_left(struct session *session, uint64_t ino)
{
	WITH_MUTEX(&session->files_lock);

	for (const struct open_file *file = session->files; file; file = file->next)
		if (file->can_map && inode_number(handle_inode(file->handle)) == ino)
			return file->id;
	return 0;
}

int maps_may_write(struct session *session, const struct open_file *file, bool pages)
{
	const uint64_t ino = inode_number(handle_inode(file->handle));
	int64_t until;
	int r;

	if (file->lease && file->lease != tree_lease(session->tree)) {
		log_error(
			"a write to inode %llu fails: this mount may no longer share the memory of "
			"its program, because other mounts did not hear from it for too long",
			(unsigned long long)ino);
		return -EIO;
	}
	if (!pages || !file->can_map)
		return 0;
	until = tick_now() + PATIENCE_NS;
	while ((r = lock_request_map(session, file)) == -EAGAIN && tick_now() < until &&
	       others_map(session->tree, ino) == 0)
		usleep(AGAIN_US);
	if (r == 0)
		return 0;
	log_error(
		"what a program wrote to inode %llu through a mapping is lost (%s): another mount "
		"of the store has the file mapped, or may have it",
		(unsigned long long)ino, strerror(-r));
	return -EIO;
}
