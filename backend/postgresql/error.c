/* SPDX-License-Identifier: MIT */
#include "backend/postgresql/error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "backend/base/cleanup.h"

/* The first that the SQLSTATE begins with is meant; appendix A of PostgreSQL's manual has them. */
static const struct {
	const char *state;
	int error;
} errors[] = {
	{ "08", -ENOTCONN },  /* connection exceptions */
	{ "21000", -ESTALE }, /* a subquery has more than one row, */
	{ "23502", -ESTALE }, /* a column cannot be NULL: both are guards of ours */
	{ "23505", -EEXIST }, /* unique violation */
	{ "42702", -ENOMSG }, /* a column is that of two tables, */
	{ "42703", -ENOMSG }, /* or of none */
	{ "22001", -ENAMETOOLONG },
	{ "22003", -EFBIG },	/* out of range */
	{ "22021", -EILSEQ },	/* not in the encoding of the database, */
	{ "22P05", -EILSEQ },	/* or it has no such character */
	{ "25006", -EROFS },	/* read-only transaction */
	{ "28", -EACCES },	/* wrong user or password */
	{ "3D000", -ENOENT },	/* no such database, */
	{ "3F000", -ENOENT },	/* schema, */
	{ "42P01", -ENOENT },	/* table */
	{ "42501", -EACCES },	/* no right to do so */
	{ "40", -EDEADLK },	/* transaction rolled back: serialization, deadlock */
	{ "57014", -EDEADLK },	/* the statement was cancelled */
	{ "57", -ENOTCONN },	/* the server goes down, or comes up, or has ended the connection */
	{ "25P03", -ENOTCONN }, /* as it was idle in a transaction */
	{ "53300", -EUSERS },	/* too many connections */
	{ "53", -ENOSPC },	/* disk full, out of memory */
	{ "54000", -ENAMETOOLONG }, /* too long for an index */
	{ "54", -EFBIG },
	{ "55P03", -EBUSY }, /* a lock is not available */
	{ "58", -EIO },
};

int pg_error(const char *state)
{
	if (!state || !*state)
		return -ENOTCONN;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (strncmp(state, errors[i].state, strlen(errors[i].state)) == 0)
			return errors[i].error;
	return -EIO;
}
