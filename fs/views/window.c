/* SPDX-License-Identifier: MIT */

/* Windows: making, finding and ending them.  window.h says what they are. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/inode/inodes.h"
#include "fs/views/past.h"
#include "backend/base/chain.h"

bool inode_is_window(const struct inode *inode)
{
	return inode->window;
}

static uint64_t mixed(uint64_t hash, uint64_t more)
{
	return (hash ^ more) * 0xD6E8FEB86659FD93;
}

int asked_new(struct bytes text, struct question *question, struct asked **ret_asked)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	if (asked)
		asked->text = bytes_dup(text);
	if (!asked || !asked->text) {
		free(asked);
		question_free(question);
		return -ENOMEM;
	}
	asked->count = 1;
	for (size_t i = 0; i < text.size; i++)
		asked->hash = mixed(asked->hash, (unsigned char)text.data[i] + 1);
	asked->question = question;
	*ret_asked = asked;
	return 0;
}

void asked_drop(struct asked *asked)
{
	if (!asked || atomic_fetch_sub(&asked->count, 1) != 1)
		return;
	question_free(asked->question);
	free(asked->text);
	free(asked);
}

/* The slot of the windows that show rows of a file up to this end by this question. */
static struct inode **slot_of(struct tree *tree, const struct inode *of, const struct asked *asked,
			      int64_t end)
{
	uint64_t hash = mixed(mixed(asked->hash, of->ino), (uint64_t)end);

	return &tree->windows.slots[(hash >> 32) % ARRAY_SIZE(tree->windows.slots)];
}

static bool shows_the_same(const struct window *window, const struct window_wanted *wanted)
{
	const struct window_rows *rows = &window->rows;

	if (window->of != wanted->of || window->asked->hash != wanted->asked->hash ||
	    rows->list != wanted->rows.list ||
	    strcmp(window->asked->text, wanted->asked->text) != 0)
		return false;
	if (strcmp(window->list ? window->list : "", wanted->list) != 0)
		return false;
	if (rows->list && (rows->version != wanted->rows.version || rows->end != wanted->rows.end))
		return false;
	return !question_has_ages(wanted->asked->question) || rows->sum == wanted->rows.sum;
}

/* Under tree.table_lock, as queue_leave(). */
static void queue_enter(struct tree *tree, struct inode *inode)
{
	struct window *window = inode->window;

	window->newer = NULL;
	window->newer_link = tree->windows.end;
	*tree->windows.end = inode;
	tree->windows.end = &window->newer;
	tree->windows.count++;
}

static void queue_leave(struct tree *tree, struct inode *inode)
{
	if (!inode->window->newer)
		tree->windows.end = inode->window->newer_link;
	CHAIN_LEAVE(inode, window->newer, window->newer_link);
	inode->window->newer_link = NULL;
	tree->windows.count--;
}

/* Under tree.table_lock. */
static void used(struct tree *tree, struct inode *inode)
{
	if (!inode->window->newer_link)
		return;
	queue_leave(tree, inode);
	queue_enter(tree, inode);
}

void window_used(struct tree *tree, struct inode *inode)
{
	WITH_MUTEX(&tree->table_lock);

	used(tree, inode);
}

static bool is_alone(const struct window_wanted *wanted)
{
	return wanted->alone && wanted->rows.list;
}

struct inode *window_find(struct tree *tree, const struct window_wanted *wanted)
{
	struct inode *inode;

	if (is_alone(wanted))
		return NULL;
	WITH_MUTEX(&tree->table_lock);
	inode = *slot_of(tree, wanted->of, wanted->asked, wanted->rows.end);
	while (inode && !shows_the_same(inode->window, wanted))
		inode = inode->window->next;
	if (inode) {
		inode->count++;
		used(tree, inode);
	}
	return inode;
}

/* Under tree.table_lock. */
static void window_leave(struct inode *inode)
{
	if (inode->window->link)
		CHAIN_LEAVE(inode, window->next, window->link);
	inode->window->link = NULL;
}

void window_hide(struct tree *tree, struct inode *inode)
{
	WITH_MUTEX(&tree->table_lock);

	window_leave(inode);
}

void window_unlink(struct tree *tree, struct inode *inode)
{
	window_leave(inode);
	if (inode->window->newer_link)
		queue_leave(tree, inode);
}

bool window_outlived(struct tree *tree, uint64_t *ret_parent, char **ret_name)
{
	struct window *window = NULL;

	WITH_MUTEX(&tree->table_lock);
	if (tree->windows.count > WINDOWS_MOST) {
		window = tree->windows.first->window;
		queue_leave(tree, tree->windows.first);
		*ret_parent = window->parent;
		*ret_name = window->name;
		window->name = NULL;
	}
	return window;
}

int window_read(struct window *window, uint64_t offset, size_t size, struct buf *out)
{
	WITH_MUTEX(&window->lock);

	return stage_read(window->saving.stages ? &window->saving.stage : &window->content->stage,
			  offset, size, out);
}

void window_unstage(struct window *window)
{
	if (window->open || window->saving.writers)
		return;
	stage_done(&window->saving.stage);
	window->saving.stages = false;
}

struct inode *window_free(struct window *window)
{
	struct inode *of = window->of;

	pthread_mutex_destroy(&window->lock);
	asked_drop(window->asked);
	version_drop(&window->content);
	stage_done(&window->saving.stage);
	free(window->name);
	free(window->list);
	free(window);
	return of;
}

/* As the file's, but for what makes a file of the store. */
static int window_node(const struct window_wanted *wanted, uint64_t ino,
		       struct backend_node *ret_node)
{
	struct backend_node node = wanted->of->node;
	static const struct bytes none = { 0 };

	node.ino = ino;
	node.kind = BACKEND_ORDINARY;
	node.flags = 0;
	node.parent = node.entry = 0;
	if (asked_is_stream(wanted->asked))
		node.mode = STREAM_MODE;
	else if (wanted->rows.list)
		node.mode = window_mode(&wanted->rows, node.mode);
	node.mode &= ~removed_hides(&wanted->rows);
	node.nlink = S_ISDIR(node.mode) ? 2 : 1;
	node.session = node.key = none;
	node.owned = NULL;
	return backend_node_copy(&node, ret_node);
}

static int window_create(struct tree *tree, const struct window_wanted *wanted, uint64_t ino,
			 struct inode **ret_inode)
{
	struct window *window = calloc(1, sizeof(*window));
	struct backend_node node;
	struct inode *inode = NULL;
	char *list = *wanted->list ? strdup(wanted->list) : NULL;

	if (window && (list || !*wanted->list) && window_node(wanted, ino, &node) == 0)
		inode = inode_from(&node);
	if (!inode) {
		free(list);
		free(window);
		return -ENOMEM;
	}
	*window = (struct window){
		.of = inode_ref(tree, wanted->of),
		.asked = wanted->asked,
		.parent = wanted->parent,
		.name = bytes_dup(wanted->name),
		.list = list,
		.rows = wanted->rows,
		.size = wanted->rows.size,
		.generation = wanted->rows.generation,
	};
	window->asked->count++;
	pthread_mutex_init(&window->lock, NULL);
	inode->window = window;
	*ret_inode = inode;
	return 0;
}

int window_new(struct tree *tree, const struct window_wanted *wanted, struct inode **ret_inode)
{
	const uint64_t ino = ((uint64_t)1 << WINDOW_BIT) + ++tree->windows.last;
	int r = window_create(tree, wanted, ino, ret_inode);

	if (r < 0)
		return r;
	inode_enter(tree, *ret_inode);
	WITH_MUTEX(&tree->table_lock);
	if (!is_alone(wanted)) {
		struct inode **slot = slot_of(tree, wanted->of, wanted->asked, wanted->rows.end);

		CHAIN_ENTER(*slot, *ret_inode, window->next, window->link);
	}
	queue_enter(tree, *ret_inode);
	return 0;
}

int window_of_root(struct tree *tree, struct asked *asked)
{
	const struct window_wanted wanted = { .of = tree->root, .asked = asked };
	int r = window_create(tree, &wanted, BACKEND_ROOT, &tree->shown);

	if (r == 0)
		tree->shown->count = 1;
	return r;
}
