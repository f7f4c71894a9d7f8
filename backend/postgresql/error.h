/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_POSTGRESQL_ERROR_H
#define BACKEND_POSTGRESQL_ERROR_H

/* -errno of driver.h for an SQLSTATE; NULL: there is none, since the connection is lost. */
int pg_error(const char *state);

#endif
