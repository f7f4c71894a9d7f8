/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_DATES_H
#define FS_BASE_DATES_H

/*
 * When records that are taken in from elsewhere were made.
 *
 * The store dates rows by its clock.  A program that brings old records (`sessfs import`) sets the
 * attribute DATES_ATTRIBUTE first: its value is a time in nanoseconds since 1970.  Rows then get
 * the time that their record names, and those that name none get that of the attribute.  It counts
 * on
 *	an ordinary file	when that is renamed to the name of a state, which ends it;
 *	a state file		for what is written to it, until it is removed or nobody writes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

#define DATES_ATTRIBUTE "user.sessfs.dates"

/* Zeroed: rows are dated by the store's clock. */
struct dates {
	int64_t other; /* for records that name no time; nanoseconds */
};

/* The attribute's value; -EINVAL. */
int dates_parse(struct bytes value, struct dates *ret_dates);

/* Date a row that is written (BACKEND_ROW_INSERT or _PUT; NULL is fine) to a state of this kind.
 * A time that has not come yet is not believed. */
void dates_apply(const struct dates *dates, uint32_t kind, struct backend_op *op);

/* The times that a record, which is valid JSON, names: when it was made, and last changed.  0: it
 * names none. */
void dates_read(struct bytes record, int64_t *ret_made, int64_t *ret_changed);

#endif
