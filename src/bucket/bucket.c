/* SPDX-License-Identifier: MIT */
#include "src/bucket/bucket.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/resource.h>

#include "backend/base/log.h"
#include "backend/plugin.h"
#include "backend/schemes/plugins.h"
#include "fs/base/template.h"
#include "src/user/stop.h"

enum { GUESSES = 1000 }; /* objects that tell the layout */

const char bucket_scheme[] = "s3://";

int bucket_open(const char *url, const struct s3_options *where, struct bucket *bucket)
{
	/* A dump of this process would hold the credentials; only 1 suppresses all dumps. */
	const struct rlimit none = { 1, 1 };
	const char *name = url + strlen(bucket_scheme);
	struct s3_options options = *where;
	_cleanup_(freep) char *why = NULL;
	const struct plugin *plugin;
	int r, size = 0;

	sscanf(name, "%*[a-zA-Z0-9._-]%n", &size);
	if (!size || (name[size] && name[size] != '/') || strncmp(name, "..", 2) == 0)
		return log_fail(-EINVAL,
				"'%s' names no bucket: it is s3://BUCKET or s3://BUCKET/PREFIX",
				url);
	setrlimit(RLIMIT_CORE, &none);
	bucket->url = url;
	bucket->prefix = name + size + (name[size] == '/');
	options.bucket = bucket->name = bytes_dup(bytes_make(name, (size_t)size));
	options.stopped = stop_wanted;
	r = bucket->name ? plugins_find("s3", &plugin, &why) : -ENOMEM;
	if (r == 0) {
		bucket->ops = plugin->s3;
		r = bucket->ops->open(&options, &bucket->s3, &bucket->place, &why);
	}
	return r < 0 ? say_why(why, r) : 0;
}

void bucket_done(struct bucket *bucket)
{
	if (bucket->s3)
		bucket->ops->close(&bucket->s3);
	free(bucket->name);
}

int bucket_perform(const struct bucket *bucket, struct s3_request *request)
{
	int r = bucket->ops->perform(bucket->s3, request);

	return r < 0 ? say_why(request->why, r) : 0;
}

/* ---- Layouts ---- */

#define SAME(template) template, template, FORM_DOCUMENT

/* Of kinds that fit a key, the first counts. */
const struct bucket_layout bucket_layouts[BUCKET_LAYOUTS + 1] = {
	{ .name = "strands",
	  .help = "objects of Strands' S3SessionManager, one a message",
	  .joined = true,
	  .kinds = { { SAME("session_{s}/session.json") },
		     { SAME("session_{s}/agents/agent_{a}/agent.json") },
		     { SAME("session_{s}/agents/agent_{a}/messages/message_{n}.json") },
		     { SAME("session_{s}/multi_agents/multi_agent_{a}/multi_agent.json") } } },
	{ .name = "strands-snapshots",
	  .help = "snapshots of Strands' S3Storage",
	  .without = { "", "session/" },
	  .behind = "session/",
	  .kinds = { { SAME("{s}/scopes/{k}/{a}/snapshots/snapshot_latest.json") },
		     { SAME("{s}/scopes/{k}/{a}/snapshots/manifest.json") },
		     { SAME("{s}/scopes/{k}/{a}/snapshots/immutable_history/"
			    "snapshot_{i}.json") } } },
	[BUCKET_CLAUDE] = { .name = "claude-parts",
			    .help = "transcripts of the Claude Agent SDK's example, in parts",
			    .without = { "" },
			    .kinds = { { "{project}/{S}/part-{part}.jsonl", "{project}/{S}.jsonl",
					 FORM_PARTS } } },
	{ .name = "agentscope",
	  .help = "states of AgentScope's OssAgentStateStore",
	  .without = { "agentscope/state/" },
	  .kinds = { { "{u}/{s}/{K}.list.json", "{u|safe}/{s|safe}/{K}.jsonl", FORM_LIST },
		     { "{u}/{s}/{K}.list.hash", "{u|safe}/{s|safe}/{K}.hash", FORM_TEXT },
		     { "{u}/{s}/{K}.json", "{u|safe}/{s|safe}/{K}.json", FORM_DOCUMENT } } },
	[BUCKET_LAYOUTS] = { .name = "claude-parts",
			     .kinds = { { "{project}/{S}/part-{part}.jsonl",
					  "claude/projects/{project}/{S}.jsonl", FORM_PARTS } } },
};

const struct bucket_layout *layout_named(const char *name)
{
	for (size_t i = 0; i < BUCKET_LAYOUTS; i++)
		if (strcmp(bucket_layouts[i].name, name) == 0)
			return &bucket_layouts[i];
	return NULL;
}

/* Whether a variable can have this value. */
static bool value_fits(struct bytes name, const char *value, const char *glob)
{
	const bool deep = !islower((unsigned char)*name.data);
	int size = 0;

	if (!*value || (!deep && strchr(value, '/')))
		return false;
	if (glob && (bytes_equal(name, BYTES("s")) || bytes_equal(name, BYTES("S"))))
		return fnmatch(glob, value, FNM_PATHNAME | FNM_LEADING_DIR) == 0;
	if (bytes_equal(name, BYTES("n")))
		return strspn(value, "0123456789") == strlen(value);
	/* Milliseconds and a random number. */
	return !bytes_equal(name, BYTES("part")) ||
	       (sscanf(value, "%*13[0-9]-%*6[0-9a-f]%n", &size) == 0 && size == 20 && !value[20]);
}

/* What a text is on the other side, by the first kind that fits. */
static int turn(const struct bucket_layout *layout, const char *from, bool to_path,
		const char *glob, struct buf *to)
{
	int r = 0;

	buf_clear(to);
	for (size_t i = 0; r == 0 && i < BUCKET_KINDS && layout->kinds[i].key; i++) {
		const char *key = layout->kinds[i].key, *path = layout->kinds[i].path;
		_cleanup_(values_done) struct values values = { 0 };

		r = template_read(bytes_str(to_path ? key : path), bytes_str(from), &values);
		for (size_t v = 0; r == 1 && v < values.count; v++)
			r = value_fits(values.name[v], values.value[v].data, glob);
		if (r == 1 && (template_start(bytes_str(to_path ? path : key), &values, to) < 0 ||
			       buf_printf(to, "%s", "") < 0))
			r = -ENOMEM;
		if (r == 1)
			r = layout->kinds[i].form;
	}
	return r;
}

int layout_turn(const struct bucket_layout *layout, const char *from, bool to_path,
		const char *glob, struct buf *to)
{
	_cleanup_(buf_done) struct buf back = { 0 };
	_cleanup_(freep) char *clean = NULL;
	const int form = turn(layout, from, to_path, glob, to);
	bool fits = true;
	int r;

	if (form <= 0)
		return form;
	/* A file must be able to have this path, and this key a line of its own. */
	for (const char *at = from; *at; at++)
		fits &= !iscntrl((unsigned char)*at);
	if (!fits || access_clean(from, &clean) < 0 || strcmp(clean, from) != 0)
		return -EINVAL;
	if (form == FORM_PARTS) /* one of many of a file */
		return form;
	r = turn(layout, to->data, !to_path, NULL, &back);
	return r < 0 ? r : r > 0 && strcmp(back.data, from) == 0 ? form : -EINVAL;
}

/* ---- Finding it out ---- */

/* One of the two bases of a layout, of which the first is that of today's client, or -ENOENT. */
static int layout_base(const struct bucket_layout *layout, const char *prefix, bool other,
		       struct buf *base)
{
	const bool slash = *prefix && !bytes_ends_with(bytes_str(prefix), BYTES("/"));
	const char *more = !*prefix ? layout->without[other] : other ? layout->behind : "";
	size_t size;

	buf_clear(base);
	if (layout->joined && other)
		return buf_printf(base, "%s/", prefix);
	if (layout->joined) {
		prefix += strspn(prefix, "/");
		for (size = strlen(prefix); size && prefix[size - 1] == '/';)
			size--;
		return buf_printf(base, "%.*s%s", (int)size, prefix, size ? "/" : "");
	}
	return more ? buf_printf(base, "%s%s%s", prefix, slash ? "/" : "", more) : -ENOENT;
}

struct guess {
	const char *prefix;
	const struct bucket_layout **layout; /* NULL: any */
	struct buf *base;
	bool other; /* found, but there may be objects with the first base behind this one */
	unsigned objects;
};

/* The layout and the base by which an object is one of it: 1, if it is the first base. */
static int guess_object(void *arg, const char *key, const char *etag, uint64_t size)
{
	struct guess *guess = arg;
	_cleanup_(buf_done) struct buf path = { 0 }, base = { 0 };
	int r;

	(void)etag, (void)size;
	for (size_t i = 0; i < 2 * BUCKET_LAYOUTS; i++) {
		const struct bucket_layout *layout = &bucket_layouts[i / 2];

		if ((*guess->layout && *guess->layout != layout) ||
		    layout_base(layout, guess->prefix, i % 2, &base) < 0 ||
		    strncmp(key, base.data, base.size) != 0 ||
		    layout_turn(layout, key + base.size, true, NULL, &path) <= 0)
			continue;
		*guess->layout = layout;
		guess->other = i % 2;
		r = layout_base(layout, guess->prefix, guess->other, guess->base);
		if (r < 0 || !guess->other)
			return r < 0 ? r : 1;
	}
	return ++guess->objects < GUESSES ? 0 : -ECANCELED;
}

int layout_find(const struct bucket *bucket, const struct bucket_layout **layout, struct buf *base)
{
	struct guess guess = { .prefix = bucket->prefix, .layout = layout, .base = base };
	const bool whole =
		!*bucket->prefix || bytes_ends_with(bytes_str(bucket->prefix), BYTES("/"));
	/* Not those of a longer prefix, which may come first. */
	_cleanup_(freep) char *prefix = str_printf("%s%s", bucket->prefix, whole ? "" : "/");
	int r = prefix ? bucket->ops->list(bucket->s3, prefix, guess_object, &guess) : -ENOMEM;

	if (r < 0 && r != -ECANCELED)
		return r;
	if (r == 1 || guess.other)
		return 0;
	if (*layout)
		return layout_base(*layout, bucket->prefix, false, base);
	return log_fail(
		-EINVAL,
		"%s: no object there is one of a layout that sessfs knows; name the prefix that "
		"the client uses, or the layout with --layout",
		bucket->url);
}
