/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_PLUGINS_H
#define BACKEND_PLUGINS_H

#include "backend/plugin.h"

/*
 * The plugin of a scheme ("mysql"), loaded if it is not yet; it stays loaded.  Thread-safe.
 *
 * It lies in $(pkglibdir), or in the folder that SESSFS_PLUGINS names, for tests of a build that
 * is not installed.  A process with more rights than the user that started it ignores
 * SESSFS_PLUGINS.
 *
 * 0; or -ELIBACC, and a sentence that says what to install.
 */
int plugins_find(const char *scheme, const struct plugin **ret_plugin, char **ret_why);

#endif
