/* SPDX-License-Identifier: MIT */
#include "src/bucket/bucket.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "fs/base/names.h"
#include "fs/base/template.h"

enum { GUESSES = 1000 }; /* objects that tell the layout */

#define SAME(template) template, template

/* Of kinds that fit a key, the first counts. */
const struct bucket_layout bucket_layouts[BUCKET_LAYOUTS + 1] = {
	{ .name = "strands",
	  .help = "objects of Strands' S3SessionManager, one a message",
	  .base = "/",
	  .other = "",
	  .joined = true,
	  .kinds = { { SAME("session_{s}/session.json") },
		     { SAME("session_{s}/agents/agent_{a}/agent.json") },
		     { SAME("session_{s}/agents/agent_{a}/messages/message_{n}.json") },
		     { SAME("session_{s}/multi_agents/multi_agent_{a}/multi_agent.json") } } },
	{ .name = "strands-snapshots",
	  .help = "snapshots of Strands' S3Storage",
	  .base = "",
	  .other = "session/",
	  .kinds = { { SAME("{s}/scopes/{k}/{a}/snapshots/snapshot_latest.json") },
		     { SAME("{s}/scopes/{k}/{a}/snapshots/manifest.json") },
		     { SAME("{s}/scopes/{k}/{a}/snapshots/immutable_history/"
			    "snapshot_{i}.json") } } },
	[BUCKET_CLAUDE] = { .name = "claude-parts",
			    .help = "transcripts of the Claude Agent SDK's example, in parts",
			    .base = "",
			    .kinds = { { "{project}/{S}/part-{part}.jsonl", "{project}/{S}.jsonl",
					 FORM_PARTS } } },
	{ .name = "agentscope",
	  .help = "states of AgentScope's OssAgentStateStore",
	  .base = "agentscope/state/",
	  .kinds = { { "{u}/{s}/{K}.list.json", "{u|safe}/{s|safe}/{K}.jsonl", FORM_LIST },
		     { "{u}/{s}/{K}.list.hash", "{u|safe}/{s|safe}/{K}.hash", FORM_TEXT },
		     { "{u}/{s}/{K}.json", "{u|safe}/{s|safe}/{K}.json" } } },
	[BUCKET_LAYOUTS] = { .name = "claude-parts",
			     .kinds = { { "{project}/{S}/part-{part}.jsonl",
					  "claude/projects/{project}/{S}.jsonl", FORM_PARTS } } },
};

/* Whether a file can have this path, and this key a line of its own. */
static bool is_path(struct bytes path)
{
	_cleanup_(freep) char *text = bytes_dup(path);
	char *rest = text, *name;
	bool fits = text;

	for (size_t i = 0; i < path.size; i++)
		fits &= (unsigned char)path.data[i] >= ' ' && path.data[i] != 0x7f;
	while (fits && (name = strsep(&rest, "/")))
		fits = *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		       strlen(name) <= NAME_LIMIT;
	return fits;
}

/* Whether a variable can have this value. */
static bool value_fits(struct bytes name, const char *value, const char *glob)
{
	const bool session = tolower((unsigned char)*name.data) == 's' && name.size == 1;
	_cleanup_(freep) char *id = strndup(value, strcspn(value, "/"));
	int size = 0;

	if (!*value || (islower((unsigned char)*name.data) && strchr(value, '/')) ||
	    (session && glob && (!id || fnmatch(glob, id, 0) != 0)))
		return false;
	if (bytes_equal(name, BYTES("n")))
		return strspn(value, "0123456789") == strlen(value);
	/* Milliseconds and a random number. */
	return !bytes_equal(name, BYTES("part")) ||
	       (sscanf(value, "%*13[0-9]-%*6[0-9a-f]%n", &size) == 0 && size == 20 && !value[20]);
}

/* 1: the text is one of this kind. */
static int read_values(const char *template, struct bytes text, const char *glob,
		       struct values *values)
{
	int r = template_read(bytes_str(template), text, values);

	for (size_t i = 0; r == 1 && i < values->count; i++) {
		_cleanup_(freep) char *value = bytes_dup(buf_bytes(&values->value[i]));

		r = value ? value_fits(values->name[i], value, glob) : -ENOMEM;
	}
	return r;
}

/* Appends what a text is on the other side, by the first kind that fits. */
static int turn(const struct bucket_layout *layout, struct bytes from, bool to_path,
		const char *glob, struct buf *to, enum bucket_form *ret_form)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < BUCKET_KINDS && layout->kinds[i].key; i++) {
		const char *key = layout->kinds[i].key, *path = layout->kinds[i].path;
		_cleanup_(values_done) struct values values = { 0 };

		r = read_values(to_path ? key : path, from, glob, &values);
		*ret_form = layout->kinds[i].form;
		if (r == 1 && template_start(bytes_str(to_path ? path : key), &values, to) < 0)
			r = -ENOMEM;
	}
	return r;
}

int layout_turn(const struct bucket_layout *layout, struct bytes from, bool to_path,
		const char *glob, struct buf *to, enum bucket_form *ret_form)
{
	_cleanup_(buf_done) struct buf back = { 0 };
	enum bucket_form form;
	int r;

	buf_clear(to);
	r = turn(layout, from, to_path, glob, to, ret_form);
	if (r <= 0)
		return r;
	if (!is_path(from) || buf_printf(to, "%s", "") < 0)
		return is_path(from) ? -ENOMEM : -EINVAL;
	/* It must lead back, but for a part, which is one of many of a file. */
	r = *ret_form == FORM_PARTS ? 1 : turn(layout, buf_bytes(to), !to_path, NULL, &back, &form);
	if (r < 0 || *ret_form == FORM_PARTS)
		return r;
	return r == 1 && bytes_equal(buf_bytes(&back), from) ? 1 : -EINVAL;
}

/* ---- Finding it out ---- */

static int layout_base(const struct bucket_layout *layout, const char *prefix, bool other,
		       struct buf *base)
{
	const bool slash =
		*prefix && (layout->joined || !bytes_ends_with(bytes_str(prefix), BYTES("/")));

	if (other && (!layout->other || (*prefix && layout->joined)))
		return -ENOENT;
	buf_clear(base);
	return buf_printf(base, "%s%s%s",
			  *prefix ? prefix :
			  other	  ? "" :
				    layout->base,
			  slash ? "/" : "", other ? layout->other : "");
}

struct guess {
	const char *prefix;
	const struct bucket_layout *named, *layout; /* NULL: any, none */
	struct buf *base;
	unsigned objects;
};

/* The layout and the base by which an object is one of it. */
static int guess_object(void *arg, const struct s3_object *object)
{
	struct guess *guess = arg;
	const struct bytes key = bytes_str(object->key);
	_cleanup_(buf_done) struct buf path = { 0 };
	enum bucket_form form;

	for (size_t i = 0; i < 2 * BUCKET_LAYOUTS; i++) {
		const struct bucket_layout *layout = &bucket_layouts[i / 2];

		if ((guess->named && guess->named != layout) ||
		    layout_base(layout, guess->prefix, i % 2, guess->base) < 0 ||
		    !bytes_starts_with(key, buf_bytes(guess->base)) ||
		    layout_turn(layout,
				bytes_make(key.data + guess->base->size,
					   key.size - guess->base->size),
				true, NULL, &path, &form) != 1)
			continue;
		guess->layout = layout;
		return -ECANCELED;
	}
	return ++guess->objects < GUESSES ? 0 : -ECANCELED;
}

int layout_find(const struct bucket *bucket, const struct bucket_layout **layout, struct buf *base)
{
	struct guess guess = { .prefix = bucket->prefix, .named = *layout, .base = base };
	const bool whole =
		!*bucket->prefix || bytes_ends_with(bytes_str(bucket->prefix), BYTES("/"));
	/* Not those of a longer prefix, which may come first. */
	_cleanup_(freep) char *prefix = str_printf("%s%s", bucket->prefix, whole ? "" : "/");
	int r = prefix ? bucket_list(bucket, prefix, guess_object, &guess) : -ENOMEM;

	if (r < 0 && r != -ECANCELED)
		return r;
	if (!guess.layout && *layout)
		return layout_base(*layout, bucket->prefix, false, base);
	*layout = guess.layout;
	if (*layout)
		return 0;
	log_error("%s: no object there is one of a layout that sessfs knows; name the prefix that "
		  "the client uses, or the layout with --layout",
		  bucket->url);
	return -EINVAL;
}
