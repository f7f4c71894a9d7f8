/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "backend/sqlite/repair/salvage-parts.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"

enum { DEPTH_MOST = 64 };

struct step {
	uint32_t page;
	uint32_t from;
	unsigned depth;
	unsigned cell; /* of the page above */
};

struct steps {
	struct step *step;
	size_t count, room;
};

static int steps_push(struct steps *steps, const struct step *step)
{
	if (ARRAY_ROOM(steps->step, steps->count, steps->room) < 0)
		return -ENOMEM;
	steps->step[steps->count++] = *step;
	return 0;
}

/* What lies between two keys cannot be reached through a page. */
static void tell_lost_child(struct salvage *salvage, enum salvage_table table,
			    const struct step *step)
{
	struct btree_page above;
	char before[512], behind[512];
	uint8_t *bytes;

	bytes = step->from ? malloc(salvage->image.page_size) : NULL;
	if (table != SALVAGE_ROW || !bytes || image_read(&salvage->image, step->from, bytes) < 0 ||
	    !btree_page_read(bytes, salvage->image.usable, step->from == 1, &above) ||
	    above.type != BTREE_INDEX_INTERIOR) {
		salvage_tell(salvage, "page %" PRIu32 ", of %s, cannot be read", step->page,
			     salvage_name_of(salvage, table));
	} else {
		salvage_show_row(salvage, &above, step->from, (int)step->cell - 1, before);
		salvage_show_row(salvage, &above, step->from, (int)step->cell, behind);
		salvage_tell(salvage,
			     "page %" PRIu32 " cannot be read: rows between %s and %s may be lost",
			     step->page, before, behind);
	}
	free(bytes);
}

static int walk_children(const struct btree_page *page, const struct step *step,
			 struct steps *steps)
{
	struct btree_cell cell;
	int r = 0;

	/* The last is pushed first, so that the first is walked first. */
	for (unsigned i = page->cells + 1; r == 0 && i-- > 0;) {
		struct step child = { .from = step->page, .depth = step->depth + 1, .cell = i };

		if (i == page->cells)
			child.page = page->right;
		else if (btree_cell_read(page, i, &cell))
			child.page = cell.child;
		else
			continue; /* told when its records are read */
		r = steps_push(steps, &child);
	}
	return r;
}

static bool can_be_child(struct salvage *salvage, const struct step *step)
{
	const struct image *image = &salvage->image;

	return image_has_page(image, step->page) && !image_is_special(image, step->page) &&
	       step->depth < DEPTH_MOST &&
	       !salvage_is_false(salvage, step->from, step->page, IMAGE_BTREE);
}

int salvage_walk(struct salvage *salvage, enum salvage_table table, uint32_t root)
{
	struct steps steps = { 0 };
	int r = steps_push(&steps, &(struct step){ .page = root });

	while (r == 0 && steps.count) {
		struct step step = steps.step[--steps.count];
		struct btree_page page;

		if (image_has_page(&salvage->image, step.page) &&
		    (salvage->bits[step.page] & BIT_LIVE))
			continue;
		if (!can_be_child(salvage, &step) ||
		    image_read(&salvage->image, step.page, salvage->page) < 0 ||
		    !btree_page_read(salvage->page, salvage->image.usable, step.page == 1, &page) ||
		    !salvage_page_is_of(salvage, table, &page)) {
			tell_lost_child(salvage, table, &step);
			continue;
		}
		salvage->bits[step.page] |= BIT_LIVE;
		salvage->use[step.page] = table;
		if (btree_is_interior(&page))
			r = walk_children(&page, &step, &steps);
	}
	free(steps.step);
	return r;
}

void salvage_walk_freelist(struct salvage *salvage)
{
	struct image *image = &salvage->image;
	uint32_t trunk = image->freelist;

	while (image_has_page(image, trunk) && !(salvage->bits[trunk] & (BIT_FREE | BIT_LIVE)) &&
	       image_read(image, trunk, salvage->page) == 0) {
		uint32_t leaves = MIN(btree_u32(salvage->page + 4), image->usable / 4 - 2);

		salvage->bits[trunk] |= BIT_FREE;
		for (uint32_t i = 0; i < leaves; i++) {
			uint32_t leaf = btree_u32(salvage->page + 8 + (size_t)4 * i);

			if (image_has_page(image, leaf))
				salvage->bits[leaf] |= BIT_FREE;
		}
		trunk = btree_u32(salvage->page);
	}
}
