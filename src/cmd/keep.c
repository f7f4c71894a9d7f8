/* SPDX-License-Identifier: MIT */
/*
 * keep: the transcripts of clients move into a mounted store, by whose layouts each of them is a
 * session.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/layout.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/cmd/cmd.h"
#include "src/exchange/keep.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/user/settings.h"
#include "src/user/stop.h"

enum { FOLDERS = 2 };

/* Where each has its transcripts, as its documentation says, and in a store as its layout does. */
struct client {
	const char *name;
	const char *variable; /* the folder that it names has them; otherwise */
	const char *home;     /* this one in the home directory */
	const char *below;    /* a folder below either, or NULL */
	const char *folders[FOLDERS];
};

static const struct client clients[] = {
	{ "claude", "CLAUDE_CONFIG_DIR", ".claude", NULL, { "projects" } },
	{ "codex", "CODEX_HOME", ".codex", NULL, { "sessions", "archived_sessions" } },
	{ "gemini", "GEMINI_CLI_HOME", "", ".gemini", { "tmp" } },
	{ "opencode", "XDG_DATA_HOME", ".local/share", "opencode", { "storage" } },
	{ "pi", "PI_CODING_AGENT_DIR", ".pi/agent", NULL, { "sessions" } },
};

struct keep_values {
	struct options options; /* must be first */
	bool undo;
	bool status;
	bool bind;
	uint64_t layout;
	struct mount_entry mount;
};

static const struct cmd_option keep_options[] = {
	CMD_YES(struct keep_values, undo, "undo", 0,
		"replace the links with folders again; the store keeps its copy"),
	CMD_YES(struct keep_values, status, "status", 0,
		"list what has been moved, and change nothing"),
	CMD_YES(struct keep_values, bind, "bind", 0,
		"use bind mounts instead of links, for clients that follow no links (root)"),
};

static const struct client *find_client(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (strcmp(clients[i].name, name) == 0)
			return &clients[i];
	return NULL;
}

static const char *home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *user = home && *home ? NULL : getpwuid(getuid());

	return home && *home ? home : user ? user->pw_dir : "/";
}

/* The absolute path, with links resolved in all but the last component. */
static char *folder_of(const struct client *client, const char *name)
{
	const char *base = getenv(client->variable);
	_cleanup_(freep) char *folder = NULL, *absolute = NULL;

	if (base && *base)
		folder = str_printf("%s%s%s/%s", base, client->below ? "/" : "",
				    client->below ? client->below : "", name);
	else
		folder = str_printf("%s/%s%s%s/%s", home(), client->home,
				    *client->home && client->below ? "/" : "",
				    client->below ? client->below : "", name);
	if (folder && mounts_absolute_unasked(folder, &absolute) == 0)
		return steal_ptr(absolute);
	/* There is nothing yet. */
	return steal_ptr(folder);
}

/* ---- The mount ---- */

static bool shows_store(const void *arg, const struct mount_entry *entry)
{
	return strcmp(entry->type, MOUNTS_TYPE) == 0 && strcmp(entry->root, "/") == 0 &&
	       strcmp(entry->source, arg) == 0;
}

static int find_mount(const char *store, struct mount_entry *ret_entry)
{
	_cleanup_(freep) char *path = NULL, *why = NULL;
	int r = mounts_absolute(store, &path);

	if (r == 0 && mounts_find(path, ret_entry) == 0) {
		if (strcmp(ret_entry->type, MOUNTS_TYPE) == 0 && strcmp(ret_entry->root, "/") == 0)
			return 0;
		mount_entry_done(ret_entry);
	}
	freep(&path);
	path = NULL;
	r = mounts_store(store, &path, &why);
	if (r == 0)
		r = mounts_last(shows_store, path, ret_entry);
	if (r == -ENOENT && !why)
		log_error("%s is not mounted; mount it, now and whenever a client runs: "
			  "sessfs mount %s DIR",
			  store, store);
	else if (r < 0)
		say_why(why, r);
	return r;
}

static int read_layout(struct keep_values *values)
{
	_cleanup_(backend_closep) struct backend *backend = NULL;
	struct settings settings;
	int r;

	if (backend_is_private(values->mount.source)) {
		log_error("a store in memory does not outlive its mount; use a file");
		return -EINVAL;
	}
	r = store_open_backend(values->mount.source, &values->options, &backend);
	if (r == 0)
		r = store_settings(backend, &settings, NULL);
	if (r == 0)
		values->layout = settings.value[SETTING_LAYOUT];
	return r;
}

/* The layout must have all that are named; otherwise their transcripts would not be sessions. */
static int judge_layout(const struct keep_values *values, char **names)
{
	const struct mount_entry *mount = &values->mount;
	uint64_t wanted = values->layout, bit;
	char text[LAYOUTS_TEXT];

	for (; *names; names++)
		if (layouts_parse(*names, &bit) == 0)
			wanted |= bit;
	if (wanted == values->layout)
		return 0;
	log_error("the layout of %s does not include all of these clients; unmount it, change the "
		  "layout, mount it and run this again: sessfs umount %s && sessfs config %s "
		  "layout=%s && "
		  "sessfs mount %s %s",
		  mount->source, mount->point, mount->source, layouts_show(wanted, text),
		  mount->source, mount->point);
	return -EINVAL;
}

/* ---- One folder ---- */

static int show(const struct keep *keep)
{
	int state = keep_look(keep);
	struct stat st;

	if (state == KEEP_KEPT)
		printf("%s is kept in %s\n", keep->folder, keep->target);
	else if (state == KEEP_UNFINISHED)
		printf("%s is kept in %s, but a run was interrupted: run it again\n", keep->folder,
		       keep->target);
	else
		printf("%s is not %s\n", keep->folder,
		       stat(keep->folder, &st) < 0 ? "there" : "kept");
	return MIN(state, 0);
}

static int move(struct keep *keep)
{
	int r = keep_move(keep);

	if (r == 1)
		printf("%s is kept in %s already\n", keep->folder, keep->target);
	else if (r == 0 || keep->conflicts.size)
		printf("%s is kept in %s: %lu file%s; the folder is now %s\n", keep->folder,
		       keep->target, keep->files, keep->files == 1 ? "" : "s",
		       keep->bind ? "below the mount" : keep->old.data);
	if (r == 0 && keep->bind)
		printf("to keep this after a restart, add to /etc/fstab: %s %s none bind 0 0\n",
		       keep->target, keep->folder);
	return r;
}

static int undo(struct keep *keep)
{
	int r = keep_undo(keep);

	if (r == 1)
		printf("%s is not kept in %s\n", keep->folder, keep->target);
	else if (r == 0 || keep->conflicts.size)
		printf("%s is a folder again: %lu file%s; the store still has them in %s\n",
		       keep->folder, keep->files, keep->files == 1 ? "" : "s", keep->target);
	return r;
}

static int do_folder(const struct keep_values *values, const struct client *client,
		     const char *name)
{
	_cleanup_(freep) char *folder = folder_of(client, name);
	_cleanup_(freep) char *target =
		str_printf("%s/%s/%s", values->mount.point, client->name, name);
	_cleanup_(keep_done) struct keep keep = { .folder = folder,
						  .target = target,
						  .bind = values->bind };
	int r;

	if (!folder || !target)
		return say_why(NULL, -ENOMEM);
	r = values->status ? show(&keep) : values->undo ? undo(&keep) : move(&keep);
	if (keep.stale)
		printf("%s: an earlier run had copied what the folder no longer has; removed "
		       "from the store: %lu file%s\n",
		       folder, keep.stale, keep.stale == 1 ? "" : "s");
	if (keep.late)
		printf("%s: also copied what came meanwhile, in %lu file%s\n", folder, keep.late,
		       keep.late == 1 ? "" : "s");
	if (keep.conflicts.size)
		log_error("%s: changed while it was copied; compare the two: %.*s", folder,
			  (int)keep.conflicts.size, keep.conflicts.data);
	return MIN(r, 0);
}

static int do_client(const struct keep_values *values, const struct client *client)
{
	int r = 0;

	for (int i = 0; r == 0 && i < FOLDERS && client->folders[i]; i++)
		r = stop_wanted() ? -EINTR : do_folder(values, client, client->folders[i]);
	return r;
}

static int run_keep(void *given, char **operands)
{
	struct keep_values *values = given;
	_cleanup_(buf_done) struct buf names = { 0 };
	const char *known = cmd_default_store();
	char **last = operands;
	const char *store;
	int r;

	while (*last && (known || last[1]) && find_client(*last))
		last++;
	if (*last && last[1]) {
		for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
			buf_printf(&names, "%s%s", i ? ", " : "", clients[i].name);
		return cmd_misused(&cmd_keep, "there is no client '%s'; there are %s", *last,
				   names.size ? names.data : "others");
	}
	store = *last && !(known && strcmp(*last, "-") == 0) ? *last : known;
	*last = NULL;
	if (!store || (!*operands && !values->status))
		return cmd_misused(&cmd_keep, "takes at least one client, then a store");
	stop_watch();
	r = find_mount(store, &values->mount);
	if (r == 0 && !values->status && !values->undo) {
		r = read_layout(values);
		if (r == 0)
			r = judge_layout(values, operands);
	}
	for (size_t i = 0; r == 0 && !*operands && i < ARRAY_SIZE(clients); i++)
		r = do_client(values, &clients[i]);
	for (; r == 0 && *operands; operands++)
		r = do_client(values, find_client(*operands));
	mount_entry_done(&values->mount);
	return r < 0 ? CMD_FAILED : CMD_DONE;
}

const struct command cmd_keep = {
	.name = "keep",
	.arguments = "[--undo | --status] [--bind] CLIENT... STORE",
	.summary = "move the transcripts of coding agents into a mounted store",
	.help = "Copies the folders that have the transcripts of a client into the store, "
		"compares the copies, and replaces each folder with a link, so that the client "
		"goes on in the store.  CLIENT is claude, codex, gemini, opencode or pi; stop it "
		"first.  You may name STORE by its mount; its layout must include the client.  "
		"Nothing is deleted: the folder stays beside the link, as FOLDER.before.",
	.failed = "something was not moved, or an interrupted run must be run again",
	CMD_OPTIONS(keep_options),
	.least = 0,
	.operands = "takes clients and a store",
	.size = sizeof(struct keep_values),
	.run = run_keep,
};
