/* SPDX-License-Identifier: MIT */
#include "fs/cache/state.h"
#include "fs/inode/inodes.h"
#include "backend/base/descriptor.h"
#include "backend/base/tick.h"

#include <stdlib.h>

enum {
	FACE_MAX = 1000, /* of one file; so many versions at once are a mistake of a program */
};

static const int64_t BRIEF_TIME = 1000000000; /* name_shown() */

/* A face waits so long for a thread that is to look the name up again, and for one that has done so
 * until it has opened the face or gone on to other names (again.c). */
static const int64_t LED_TIME = INT64_C(5) * 1000000000;

bool face_is_fresh(const struct face *face)
{
	return !face->answers && !face->lookups;
}

/* The kernel has the right size, or will get it. */
static bool face_is_sized(const struct face *face)
{
	return !face->doubted || face_is_fresh(face);
}

void face_answers(struct face *face)
{
	if (face_is_fresh(face))
		face->doubted = face->changed = face->pinned = false;
	face->answers++;
}

struct face *inode_face(struct inode *inode, unsigned number)
{
	struct face *face = &inode->face;

	while (face && face->number != number)
		face = face->next;
	/* The kernel asks only for faces that it got. */
	return face ? face : &inode->face;
}

static struct face *face_new(struct inode *inode)
{
	struct face *face, *last = &inode->face;

	if (nodeid_ino(inode->ino) != inode->ino || inode->face_count >= FACE_MAX)
		return NULL;
	face = calloc(1, sizeof(*face));
	if (!face)
		return NULL;
	while (last->next)
		last = last->next;
	face->number = inode->face_count++;
	last->next = face;
	return face;
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

static bool face_is_kept(struct tree *tree, struct inode *inode, const struct face *face,
			 enum face_kind kind, pid_t pid)
{
	struct led **link = &inode->led;
	int64_t now = inode->led ? tick_now() : 0;

	while (*link) {
		/* Or else the thread would open the face beside others. */
		if ((*link)->until < now &&
		    !tree_opens_again(tree, (*link)->pid,
				      inode_nodeid(inode, (*link)->face->number))) {
			led_end(link);
			continue;
		}
		if ((*link)->face == face && (*link)->pid != pid &&
		    ((*link)->kind != kind || kind != FACE_READ))
			return true;
		link = &(*link)->next;
	}
	return false;
}

/* Whether a thread that we cannot see was shown the face, and has not opened it. */
static bool face_is_promised(const struct face *face)
{
	return face->promised && !face_is_fresh(face);
}

bool face_is_reserved(struct inode *inode, pid_t pid)
{
	const struct led *led = inode->led ? *led_find(inode, pid) : NULL;

	return led && led->kind != FACE_WRITE;
}

/* Whether a reader is on its way there, or a thread that may be one. */
static bool face_is_awaited(const struct inode *inode, const struct face *face)
{
	if (face_is_promised(face))
		return true;
	for (const struct led *led = inode->led; led; led = led->next)
		if (led->face == face && led->kind != FACE_WRITE)
			return true;
	return false;
}

bool face_is_read(const struct inode *inode, const struct face *face)
{
	return face->open[FACE_READ] || face_is_awaited(inode, face);
}

/* Another mount has removed a name of the file, and the kernel may still remember that the name
 * leads to this face.  Do not lead another name there: for two names of one nodeid the kernel
 * assumes that rename(2) has nothing to do, and succeeds without a request. */
static bool face_was_left(const struct inode *inode, const struct face *face)
{
	return face->number < inode->left_faces;
}

/* FACE_ASKS: free for both. */
static bool face_is_free(struct tree *tree, struct inode *inode, const struct face *face,
			 enum face_kind kind, pid_t pid)
{
	return !face->old && !face_was_left(inode, face) && !face_is_promised(face) &&
	       (kind == FACE_READ || !face->open[FACE_READ]) &&
	       (kind == FACE_WRITE || (!face->stale && face_is_sized(face))) &&
	       !face->open[FACE_WRITE] && !face_is_kept(tree, inode, face, kind, pid);
}

/* Whether it shows the newest content that was published. */
static bool face_is_current(const struct face *face)
{
	return !face->old && !face->own;
}

/* Whether the kernel remembers it, and it is not open. */
static bool face_is_held(const struct face *face)
{
	return face->lookups && !face->open[FACE_READ] && !face->open[FACE_WRITE];
}

/* Whether it may be held without an open file and without a name: by a file watch, a bind mount, a
 * descriptor with O_PATH. */
static bool face_is_pinned(const struct inode *inode, const struct face *face)
{
	return face->number != inode->led_to && face_is_held(face) && face_is_current(face);
}

bool inode_is_pinned(const struct inode *inode)
{
	const struct face *face = &inode->face;

	while (face && !face_is_pinned(inode, face))
		face = face->next;
	return face;
}

/* A free face that is pinned, or was when the name was led there, or by which the kernel knows a
 * name that it must look up again; NULL when there is none. */
static struct face *face_find_pinned(struct tree *tree, struct inode *inode, enum face_kind kind,
				     pid_t pid)
{
	struct face *face = &inode->face;

	while (face && (!face_is_pinned(inode, face) || face->gone ||
			!face_is_free(tree, inode, face, kind, pid)))
		face = face->next;
	if (face) {
		face->pinned = true;
		return face;
	}
	face = inode_face(inode, inode->led_to);
	return (face->pinned || inode->lookup == FACE_NONE) && face_is_held(face) &&
			       face_is_free(tree, inode, face, kind, pid) ?
		       face :
		       NULL;
}

/* A free face: a pinned one, the one that the name leads to, or any, which may be new. */
static struct face *face_find(struct tree *tree, struct inode *inode, enum face_kind kind,
			      pid_t pid)
{
	struct face *face = face_find_pinned(tree, inode, kind, pid);

	if (face)
		return face;
	if (inode->lookup != FACE_NONE) {
		face = inode_face(inode, inode->lookup);
		if (face_is_free(tree, inode, face, kind, pid))
			return face;
	}
	/* A face may have become old for a thread that was led there and opened another one, or
	 * none.  What the kernel has forgotten has no pages of that content either. */
	for (face = &inode->face; face; face = face->next)
		if (face->old && !face->renewing && face_is_fresh(face) &&
		    !face_is_needed(inode, face))
			face_renew(face);
	for (face = &inode->face; face; face = face->next)
		if (face_is_free(tree, inode, face, kind, pid))
			return face;
	return face_new(inode);
}

static bool led_add(struct inode *inode, struct face *face, enum face_kind kind, pid_t pid)
{
	struct led *led = malloc(sizeof(*led));

	if (!led)
		return false;
	*led = (struct led){ inode->led, face, kind, pid, tick_now() + LED_TIME };
	inode->led = led;
	return true;
}

void face_forgotten(struct tree *tree, struct inode *inode, const struct face *face)
{
	WITH_READ_LOCK(tree);
	WITH_INODE_LOCK(inode);

	if (!face_is_fresh(face))
		return;
	for (struct led **link = &inode->led; *link;) {
		if ((*link)->face != face) {
			link = &(*link)->next;
			continue;
		}
		again_lost(tree, (*link)->pid, inode_nodeid(inode, face->number));
		led_end(link);
	}
}

/* Reserve a free face for a thread; NULL when there is none. */
static struct face *face_lead(struct tree *tree, struct inode *inode, enum face_kind kind,
			      pid_t pid)
{
	struct face *face = face_find(tree, inode, kind, pid);

	return face && led_add(inode, face, kind, pid) ? face : NULL;
}

/* The face that is reserved for a thread that opens again.  By now the name may lead to another
 * file than at the ESTALE, or the reserved face may have become old. */
static struct face *face_of_led(struct tree *tree, struct inode *inode, pid_t pid)
{
	struct led *led = *led_find(inode, pid);
	struct retrying again;
	struct face *face, *found;

	if (!led && again_get(tree, pid, &again)) {
		/* A thread that asks for attributes may be about to open the file, and must not get
		 * ESTALE once more; nor if the name leads to another file at the second lookup. */
		return face_lead(tree, inode, again.kind, pid);
	}
	if (!led)
		return NULL;
	face = led->face;
	if (!face->old && !face_was_left(inode, face))
		return face;
	found = face_find(tree, inode, led->kind, pid);
	led = *led_find(inode, pid); /* its time may have run out meanwhile */
	if (found && led)
		led->face = found;
	return found ? found : face;
}

/* Whether a name may lead there before it is known how it will be opened. */
static bool face_is_good(const struct inode *inode, const struct face *face, bool alone)
{
	return face_is_current(face) && !face->stale && face_is_sized(face) &&
	       !face_was_left(inode, face) &&
	       !(alone && (face_is_read(inode, face) || face->open[FACE_WRITE]));
}

/* A pinned face, the one that the name led to, or a current one.  alone: one that is neither open
 * nor about to be. */
static struct face *face_newest(struct tree *tree, struct inode *inode, bool alone)
{
	struct face *face = alone ? NULL : face_find_pinned(tree, inode, FACE_WRITE, NOBODY);

	if (face)
		return face;
	face = inode->lookup == FACE_NONE ? NULL : inode_face(inode, inode->lookup);
	if (face && face_is_good(inode, face, alone))
		return face;
	face = &inode->face;
	while (face && !face_is_good(inode, face, alone))
		face = face->next;
	if (!face)
		face = face_new(inode);
	/* A face with a writer is better than an old one. */
	for (struct face *any = &inode->face; !face && any; any = any->next)
		if (!any->old)
			face = any;
	return face ? face : &inode->face;
}

/* For an ordinary file any face will do, unless it was a state file a moment ago, and readers are
 * in the middle of that. */
static bool face_is_plain(const struct inode *inode, const struct face *face)
{
	return !inode_is_state(inode) && !face->old;
}

/* Whether the kernel may cache the name.  Not where threads cannot be led: there each lookup gets a
 * face of its own (face_newest()), also of an ordinary file, which a rename may make a state
 * file. */
static bool name_may_be_kept(const struct tree *tree, const struct inode *inode)
{
	return !tree->cache->unseen || !S_ISREG(inode->node.mode);
}

struct face *face_for_lookup(struct tree *tree, struct inode *inode, pid_t pid)
{
	struct face *face = &inode->face;
	/* A listing does not ask the kernel what it holds. */
	bool unsure = pid == NOBODY && inode_is_pinned(inode);
	struct retrying again;

	if (!pid)
		tree->cache->unseen = true;
	if (!face_is_plain(inode, face)) {
		face = pid ? face_of_led(tree, inode, pid) : NULL;
		if (!face)
			face = face_newest(tree, inode, !pid);
	} else if (face_was_left(inode, face)) {
		face = face_newest(tree, inode, false);
	}
	/* Before a thread opens an ordinary file at its second try, a rename may make that a state
	 * file, and others may open it. */
	if (face_is_plain(inode, face) && S_ISREG(inode->node.mode) && !*led_find(inode, pid) &&
	    again_get(tree, pid, &again))
		led_add(inode, face, again.kind, pid);
	face->promised = !pid && !face_is_plain(inode, face);
	/* Nothing else is opened: a link may lead on to an open file. */
	if (S_ISREG(inode->node.mode))
		again_led(tree, pid, inode_nodeid(inode, face->number));
	inode->lookup = inode->led_to = face->number;
	/* A file that was saved in place will soon be saved again.  For a while the kernel must not
	 * remember where its name leads, so that it need not be notified. */
	inode->name_kept |= !unsure && name_may_be_kept(tree, inode) &&
			    (!inode->name_forgotten || face_is_plain(inode, face) ||
			     tick_now() > inode->name_forgotten + BRIEF_TIME);
	return face;
}

static bool has_descriptor(const struct tree *tree, uint64_t nodeid, pid_t pid)
{
	const struct tree_options *options = &tree->options;

	return options->has_open &&
	       options->has_open(options->arg, pid, nodeid,
				 DESCRIPTOR_READS | DESCRIPTOR_WRITES | DESCRIPTOR_DOES_BOTH) > 0;
}

/* The kernel forgets names that another mount has removed a little later than this mount. */
bool tree_was_left(struct tree *tree, struct inode *inode, uint64_t nodeid, int flags, pid_t pid)
{
	enum face_kind kind =
		(flags & (O_ACCMODE | O_TRUNC | O_PATH)) == O_RDONLY ? FACE_READ : FACE_WRITE;
	bool left;

	{
		WITH_READ_LOCK(tree);
		WITH_INODE_LOCK(inode);

		left = face_was_left(inode, inode_face(inode, nodeid_face(nodeid)));
	}
	/* We could not recognise the second try of a thread that we cannot see. */
	if (!left || !pid || tree_opens_again(tree, pid, nodeid) ||
	    (flags & O_PATH && has_descriptor(tree, nodeid, pid)))
		return false;
	again_add(tree, pid, kind, nodeid);
	return true;
}

struct face *face_for_open(struct tree *tree, struct inode *inode, unsigned number,
			   enum face_kind kind, pid_t pid)
{
	struct face *face = inode_face(inode, number);
	struct led **led = led_find(inode, pid);

	/* We could not recognise the second try of a thread that we cannot see. */
	if (face_is_plain(inode, face) || !pid || (*led && (*led)->face == face) ||
	    face_is_free(tree, inode, face, kind, pid) ||
	    tree_opens_again(tree, pid, inode_nodeid(inode, number)))
		return face;
	led_end(led);
	return face_lead(tree, inode, kind, pid) ? NULL : face;
}

struct face *face_for_create(struct tree *tree, struct inode *inode, enum face_kind kind)
{
	struct face *face = &inode->face;

	if (!face_is_plain(inode, face))
		face = face_find(tree, inode, kind, NOBODY);
	if (!face)
		face = &inode->face;
	inode->lookup = inode->led_to = face->number;
	/* The name of a state file that is created leads to its writer. */
	inode->name_kept |= face_is_plain(inode, face) && name_may_be_kept(tree, inode);
	return face;
}

struct face *face_for_number(struct inode *inode, unsigned number)
{
	while (number < FACE_MAX && number >= inode->face_count && face_new(inode))
		;
	return inode_face(inode, number);
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
	struct led **led = led_find(handle->inode, pid);
	bool changed;

	/* It was reserved for this thread alone, before it was known to write. */
	if (handle->kind == FACE_WRITE && face->old && !face->open[FACE_READ])
		face_renew(face);
	/* A reader sees one version: the one with the face's size.  So does one that came without a
	 * name (a bind mount), which would otherwise read other bytes. */
	if (face->old &&
	    ((handle->flags & O_ACCMODE) == O_RDONLY || (*led && (*led)->face == face))) {
		version_drop(&handle->old);
		handle->old = face->old;
		face->old->count++;
	}
	led_end(led);
	handle->face = face;
	if (!face->writing && (handle->kind == FACE_WRITE || handle->writing->count > 1)) {
		face->writing = handle->writing;
		handle->writing->face = face;
	}
	/* A reader on a face with writers counts as a writer: other readers go elsewhere. */
	if (handle->kind == FACE_READ && face->open[FACE_WRITE])
		handle->kind = FACE_WRITE;
	changed = handle->kind == FACE_READ && face->changed;
	if (changed)
		face->changed = false;
	if (handle->kind == FACE_WRITE && handle->writing->count == 1) {
		/* After an open that empties the file, the kernel has size 0. */
		const bool empties = handle->flags & O_TRUNC;

		face->traced = !face->open[FACE_WRITE] && !face->open[FACE_READ] &&
			       (empties || !face->doubted);
		if (empties)
			face->doubted = handle->writing->dirty;
	}
	face->open[handle->kind]++;
	face->promised = false;
	return changed;
}

void face_created(const struct handle *handle, uint64_t size)
{
	const struct writing *writing = handle->writing;

	if (writing->mode == HANDLE_SAVE && writing->stage.size != size)
		handle->face->traced = false;
}

void face_published(const struct writing *writing)
{
	if (writing->face && writing->face->writing == writing)
		writing->face->doubted = !writing->face->traced;
}

void face_guessed(struct face *face, uint64_t guess, uint64_t end)
{
	face->doubted |= guess != end;
}

int face_closed(struct handle *handle)
{
	struct face *face = handle->face;

	face->open[handle->kind]--;
	if (face->writing == handle->writing && handle->writing->count == 1) {
		face->writing = NULL;
		face->own = false;
	}
	return face->old && !face_is_needed(handle->inode, face);
}

struct writing *face_writing(struct tree *tree, struct inode *inode, unsigned number, bool adds,
			     pid_t pid)
{
	struct face *face = inode_face(inode, number);
	struct retrying again;

	if (number == FACE_ANY || !face->writing || face_is_plain(inode, face))
		return NULL;
	/* It may come by the name, which led there a moment ago.  What it adds is safe there, but
	 * it must not see what is not published, nor put its save into that of another. */
	if (!pid)
		return face->own && adds ? face->writing : NULL;
	if (!again_is(tree, pid, inode_nodeid(inode, number)) || !again_get(tree, pid, &again) ||
	    again.kind == FACE_ASKS)
		return NULL;
	return face->writing;
}

void name_forget(struct notes *notes, struct tree *tree, struct inode *inode)
{
	if (inode->lookup == FACE_NONE)
		return;
	inode->lookup = FACE_NONE;
	if (!inode->name_kept)
		return;
	inode->name_kept = false;
	inode->name_forgotten = tick_now();
	notes_own_entry(notes, tree, inode);
}

void face_take(struct notes *notes, struct tree *tree, struct writing *writing)
{
	struct inode *inode = writing->inode;
	struct face *face = writing->face;

	if (face)
		face->doubted = true;
	if (!face || face->own || face->writing != writing || face->old ||
	    face_is_read(inode, face) || face_is_plain(inode, face))
		return;
	face->own = true;
	/* The size that the kernel will have by then is not known. */
	face->changed = true;
	if (inode->lookup == face->number)
		name_forget(notes, tree, inode);
}

void face_give_back(struct writing *writing)
{
	if (writing->face && writing->face->writing == writing)
		writing->face->own = false;
}

void face_settle(struct notes *notes, struct tree *tree, struct inode *inode,
		 const struct face *face)
{
	if (!face_is_current(face) || face->open[FACE_READ] || face->open[FACE_WRITE])
		return;
	if (inode->lookup != face->number || inode_is_pinned(inode))
		name_forget(notes, tree, inode);
}

bool face_is_needed(const struct inode *inode, const struct face *face)
{
	if (face_is_awaited(inode, face))
		return true;
	for (const struct handle *handle = inode->open; handle; handle = handle->next)
		if (handle->face == face && handle->kind == FACE_READ &&
		    (!handle->again || handle->fills || !handle->direct))
			return true;
	return false;
}

void face_renew(struct face *face)
{
	version_drop(&face->old);
	face->renewing = false;
	face->changed = face->doubted = true;
	face->filled = face->open[FACE_READ] != 0;
}
