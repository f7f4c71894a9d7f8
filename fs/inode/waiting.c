/* SPDX-License-Identifier: MIT */
#include "fs/inode/waiting.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/inode/commit.h"
#include "fs/inode/inodes.h"
#include "backend/base/log.h"
#include "backend/base/thread.h"
#include "backend/base/tick.h"

enum {
	/* Times that others were quicker; beside load it may be dozens. */
	CATCH_UP_MAX = 600,
	TURN_AFTER = 4,	  /* of these */
	PATIENCE_MS = 50, /* while the taker gets on */
	LOCKED_MS = 1000, /* while it does not: many a program writes for so long */
	STUCK_MAX = 10,	  /* times that */
	REST_MS = 10000,  /* for one step of the walk over what was there before */
	QUIET_MS = 600000,
	WANTED_MAX = 1024, /* keys of one batch; with more of them it waits for all */
};

/* Wanting. */

static void want(struct tree *tree, struct bytes session, struct bytes key)
{
	struct wanted *wanted = calloc(1, sizeof(*wanted));

	if (!wanted)
		return; /* it comes in its turn */
	wanted->whole = !key.data;
	if (buf_append_bytes(&wanted->session, session) < 0 ||
	    buf_append_bytes(&wanted->key, key) < 0) {
		wanted_free(wanted);
		return;
	}
	WITH_MUTEX(&tree->taker.lock);
	wanted->next = tree->taker.wanted;
	tree->taker.wanted = wanted;
}

struct wanted *wanted_take(struct tree *tree)
{
	WITH_MUTEX(&tree->taker.lock);

	return steal_ptr(tree->taker.wanted);
}

void wanted_free(struct wanted *wanted)
{
	while (wanted) {
		struct wanted *next = wanted->next;

		buf_done(&wanted->session);
		buf_done(&wanted->key);
		free(wanted);
		wanted = next;
	}
}

int key_heed(struct tree *tree, const struct view *view, struct bytes session, struct bytes key)
{
	struct backend_change change;
	int r;

	if (!view->past || !session.data)
		return 0;
	r = backend_change_find(view->backend, view->snapshot, session, key, &change);
	if (r == -ENOENT || (r == 0 && change.seen))
		return 0;
	if (r < 0)
		return r;
	want(tree, session, key);
	return -ESTALE;
}

int rest_want(struct tree *tree, struct bytes session, struct bytes key)
{
	want(tree, session, key);
	return -ESTALE;
}

int inode_heed(struct tree *tree, const struct view *view, const struct inode *inode)
{
	if (!kind_is_state(inode->node.kind) || !inode->node.key.data || inode->orphaned)
		return 0;
	return key_heed(tree, view, inode->node.session, inode->node.key);
}

int inode_view_begin(struct tree *tree, const struct inode *inode, struct view *view)
{
	int r;

	view->inode = inode;
	r = view_begin(tree, 0, view);
	if (r == 0)
		r = inode_heed(tree, view, inode);
	if (r < 0)
		view_end(view);
	return r;
}

bool tree_is_quiet(const struct tree *tree)
{
	/* The clock begins with the machine. */
	return !tree->unsettled.at || tick_now() - tree->unsettled.at > QUIET_MS * INT64_C(1000000);
}

void tree_want_batch(struct tree *tree, const struct backend_op *ops, size_t count)
{
	if (count > WANTED_MAX)
		tree->unsettled.all = true;
	if ((!tree->taker.late && !tree->unsettled.count) || count > WANTED_MAX)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct backend_op *op = &ops[i];

		if (op->session.data && op->key.data)
			want(tree, op->session, op->key);
		if (op->session_to.data && op->key_to.data)
			want(tree, op->session_to, op->key_to);
		if (op->node && op->node->session.data && op->node->key.data)
			want(tree, op->node->session, op->node->key);
	}
}

/* Waiting. */

void tree_doze(struct tree *tree, int milliseconds)
{
	int64_t until = tick_now() + (int64_t)milliseconds * 1000000;
	uint64_t taken;

	WITH_MUTEX(&tree->taker.lock);
	taken = tree->taker.taken;
	while (!tree->stopping && !tree->taker.roused && tree->taker.taken == taken &&
	       tick_cond_wait(&tree->taker.changed, &tree->taker.lock, until) == 0)
		;
	tree->taker.roused = false;
}

void tree_rouse(struct tree *tree)
{
	WITH_MUTEX(&tree->taker.lock);

	tree->taker.roused = true;
	pthread_cond_broadcast(&tree->taker.changed);
}

static int give_up(const char *why)
{
	log_error("%s; giving up one request", why);
	return -EBUSY;
}

/* Wait so long for an answer of the taker, or as long as it comes no further than steps.  Whether
 * it is there. */
static bool answered(struct tree *tree, uint64_t asked, int milliseconds, uint64_t steps)
{
	int64_t until = tick_now() + (int64_t)milliseconds * 1000000;

	while (tree->taker.taken < asked && tree->taker.steps <= steps && tree->taker.runs &&
	       tick_cond_wait(&tree->taker.changed, &tree->taker.lock, until) == 0)
		;
	return tree->taker.taken >= asked;
}

/* Ask the taker, and wait until it has done all that waited when it was asked, or is late.  Who
 * asks in vain keeps its place: to ask anew is to wait for one round more each time. */
static int wait_for_taker(struct tree *tree, struct catching_up *up)
{
	uint64_t steps;
	int r = 0;

	pthread_mutex_lock(&tree->taker.lock);
	if (!up->asked)
		up->asked = ++tree->taker.asked;
	steps = tree->taker.steps;
	pthread_mutex_unlock(&tree->taker.lock);
	backend_wake(tree->backend);
	pthread_mutex_lock(&tree->taker.lock);
	if (answered(tree, up->asked, PATIENCE_MS, UINT64_MAX) ||
	    answered(tree, up->asked, LOCKED_MS - PATIENCE_MS, steps)) {
		up->asked = 0;
		up->stuck = 0;
		up->tries++;
		r = tree->taker.result == -ESTALE ? 0 : tree->taker.result;
	} else if (tree->taker.runs) {
		tree->taker.stuck = tree->taker.steps == steps;
		up->stuck = tree->taker.stuck ? up->stuck + 1 : 0;
		tree->taker.late = true;
	}
	pthread_mutex_unlock(&tree->taker.lock);
	return r;
}

static void give_turn(struct tree *tree, struct catching_up *up)
{
	if (up->turn)
		backend_turn(tree->backend, false);
	up->turn = false;
}

/* Nothing of other mounts comes in between until the operation has run once more.  If the taker is
 * at work, what they have done until now is digested behind its step. */
static int take_turn(struct tree *tree, struct catching_up *up)
{
	int r;

	up->turn = true;
	backend_turn(tree->backend, true);
	r = tree->digest_now(tree, true);
	return r == -ESTALE ? 0 : MIN(r, 0);
}

static int catch_up(struct tree *tree, struct catching_up *up)
{
	int r = tree->digest_now(tree, false);

	if (r == 0 && tree->taker.runs)
		return wait_for_taker(tree, up);
	up->tries++;
	if (r == 0)
		r = tree->take_in(tree);
	/* Others have changed something again: that is one more try, and nobody's error. */
	return r == -ESTALE ? 0 : MIN(r, 0);
}

int tree_catch_up(struct tree *tree, struct catching_up *up)
{
	uint64_t applied;
	bool was_late;
	int r;

	/* No other mount waits for what this one waits for. */
	give_turn(tree, up);
	tree_wait_applied(tree, up->applied);
	applied = tree->applying.done;
	/* That may have been all that was in the way. */
	up->passed = !up->passed && applied != up->applied;
	up->applied = applied;
	if (up->passed)
		return 0;
	if (up->tries >= CATCH_UP_MAX)
		return give_up("other programs change the store without a pause");
	if (up->stuck >= STUCK_MAX)
		return give_up("the store is locked, and changes of another program have waited "
			       "for ten seconds");
	was_late = up->late;
	r = catch_up(tree, up);
	up->late = tree->taker.late;
	/* It went past what the taker has to do, and yet something was in the way: what other
	 * mounts commit, which may not end as long as the taker is busy. */
	return r == 0 && (up->tries >= TURN_AFTER || was_late) ? take_turn(tree, up) : r;
}

void tree_caught_up(struct tree *tree, struct catching_up *up)
{
	give_turn(tree, up);
}

int rest_wait(struct tree *tree)
{
	int64_t until = tick_now() + REST_MS * INT64_C(1000000);
	uint64_t steps;
	bool ended;

	backend_wake(tree->backend);
	pthread_mutex_lock(&tree->taker.lock);
	steps = tree->taker.steps;
	while (tree->rest.any && tree->taker.runs && !tree->stopping &&
	       tree->taker.steps == steps &&
	       tick_cond_wait(&tree->taker.changed, &tree->taker.lock, until) == 0)
		;
	ended = !tree->rest.any || !tree->taker.runs || tree->stopping;
	pthread_mutex_unlock(&tree->taker.lock);
	if (!ended && tree->taker.steps == steps)
		return give_up("cannot make files for the existing rows");
	return !ended;
}

/* The taker. */

void taker_stepped(struct tree *tree)
{
	WITH_MUTEX(&tree->taker.lock);

	tree->taker.steps++;
	tree->taker.stuck = false;
	pthread_cond_broadcast(&tree->taker.changed);
}

bool taker_asked(struct tree *tree, uint64_t *ret_asked)
{
	WITH_MUTEX(&tree->taker.lock);

	*ret_asked = tree->taker.asked;
	return tree->taker.asked > tree->taker.taken;
}

void taker_has(struct tree *tree, uint64_t asked, int result)
{
	WITH_MUTEX(&tree->taker.lock);

	tree->taker.taken = asked;
	tree->taker.result = MIN(result, 0);
	if (result >= 0)
		tree->taker.late = tree->taker.stuck = false;
	pthread_cond_broadcast(&tree->taker.changed);
}

int taker_start(struct tree *tree, void *run(void *arg))
{
	int r = thread_start(&tree->taker.thread, run, tree);

	tree->taker.runs = r == 0;
	return r;
}

void taker_stop(struct tree *tree)
{
	if (!tree->taker.runs)
		return;
	backend_wake(tree->backend);
	pthread_join(tree->taker.thread, NULL);
	WITH_MUTEX(&tree->taker.lock);
	tree->taker.runs = tree->taker.late = tree->taker.stuck = false;
	pthread_cond_broadcast(&tree->taker.changed);
}

void waiting_init(struct tree *tree)
{
	pthread_mutex_init(&tree->applying.lock, NULL);
	pthread_cond_init(&tree->applying.changed, NULL);
	pthread_mutex_init(&tree->taker.lock, NULL);
	tick_cond_init(&tree->taker.changed);
}

void waiting_done(struct tree *tree)
{
	wanted_free(wanted_take(tree));
	pthread_mutex_destroy(&tree->taker.lock);
	pthread_cond_destroy(&tree->taker.changed);
	pthread_mutex_destroy(&tree->applying.lock);
	pthread_cond_destroy(&tree->applying.changed);
}
