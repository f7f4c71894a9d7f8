/* SPDX-License-Identifier: MIT */
#include "src/bucket/layout.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "fs/base/layout.h"
#include "fs/base/names.h"
#include "fs/base/template.h"

enum { STRANDS, SNAPSHOTS, CLAUDE, AGENTSCOPE };

const struct bucket_layout bucket_layouts[BUCKET_LAYOUTS] = {
	[STRANDS] = { "strands", "objects of Strands' S3SessionManager, one a message", "/", "",
		      true, 0, "session_" },
	[SNAPSHOTS] = { "strands-snapshots", "snapshots of Strands' S3Storage", "", "session/",
			false, 0, "" },
	[CLAUDE] = { "claude-parts", "transcripts of the Claude Agent SDK's example, in parts", "",
		     NULL, false, 1, "" },
	[AGENTSCOPE] = { "agentscope", "states of AgentScope's OssAgentStateStore",
			 "agentscope/state/", NULL, false, 1, "" },
};

/* Of those whose keys are paths; a star stands for one part of it. */
static const char *const patterns[][6] = {
	[STRANDS] = { "session_*/session.json", "session_*/agents/agent_*/agent.json",
		      "session_*/agents/agent_*/messages/message_*.json",
		      "session_*/multi_agents/multi_agent_*/multi_agent.json" },
	[SNAPSHOTS] = { "*/scopes/agent/*/snapshots/snapshot_latest.json",
			"*/scopes/agent/*/snapshots/manifest.json",
			"*/scopes/agent/*/snapshots/immutable_history/snapshot_*.json",
			"*/scopes/multiAgent/*/snapshots/snapshot_latest.json",
			"*/scopes/multiAgent/*/snapshots/manifest.json",
			"*/scopes/multiAgent/*/snapshots/immutable_history/snapshot_*.json" },
};

int layout_base(const struct bucket_layout *layout, const char *prefix, bool other,
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

const char *layout_root(const struct bucket_layout *layout, uint64_t store)
{
	uint64_t claude;

	return layout == &bucket_layouts[CLAUDE] && layouts_parse("claude", &claude) == 0 &&
			       store & claude ?
		       "claude/projects/" :
		       "";
}

/* ---- Names ---- */

/* 0, or -EINVAL: a file cannot have this path. */
static int names_hold(struct bytes path)
{
	size_t size = 0;

	for (size_t i = 0; i <= path.size; i++) {
		const char byte = i < path.size ? path.data[i] : '/';
		const char *name = path.data + i - size;

		if (byte != '/') {
			if ((unsigned char)byte < ' ' || byte == 0x7f || ++size > NAME_LIMIT)
				return -EINVAL;
			continue;
		}
		if (!size || (*name == '.' && (size == 1 || (size == 2 && name[1] == '.'))))
			return -EINVAL;
		size = 0;
	}
	return 0;
}

/* Behind the next slash; empty where there is none. */
static struct bytes behind(struct bytes path, struct bytes *ret_name)
{
	const char *slash = path.size ? memchr(path.data, '/', path.size) : NULL;
	const size_t size = slash ? (size_t)(slash - path.data) : path.size;

	*ret_name = bytes_make(path.data, size);
	return slash ? bytes_make(slash + 1, path.size - size - 1) : bytes_make(NULL, 0);
}

/* Strands takes what stands behind "message_" for a number. */
static bool is_numbered(const char *path)
{
	const char *name = strrchr(path, '/') + strlen("/message_");

	return strncmp(name - strlen("message_"), "message_", strlen("message_")) != 0 ||
	       strspn(name, "0123456789") == strlen(name) - strlen(".json");
}

static bool is_document(size_t layout, struct bytes path)
{
	_cleanup_(freep) char *text = bytes_dup(path);

	for (size_t i = 0; text && i < ARRAY_SIZE(patterns[layout]); i++)
		if (patterns[layout][i] && fnmatch(patterns[layout][i], text, FNM_PATHNAME) == 0)
			return is_numbered(text);
	return false;
}

/* ---- Parts of transcripts ---- */

enum { PART_SIZE = sizeof("/part-0123456789012-012345.jsonl") - 1 };

static int parts_path(struct bytes key, struct buf *path)
{
	_cleanup_(freep) char *end = NULL;
	struct bytes project, folder;
	int r;

	if (key.size <= PART_SIZE)
		return 0;
	folder = bytes_make(key.data, key.size - PART_SIZE);
	end = bytes_dup(bytes_make(key.data + folder.size, PART_SIZE));
	if (!end)
		return -ENOMEM;
	if (fnmatch("/part-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]-"
		    "[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f].jsonl",
		    end, 0) != 0 ||
	    !behind(folder, &project).size)
		return 0;
	r = buf_append_bytes(path, folder);
	return r < 0 ? r : buf_append_str(path, ".jsonl");
}

static int parts_key(struct bytes path, struct buf *key)
{
	struct bytes project;
	int r;

	if (!bytes_ends_with(path, BYTES(".jsonl")) || !behind(path, &project).size)
		return 0;
	r = buf_append(key, path.data, path.size - strlen(".jsonl"));
	return r < 0 ? r : buf_append_byte(key, '/');
}

/* ---- AgentScope ---- */

/* Longer ends come first. */
static const struct ending {
	struct bytes key, path;
	enum bucket_form form;
} endings[] = {
	{ { ".list.json", 10 }, { ".jsonl", 6 }, FORM_LIST },
	{ { ".list.hash", 10 }, { ".hash", 5 }, FORM_TEXT },
	{ { ".json", 5 }, { ".json", 5 }, FORM_DOCUMENT },
};

/* A user or an id: AgentScope writes it as it is into a key, but safely into a path, from which a
 * short one cannot be read again. */
static int append_part(struct bytes part, bool to_path, struct buf *text)
{
	static const struct bytes as_path = { "{v|safe}", 8 }, as_key = { "{v}", 3 };
	_cleanup_(values_done) struct values values = { 0 }, back = { 0 };
	const size_t begun = text->size;
	int r = template_read(to_path ? as_key : as_path, part, &values);

	if (r == 1)
		r = template_write(to_path ? as_path : as_key, &values, text);
	else if (r == 0)
		r = -EINVAL;
	if (r == 0 && to_path) {
		r = template_read(as_path, bytes_make(text->data + begun, text->size - begun),
				  &back);
		r = r < 0 ? r : r && bytes_equal(buf_bytes(&back.value[0]), part) ? 0 : -EINVAL;
	}
	return r < 0 ? r : buf_append_byte(text, '/');
}

static int states_turn(struct bytes from, bool to_path, struct buf *to, enum bucket_form *ret_form)
{
	struct bytes user, session, key = behind(behind(from, &user), &session);
	const struct ending *ending = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(endings) && !ending; i++) {
		const struct bytes end = to_path ? endings[i].key : endings[i].path;

		if (key.size > end.size && bytes_ends_with(key, end))
			ending = &endings[i];
	}
	if (!ending || !user.size || !session.size)
		return 0;
	/* A document of that name would be read as a list. */
	if (!to_path && ending->form == FORM_DOCUMENT && bytes_ends_with(key, endings[0].key))
		return -EINVAL;
	key.size -= (to_path ? ending->key : ending->path).size;
	*ret_form = ending->form;
	r = append_part(user, to_path, to);
	if (r == 0)
		r = append_part(session, to_path, to);
	if (r == 0)
		r = buf_append_bytes(to, key);
	return r < 0 ? r : buf_append_bytes(to, to_path ? ending->path : ending->key);
}

/* ---- Both ways ---- */

static int layout_turn(const struct bucket_layout *layout, struct bytes from, bool to_path,
		       struct buf *to, enum bucket_form *ret_form)
{
	const size_t which = (size_t)(layout - bucket_layouts);

	if (which == AGENTSCOPE)
		return states_turn(from, to_path, to, ret_form);
	*ret_form = which == CLAUDE ? FORM_PARTS : FORM_DOCUMENT;
	if (which == CLAUDE)
		return to_path ? parts_path(from, to) : parts_key(from, to);
	return is_document(which, from) ? buf_append_bytes(to, from) : 0;
}

int layout_path_of(const struct bucket_layout *layout, const char *root, struct bytes key,
		   struct buf *path, enum bucket_form *ret_form)
{
	const size_t begun = path->size;
	int r = buf_append_str(path, root);

	if (r == 0)
		r = layout_turn(layout, key, true, path, ret_form);
	if (r == 0 && path->size == begun + strlen(root))
		return 0;
	if (r == 0)
		r = names_hold(key);
	if (r == 0)
		r = buf_append_byte(path, '\0');
	if (r < 0)
		return r;
	path->size--;
	return 1;
}

int layout_key_of(const struct bucket_layout *layout, const char *root, struct bytes path,
		  struct buf *key, enum bucket_form *ret_form)
{
	const size_t begun = key->size, size = strlen(root);
	int r;

	if (!bytes_starts_with(path, bytes_str(root)) ||
	    names_hold(bytes_make(path.data + size, path.size - size)) < 0)
		return 0;
	r = layout_turn(layout, bytes_make(path.data + size, path.size - size), false, key,
			ret_form);
	return r < 0 ? r : key->size > begun;
}

bool layout_is_asked(const struct bucket_layout *layout, struct bytes key, const char *glob)
{
	_cleanup_(freep) char *id = NULL;
	struct bytes name, rest = key;

	if (!glob)
		return true;
	for (unsigned i = 0; i <= layout->part; i++)
		rest = behind(rest, &name);
	if (!bytes_starts_with(name, bytes_str(layout->before)))
		return false;
	id = bytes_dup(
		bytes_make(name.data + strlen(layout->before), name.size - strlen(layout->before)));
	return id && fnmatch(glob, id, 0) == 0;
}
