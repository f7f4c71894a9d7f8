/* SPDX-License-Identifier: MIT */
/* What is added to conversations, as it happens: events say to which. */
#include "src/cmd/show.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/names.h"
#include "src/user/say.h"
#include "src/user/stop.h"

/* Of a directory that all that was found is in. */
int show_follow_begin(struct show *show, struct access_file **ret_events)
{
	const struct show_found *first = show->found;
	size_t size = strlen(first->path);
	_cleanup_(freep) char *path = NULL;

	for (size_t i = 0; i < show->found_count; i++) {
		const char *other = show->found[i].path;
		size_t same = 0;

		while (same < size && first->path[same] == other[same])
			same++;
		if (same == size && show->found[i].is_dir && (!other[same] || other[same] == '/'))
			continue;
		while (same && first->path[same - 1] != '/')
			same--;
		size = same ? same - 1 : 0;
	}
	path = str_printf("%.*s/@as=events.jsonl", (int)size, first->path);
	return path ? access_file_open(show->access, path, ACCESS_FILE_READ, ret_events) : -ENOMEM;
}

static bool is_followed(const struct show *show, const char *path)
{
	bool is = false;

	for (size_t i = 0; i < show->found_count; i++) {
		const struct show_found *found = &show->found[i];
		size_t size = strlen(found->path);

		is |= !found->is_dir ?
			      strcmp(path, found->path) == 0 :
			      !size || (strncmp(path, found->path, size) == 0 && path[size] == '/');
	}
	return is;
}

/* What comes next of a list.  What was rewritten is shown again from there on: that is so if it is
 * of another version than what was shown. */
static int64_t next_of(const struct show *show, const char *path, const json_t *first)
{
	const struct show_list *list = show_known(show, path);
	char version[SHOW_VERSION];

	if (!list)
		return 0;
	show_version(show, path, version);
	if (strcmp(version, list->version) == 0)
		return list->next;
	return json_is_integer(first) ?
		       MAX(MIN(list->next, (int64_t)json_integer_value(first)), 0) :
		       0;
}

static int show_change(struct show *show, const char *path, const json_t *first)
{
	uint32_t kind = names_split(bytes_str(path)).kind;
	int r = 0;

	if (kind == BACKEND_LIST)
		r = show_list(show, path, next_of(show, path, first));
	else if (kind == BACKEND_SINGLE || !show->many)
		r = show_file(show, path);
	/* By now it may be called otherwise, or be gone. */
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}

static int on_event(struct show *show, struct bytes line)
{
	json_t *event = json_loadb(line.data, line.size, 0, NULL);
	const char *what = json_string_value(json_object_get(event, "what"));
	const char *path = json_string_value(json_object_get(event, "path"));
	int r = 0;

	if (what && strcmp(what, "lost") == 0) {
		/* Look at all files that are known. */
		for (size_t i = 0; r == 0 && i < show->count; i++)
			r = show_change(show, show->lists[i].path, NULL);
	} else if (what && path && is_followed(show, path) && strcmp(what, "attr") != 0 &&
		   strcmp(what, "remove") != 0) {
		r = show_change(show, path, json_object_get(event, "first"));
	}
	json_decref(event);
	return r;
}

int show_follow(struct show *show, struct access_file *events)
{
	_cleanup_(buf_done) struct buf lines = { 0 };
	const char *end;
	int r = 0;

	while (r == 0 && !stop_wanted() && !ferror(stdout) && !say_is_unheard()) {
		fflush(stdout);
		r = access_file_next(events, &lines);
		while (r == 0 && lines.size && (end = memchr(lines.data, '\n', lines.size))) {
			size_t size = (size_t)(end - lines.data);

			r = on_event(show, bytes_make(lines.data, size));
			buf_consume(&lines, size + 1);
		}
	}
	return r;
}
