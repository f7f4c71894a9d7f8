/* SPDX-License-Identifier: MIT */
/*
 * The layout of AgentScope's older file sessions, in Java and in Python: a file SESSION.json for
 * each session, with all of its states as members of one object.
 */
#include <errno.h>
#include <string.h>

#include "fs/base/layout.h"
#include "fs/base/look.h"
#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "src/exchange/document.h"
#include "src/exchange/import.h"
#include "src/user/stop.h"

static int append_component(void *arg, struct bytes name, bool last)
{
	(void)last;
	return buf_join(arg, BYTES("/"), name);
}

/* Where the mount shows a key. */
static int make_path(uint64_t layout, struct bytes session, const struct document_member *member,
		     struct buf *path)
{
	const uint32_t kind = look_is(member->value, '[') ? BACKEND_LIST : BACKEND_SINGLE;
	const struct bytes key = bytes_make(member->key, member->key_size);
	int r = layout ? layout_state(layout, session, key, kind, path) : -ENOENT;

	if (r != -ENOENT)
		return r < 0 ? r : buf_append_byte(path, '\0');
	r = layout ? layout_session(layout, session, path) :
		     names_encode(NAMES_SESSION, session, NAME_LIMIT, path);
	if (r == 0)
		r = names_path(key, kind, 0, append_component, path);
	return r < 0 ? r : buf_append_byte(path, '\0');
}

enum place { PLACE_GOOD, PLACE_CUT, PLACE_VIEW };

/* A name that would be too long is cut, with a sign that no other name has: then it is the name of
 * another id.  enum place, or -errno. */
static int judge_place(struct import *import, const struct import_session *session,
		       const struct document_member *member)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r = make_path(import->layout, session->id, member, &path);

	if (r < 0)
		return r;
	if (strstr(path.data, "%~"))
		return PLACE_CUT;
	r = import_is_view(&import->copier, path.data);
	return r > 0 ? PLACE_VIEW : r;
}

static int take_member(struct import *import, const struct import_session *session,
		       const struct document_member *member)
{
	_cleanup_(buf_done) struct buf path = { 0 }, content = { 0 };
	struct copier_entry file = { .name = session->name, .set = session->set };
	int r = make_path(import->layout, session->id, member, &path);

	if (r == 0)
		r = document_content(member->value, &content);
	if (r < 0)
		return r;
	file.path = path.data;
	file.data = buf_bytes(&content);
	file.st = session->st;
	file.st.st_mode = S_IFREG | (session->st.st_mode & 07777);
	file.st.st_size = (off_t)content.size;
	r = copier_file(&import->copier, &file);
	return r < 0 ? copier_fail(&import->copier, &file, r) : 0;
}

int import_session(struct import *import, const struct import_session *session, struct bytes text)
{
	_cleanup_(document_done) struct document document = { 0 };
	struct json_error error;
	unsigned line = 1;
	int r = document_parse(text, &document, &error);

	for (size_t i = 0; r == -EINVAL && i < error.offset; i++)
		line += text.data[i] == '\n';
	if (r == -EINVAL)
		return copier_refuse(&import->copier,
				     "%s: line %u, byte %zu: %s; nothing of this session is "
				     "imported",
				     session->name, line, error.offset, error.reason);
	for (size_t i = 0; r == 0 && i < document.count; i++)
		r = judge_place(import, session, &document.members[i]);
	if (r == PLACE_VIEW)
		return copier_refuse(&import->copier,
				     "%s: the id, or a key in it, is the name of a view; nothing "
				     "of this session is imported",
				     session->name);
	if (r == PLACE_CUT)
		return copier_refuse(&import->copier,
				     "%s: the id, or a key in it, is too long for the name of a "
				     "file (%d bytes); nothing of this session is imported",
				     session->name, NAME_LIMIT);
	for (size_t i = 0; r == 0 && i < document.count; i++)
		r = stop_wanted() ? -EINTR : take_member(import, session, &document.members[i]);
	return r;
}

static int leave_out(struct copier *copier, struct copier_entry *entry)
{
	(void)entry;
	copier->left++;
	return 1;
}

static int take_file(struct copier *copier, struct copier_entry *entry)
{
	_cleanup_(buf_done) struct buf text = { 0 };
	struct import_session session = { .id = bytes_str(entry->path),
					  .name = entry->name,
					  .st = entry->st,
					  .set = entry->set };
	int r;

	if (!S_ISREG(entry->st.st_mode) || !bytes_ends_with(session.id, BYTES(".json")) ||
	    session.id.size == strlen(".json"))
		return leave_out(copier, entry), 0;
	session.id.size -= strlen(".json");
	r = access_file_open(copier->from, entry->from, ACCESS_FILE_READ, &entry->file);
	entry->broken = r < 0;
	if (r == 0)
		r = copier_read(entry, SIZE_MAX, &text);
	return r < 0 ? r : import_session((struct import *)copier, &session, buf_bytes(&text));
}

static int document_take(struct import *import, const char *operand)
{
	static const struct copier_sink sink = { .enter = leave_out, .leaf = take_file };

	import->copier.sink = &sink;
	return import_operand(&import->copier, operand);
}

const struct import_layout import_documents = {
	.name = "agentscope-files",
	.help = "files SESSION.json, in which each member is a state, as AgentScope wrote them "
		"before",
	.take = document_take,
};
