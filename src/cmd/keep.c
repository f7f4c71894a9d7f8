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
#include "fs/base/layouts.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "src/cmd/cmd.h"
#include "src/exchange/keep.h"
#include "src/mounts/mounts.h"
#include "src/user/say.h"
#include "src/user/stop.h"

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

/* The next layout whose client has folders of its own, from one on; NULL: there is none. */
static const struct layout *next_client(const struct layout *layout)
{
	while (layout < layouts + LAYOUT_COUNT && !*layout->client.folders)
		layout++;
	return layout < layouts + LAYOUT_COUNT ? layout : NULL;
}

static const struct layout *find_client(const char *name)
{
	const struct layout *layout = next_client(layouts);

	while (layout && strcmp(layout->name, name) != 0)
		layout = next_client(layout + 1);
	return layout;
}

static const char *home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *user = home && *home ? NULL : getpwuid(getuid());

	return home && *home ? home : user ? user->pw_dir : "/";
}

/* The absolute path, with links resolved in all but the last component. */
static char *folder_of(const struct layout *layout, const char *name)
{
	const char *variable = layout->client.variable, *below = layout->client.below;
	const char *base = getenv(variable), *at_home = layout->client.home;
	_cleanup_(freep) char *folder = NULL, *absolute = NULL;

	if (base && *base)
		folder = str_printf("%s%s%s/%s", base, below ? "/" : "", below ? below : "", name);
	else
		folder = str_printf("%s/%s%s%s/%s", home(), at_home, *at_home && below ? "/" : "",
				    below ? below : "", name);
	if (folder && mounts_absolute_unasked(folder, &absolute) == 0)
		return steal_ptr(absolute);
	/* There is nothing yet. */
	return steal_ptr(folder);
}

/* ---- The mount ---- */

static bool shows_store(const void *arg, const struct mount_entry *entry)
{
	return mounts_is_of(arg, entry) && strcmp(entry->root, "/") == 0;
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
	return log_fail(
		-EINVAL,
		"the layout of %s does not include all of these clients; unmount it, change the "
		"layout, mount it and run this again: sessfs umount %s && sessfs config %s "
		"layout=%s && "
		"sessfs mount %s %s",
		mount->source, mount->point, mount->source, layouts_show(wanted, text),
		mount->source, mount->point);
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

static int do_folder(const struct keep_values *values, const struct layout *layout,
		     const char *name)
{
	_cleanup_(freep) char *folder = folder_of(layout, name);
	_cleanup_(freep) char *target =
		str_printf("%s/%s/%s", values->mount.point, layout->name, name);
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

static int do_client(const struct keep_values *values, const struct layout *layout)
{
	const char *const *folders = layout->client.folders;
	int r = 0;

	for (int i = 0; r == 0 && i < LAYOUT_FOLDERS && folders[i]; i++)
		r = stop_wanted() ? -EINTR : do_folder(values, layout, folders[i]);
	return r;
}

static int run_keep(void *given, char **operands)
{
	struct keep_values *values = given;
	_cleanup_(buf_done) struct buf names = { 0 };
	const char *known = cmd_default_store();
	const struct layout *client;
	char **last = operands;
	const char *store;
	int r;

	while (*last && (known || last[1]) && find_client(*last))
		last++;
	if (*last && last[1]) {
		for (client = next_client(layouts); client; client = next_client(client + 1))
			buf_printf(&names, "%s%s", names.size ? ", " : "", client->name);
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
		if (backend_is_private(values->mount.source))
			r = log_fail(-EINVAL,
				     "a store in memory does not outlive its mount; use a file");
		else
			r = cmd_read_layouts(values->mount.source, &values->options,
					     &values->layout);
		if (r == 0)
			r = judge_layout(values, operands);
	}
	for (client = *operands ? NULL : next_client(layouts); r == 0 && client;
	     client = next_client(client + 1))
		r = do_client(values, client);
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
		"goes on in the store.  CLIENT is claude, cline, codex, copilot, gemini, kimi, "
		"opencode, pi or qwen; stop it first.  You may name STORE by its mount; its layout "
		"must include the client.  "
		"Nothing is deleted: the folder stays beside the link, as FOLDER.before.",
	.failed = "something was not moved, or an interrupted run must be run again",
	CMD_OPTIONS(keep_options),
	.least = 0,
	.operands = "takes clients and a store",
	.store = -1,
	.size = sizeof(struct keep_values),
	.run = run_keep,
};
