/* SPDX-License-Identifier: MIT */
#include "fs/model/face.h"

#include <stdlib.h>

enum {
	FACE_SHIFT = 48, /* bits of a nodeid that are the inode's number */
	FACE_MAX = 1000, /* of one file; so many versions at once are somebody's mistake */
};

static const int64_t FACE_IDLE = (int64_t)10 * 1000000000;
static const int64_t LED_TIME = (int64_t)5 * 1000000000;

uint64_t nodeid_ino(uint64_t nodeid)
{
	return nodeid & (((uint64_t)1 << FACE_SHIFT) - 1);
}

unsigned nodeid_face(uint64_t nodeid)
{
	return (unsigned)(nodeid >> FACE_SHIFT);
}

uint64_t inode_nodeid(const struct inode *inode, unsigned face)
{
	return inode->ino | (uint64_t)face << FACE_SHIFT;
}

struct face *inode_face(struct inode *inode, unsigned number)
{
	struct face *face = &inode->face;

	while (face && face->number != number)
		face = face->next;
	/* The kernel asks only for what it was told of. */
	return face ? face : &inode->face;
}

static struct face *face_new(struct inode *inode)
{
	struct face *face, *last = &inode->face;

	if (inode->ino >> FACE_SHIFT || inode->face_count >= FACE_MAX)
		return NULL;
	face = calloc(1, sizeof(*face));
	if (!face)
		return NULL;
	while (last->next)
		last = last->next;
	last->next = face;
	face->number = inode->face_count++;
	face->bound = UINT64_MAX;
	return face;
}

/* Threads that were told ESTALE. */

static struct told_again *again_find(struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(tree->again); i++)
		if (tree->again[i].pid == pid && tree->again[i].until)
			return &tree->again[i];
	return NULL;
}

void again_add(struct tree *tree, pid_t pid, enum face_kind kind)
{
	struct told_again *again, *oldest = tree->again;

	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	for (size_t i = 0; !again && i < ARRAY_SIZE(tree->again); i++)
		if (tree->again[i].until < oldest->until)
			oldest = &tree->again[i];
	if (!again)
		again = oldest;
	if (!again->until)
		tree->again_count++;
	*again = (struct told_again){ .pid = pid, .kind = kind, .until = time_now() + LED_TIME };
	pthread_mutex_unlock(&tree->table_lock);
}

void again_end(struct tree *tree, pid_t pid)
{
	struct told_again *again;

	if (!tree->again_count)
		return;
	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	if (again) {
		again->until = 0;
		tree->again_count--;
	}
	pthread_mutex_unlock(&tree->table_lock);
}

/* Whether a thread was told, and what it wants. */
static bool again_get(struct tree *tree, pid_t pid, enum face_kind *ret_kind)
{
	const struct told_again *again;
	bool found;

	if (!tree->again_count || pid == NOBODY)
		return false;
	pthread_mutex_lock(&tree->table_lock);
	again = again_find(tree, pid);
	found = again && again->until >= time_now();
	if (found)
		*ret_kind = again->kind;
	pthread_mutex_unlock(&tree->table_lock);
	return found;
}

/* Leading. */

static struct led **led_find(struct inode *inode, pid_t pid)
{
	struct led **link = &inode->led;

	while (*link && (*link)->pid != pid)
		link = &(*link)->next;
	return link;
}

static void led_end(struct led **link)
{
	struct led *led = *link;

	if (!led)
		return;
	*link = led->next;
	free(led);
}

static bool face_is_kept(struct inode *inode, const struct face *face, enum face_kind kind,
			 pid_t pid)
{
	struct led **link = &inode->led;
	int64_t now = inode->led ? time_now() : 0;

	while (*link) {
		if ((*link)->until < now) {
			led_end(link);
			continue;
		}
		if ((*link)->face == face && (*link)->kind != kind && (*link)->pid != pid)
			return true;
		link = &(*link)->next;
	}
	return false;
}

bool face_is_read(const struct inode *inode, const struct face *face)
{
	if (face->open[FACE_READ])
		return true;
	for (const struct led *led = inode->led; led; led = led->next)
		if (led->face == face && led->kind == FACE_READ)
			return true;
	return false;
}

static bool face_is_free(struct inode *inode, const struct face *face, enum face_kind kind,
			 pid_t pid)
{
	enum face_kind other = kind == FACE_READ ? FACE_WRITE : FACE_READ;

	return !face->old && (kind == FACE_WRITE || !face->untold) && !face->open[other] &&
	       !face_is_kept(inode, face, kind, pid);
}

static struct face *face_find(struct inode *inode, enum face_kind kind, pid_t pid)
{
	for (struct face *face = &inode->face; face; face = face->next)
		if (face_is_free(inode, face, kind, pid))
			return face;
	return face_new(inode);
}

/* Keep a free face for a thread; NULL when there is none. */
static struct face *face_lead(struct inode *inode, enum face_kind kind, pid_t pid)
{
	struct face *face = face_find(inode, kind, pid);
	struct led *led = face ? malloc(sizeof(*led)) : NULL;

	if (!led)
		return NULL;
	*led = (struct led){
		.next = inode->led,
		.face = face,
		.kind = kind,
		.pid = pid,
		.until = time_now() + LED_TIME,
	};
	inode->led = led;
	return face;
}

/* The face that is kept for a thread which opens again.  By now the name may lead to another file
 * than when it was told so, or the face that was kept may have become old. */
static struct face *face_of_led(struct tree *tree, struct inode *inode, pid_t pid)
{
	struct led *led = *led_find(inode, pid);
	enum face_kind kind;
	struct face *face;

	if (!led)
		return again_get(tree, pid, &kind) ? face_lead(inode, kind, pid) : NULL;
	face = led->face->old ? face_find(inode, led->kind, pid) : NULL;
	if (face)
		led->face = face;
	return led->face;
}

/* Any that shows the newest content: better one that somebody writes to than an old one. */
static struct face *face_newest(struct inode *inode)
{
	struct face *face = inode_face(inode, inode->lookup);

	if (face->old)
		face = face_find(inode, FACE_READ, NOBODY);
	for (struct face *any = &inode->face; !face && any; any = any->next)
		if (!any->old)
			face = any;
	return face ? face : &inode->face;
}

/* Of an ordinary file any face will do, unless it was a state file a moment ago, and somebody is in
 * the middle of what it was then. */
static bool face_is_plain(const struct inode *inode, const struct face *face)
{
	return !inode_is_state(inode) && !face->old;
}

struct face *face_for_lookup(struct tree *tree, struct inode *inode, pid_t pid)
{
	struct face *face;

	if (face_is_plain(inode, &inode->face))
		return &inode->face;
	face = face_of_led(tree, inode, pid);
	if (!face)
		face = face_newest(inode);
	inode->lookup = face->number;
	return face;
}

struct face *face_for_open(struct tree *tree, struct inode *inode, unsigned number,
			   enum face_kind kind, pid_t pid)
{
	struct face *face = inode_face(inode, number);
	enum face_kind told;

	if (face_is_plain(inode, face) || *led_find(inode, pid) ||
	    face_is_free(inode, face, kind, pid) || again_get(tree, pid, &told))
		return face;
	return face_lead(inode, kind, pid) ? NULL : face;
}

struct face *face_for_create(struct inode *inode, enum face_kind kind)
{
	struct face *face = &inode->face;

	if (!face_is_plain(inode, face))
		face = face_find(inode, kind, NOBODY);
	if (!face)
		face = &inode->face;
	inode->lookup = face->number;
	return face;
}

bool face_for_truncate(struct tree *tree, struct inode *inode, unsigned number, pid_t pid)
{
	if (!face_for_open(tree, inode, number, FACE_WRITE, pid))
		return false;
	led_end(led_find(inode, pid));
	return true;
}

/* Open faces. */

bool face_opened(struct face *face, struct handle *handle, pid_t pid)
{
	bool first;

	led_end(led_find(handle->inode, pid));
	handle->face = face;
	/* Who comes where the other sort is counts as a writer: readers go elsewhere. */
	if (handle->kind == FACE_READ && face->open[FACE_WRITE])
		handle->kind = FACE_WRITE;
	first = handle->kind == FACE_READ && !face->open[FACE_READ] && face->changed;
	if (first)
		face->changed = false;
	face->open[handle->kind]++;
	return first;
}

int face_closed(struct handle *handle)
{
	struct face *face = handle->face;

	face->open[handle->kind]--;
	return face->old && !face->open[FACE_READ];
}

void face_renew(struct tree *tree, struct face *face)
{
	tree->old_faces--;
	version_drop(&face->old);
	face->renewing = false;
	face->changed = true;
	face->filled = face->open[FACE_READ] != 0;
}

static void expire_inode(struct tree *tree, struct inode *inode, int64_t now, struct notes *notes)
{
	for (struct face *face = &inode->face; face; face = face->next) {
		if (face->old && now - face->old_used >= FACE_IDLE)
			notes_renew(notes, tree, inode, face);
	}
}

static bool has_old_face(const struct inode *inode)
{
	for (const struct face *face = &inode->face; face; face = face->next)
		if (face->old)
			return true;
	return false;
}

void faces_expire(struct tree *tree, struct notes *notes)
{
	struct inodes old;
	int64_t now = time_now();

	if (!tree->old_faces)
		return;
	WITH_WRITE_LOCK(tree);
	old = inodes_get(tree, has_old_face);
	for (size_t i = 0; i < old.count; i++)
		expire_inode(tree, old.inode[i], now, notes);
	inodes_forget(tree, &old);
}

void faces_done(struct inode *inode)
{
	while (inode->led)
		led_end(&inode->led);
	version_drop(&inode->face.old);
	while (inode->face.next) {
		struct face *face = inode->face.next;

		inode->face.next = face->next;
		version_drop(&face->old);
		free(face);
	}
}
