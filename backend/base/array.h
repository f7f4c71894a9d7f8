/* SPDX-License-Identifier: MIT */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <errno.h>
#include <stdlib.h>

/*
 * Arrays that grow.  items is a pointer, count says how many there are, room (size_t) for how many
 * there is memory; all begin as 0, and the items end with free().
 */

/* The items, moved perhaps, with room for one more; NULL: no memory, nothing has changed. */
static inline void *array_grow(void *items, size_t count, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 8;

	if (count < *room)
		return items;
	items = reallocarray(items, more, size);
	if (items)
		*room = more;
	return items;
}

/* Make room for one more: 0 or -ENOMEM. */
#define ARRAY_ROOM(items, count, room)                                                             \
	({                                                                                         \
		void *grown_ = array_grow((items), (count), &(room), sizeof(*(items)));            \
		if (grown_)                                                                        \
			(items) = grown_;                                                          \
		grown_ ? 0 : -ENOMEM;                                                              \
	})

#endif
