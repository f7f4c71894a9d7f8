/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SECRET_H
#define BACKEND_SECRET_H

/*
 * Where the password of a URL comes from.  Everything that was read is overwritten before it is
 * freed; only url->password has it then.  A file that holds the password and that others may read
 * is refused: -EACCES and a sentence.
 */

#include "backend/url/url.h"

/* url->user, where the URL has none, from ~/.my.cnf; it stays NULL if there is none either. */
int secret_find_user(struct url *url, char **ret_why);
/* url->password; it stays NULL if there is none.  Needs url->user.  0 or -errno. */
int secret_find(struct url *url, char **ret_why);

#endif
