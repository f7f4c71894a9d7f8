/* SPDX-License-Identifier: MIT */
#ifndef BASE_CHAIN_H
#define BASE_CHAIN_H

/* Lists that any item can leave.  next and link name members of the items: the item behind it, and
 * the pointer that leads to it. */

/* Becomes the first. */
#define CHAIN_ENTER(first, item, next, link)                                                       \
	do {                                                                                       \
		(item)->next = (first);                                                            \
		(item)->link = &(first);                                                           \
		if ((item)->next)                                                                  \
			(item)->next->link = &(item)->next;                                        \
		(first) = (item);                                                                  \
	} while (0)

#define CHAIN_LEAVE(item, next, link)                                                              \
	do {                                                                                       \
		*(item)->link = (item)->next;                                                      \
		if ((item)->next)                                                                  \
			(item)->next->link = (item)->link;                                         \
	} while (0)

#endif
