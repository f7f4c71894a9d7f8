/* SPDX-License-Identifier: MIT */
#include "backend/schemes/plugins.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/base/array.h"
#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/thread.h"

static struct {
	pthread_mutex_t lock;
	struct loaded {
		char *scheme;
		const struct plugin *plugin;
	} * items;
	size_t count, room;
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* What a plugin logs goes where everything goes. */
static void forward(int level, const char *sentence)
{
	log_write(level, "%s", sentence);
}

static int load(const char *scheme, const char *path, const struct plugin **ret_plugin,
		char **ret_why)
{
	const struct plugin *plugin;
	void *object;

	if (access(path, F_OK) < 0)
		return str_explain(ret_why, -ELIBACC,
				   "%s:// needs the package sessfs-%s: install it (%s is not "
				   "there)",
				   scheme, scheme, path);
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	plugin = object ? dlsym(object, "sessfs_plugin") : NULL;
	if (!plugin)
		return str_explain(ret_why, -ELIBACC,
				   "%s:// is not available: cannot load %s: %s; install the "
				   "package sessfs-%s again",
				   scheme, path, dlerror(), scheme);
	if (strcmp(plugin->abi, plugin_abi) != 0)
		return str_explain(ret_why, -ELIBACC,
				   "%s belongs to %s, but this is %s: install the same version of "
				   "sessfs and sessfs-%s",
				   path, plugin->abi, plugin_abi, scheme);
	if (strcmp(plugin->seam, plugin_seam) != 0)
		return str_explain(ret_why, -ELIBACC,
				   "%s belongs to another build of %s: install sessfs and "
				   "sessfs-%s from the same place",
				   path, plugin_abi, scheme);
	plugin->set_log_sink(forward);
	plugin->set_log_level(LOG_DEBUG);
	*ret_plugin = plugin;
	return 0;
}

static int load_new(const char *scheme, const struct plugin **ret_plugin, char **ret_why)
{
	const char *folder = secure_getenv("SESSFS_PLUGINS");
	_cleanup_(freep) char *name = bytes_dup(bytes_str(scheme));
	_cleanup_(freep) char *path =
		str_printf("%s/sessfs-%s.so", folder && *folder ? folder : PLUGINS, scheme);
	int r;

	if (!name || !path || ARRAY_ROOM(loaded.items, loaded.count, loaded.room) < 0)
		return -ENOMEM;
	r = load(scheme, path, ret_plugin, ret_why);
	if (r == 0)
		loaded.items[loaded.count++] = (struct loaded){ steal_ptr(name), *ret_plugin };
	return r;
}

int plugins_find(const char *scheme, const struct plugin **ret_plugin, char **ret_why)
{
	size_t i = 0;
	int r = 0;
	WITH_MUTEX(&loaded.lock);

	while (i < loaded.count && strcmp(loaded.items[i].scheme, scheme) != 0)
		i++;
	if (i < loaded.count)
		*ret_plugin = loaded.items[i].plugin;
	else
		r = load_new(scheme, ret_plugin, ret_why);
	return r;
}
