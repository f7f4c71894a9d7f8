/* SPDX-License-Identifier: MIT */
#include "fs/base/layout.h"

#include <errno.h>
#include <stdio.h>

#include "fs/base/layouts.h"
#include "fs/base/names.h"
#include "fs/base/template.h"
#include "backend/base/cleanup.h"

enum { PARTS = 8 };

/* For all other ids. */
static const struct pattern last_pattern = { "/{session}/{key}", "{session}", NULL, false };

/* ---- Sets of layouts ---- */

static const char none[] = "agentscope";

int layouts_parse(const char *text, uint64_t *ret_set)
{
	uint64_t set = 0, bit;
	size_t size;

	if (strcmp(text, none) == 0) {
		*ret_set = 0;
		return 0;
	}
	for (;; text += size + 1) {
		size = strcspn(text, "+");
		bit = 0;
		for (size_t i = 0; i < LAYOUT_COUNT; i++)
			if (bytes_equal(bytes_make(text, size), bytes_str(layouts[i].name)))
				bit = UINT64_C(1) << layouts[i].bit;
		if (!bit)
			return -EINVAL;
		set |= bit;
		if (!text[size])
			break;
	}
	*ret_set = set;
	return 0;
}

const char *layouts_show(uint64_t set, char text[LAYOUTS_TEXT])
{
	int size = 0;

	if (!set)
		return none;
	*text = '\0';
	for (size_t i = 0; i < LAYOUT_COUNT; i++)
		if (set >> layouts[i].bit & 1)
			size += snprintf(text + size, (size_t)(LAYOUTS_TEXT - size), "%s%s",
					 size ? "+" : "", layouts[i].name);
	return text;
}

_Static_assert(LAYOUTS_ALL == (1 << LAYOUT_COUNT) - 1, "a bit for each");

/* The pattern with that number, counted through all layouts of the set; NULL: there are no more. */
static const struct pattern *pattern_at(uint64_t set, size_t at)
{
	for (const struct layout *layout = layouts; layout < layouts + LAYOUT_COUNT; layout++)
		for (size_t i = 0;
		     set >> layout->bit & 1 && i < LAYOUT_PATTERNS && layout->patterns[i].path; i++)
			if (!at--)
				return &layout->patterns[i];
	return at ? NULL : &last_pattern;
}

/* ---- Paths, and patterns of them ---- */

/* The parts of a path, as ids have them. */
struct parts {
	struct buf part[PARTS];
	size_t count;
	bool more; /* than these */
	bool is_dir;
	uint32_t kind; /* of a file; the suffix is not in the last part */
};

static void parts_done(struct parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		buf_done(&parts->part[i]);
	parts->count = 0;
}

static int parts_read(struct bytes path, bool is_dir, struct parts *parts)
{
	bool more = true;
	int r = 0;

	parts->is_dir = is_dir;
	while (r == 0 && more) {
		struct bytes name;

		more = names_cut(&path, &name);
		if (parts->count == PARTS) {
			parts->more = true;
			return 0;
		}
		if (!more && !is_dir) {
			struct names_split split = names_split(name);

			parts->kind = split.kind;
			name = split.stem;
		}
		r = names_decode(NAMES_SESSION, name, &parts->part[parts->count++]);
	}
	return r;
}

static struct bytes suffix_of(const struct pattern *pattern, struct bytes *ret_path,
			      uint32_t *ret_kind)
{
	struct bytes path = bytes_str(pattern->path), suffix = BYTES("/{key}");

	*ret_kind = BACKEND_ORDINARY;
	if (pattern->key) {
		*ret_kind = names_split(path).kind;
		suffix = names_suffix(*ret_kind);
	}
	*ret_path = bytes_make(path.data, path.size - suffix.size);
	return suffix;
}

/* LAYOUT_ABOVE, LAYOUT_SESSION, LAYOUT_STATE, with the values; LAYOUT_NONE: it does not fit. */
static int pattern_fits(const struct pattern *pattern, const struct parts *parts,
			struct values *values)
{
	struct bytes path, template;
	bool more = true;
	uint32_t kind;
	int r = 1;

	suffix_of(pattern, &path, &kind);
	if (parts->more || (!parts->is_dir && parts->kind != kind))
		return LAYOUT_NONE;
	for (size_t i = 0; r > 0 && i < parts->count; i++) {
		struct bytes text = buf_bytes(&parts->part[i]);

		if (!more)
			return LAYOUT_NONE;
		more = names_cut(&path, &template);
		/* Only the last pattern has names that are empty. */
		r = text.size || pattern == &last_pattern ? template_read(template, text, values) :
							    0;
	}
	if (r <= 0)
		return r < 0 ? r : LAYOUT_NONE;
	if (parts->is_dir)
		return more ? LAYOUT_ABOVE : pattern->key ? LAYOUT_NONE : LAYOUT_SESSION;
	return !more && pattern->key ? LAYOUT_STATE : LAYOUT_NONE;
}

/* The first pattern that fits a path; *ret_pattern is not set if none does. */
static int find_pattern(uint64_t set, const struct parts *parts, const struct pattern **ret_pattern,
			enum layout_is *ret_is, struct values *values)
{
	const struct pattern *pattern;

	*ret_is = LAYOUT_NONE;
	for (size_t i = 0; (pattern = pattern_at(set, i)); i++) {
		int r = pattern_fits(pattern, parts, values);

		if (r < 0)
			return r;
		if (r != LAYOUT_NONE) {
			*ret_pattern = pattern;
			*ret_is = (enum layout_is)r;
			return 0;
		}
		values_done(values);
	}
	return 0;
}

static bool parts_equal(const struct parts *a, const struct parts *b)
{
	bool equal = a->count == b->count;

	for (size_t i = 0; equal && i < a->count; i++)
		equal = bytes_equal(buf_bytes(&a->part[i]), buf_bytes(&b->part[i]));
	return equal;
}

/* The parts that a pattern has with these values. */
static int parts_write(const struct pattern *pattern, const struct values *values,
		       struct parts *parts)
{
	struct bytes path, template;
	bool more = true;
	int r = 0;

	suffix_of(pattern, &path, &parts->kind);
	parts->is_dir = !pattern->key;
	while (r == 0 && more) {
		more = names_cut(&path, &template);
		r = template_write(template, values, &parts->part[parts->count++]);
	}
	return r;
}

/* Whether it is by this pattern that an id, and the key of a file, have a path: 1, with its parts,
 * or 0. */
static int pattern_leads(uint64_t set, const struct pattern *pattern, struct bytes session,
			 struct bytes key, struct parts *parts)
{
	_cleanup_(values_done) struct values values = { 0 };
	_cleanup_(values_done) struct values back = { 0 };
	_cleanup_(buf_done) struct buf again = { 0 };
	const struct pattern *found = NULL;
	enum layout_is is;
	int r = template_read(bytes_str(pattern->session), session, &values);

	if (r > 0 && pattern->key)
		r = template_read(bytes_str(pattern->key), key, &values);
	if (r <= 0)
		return r;
	r = parts_write(pattern, &values, parts);
	if (r == 0)
		r = find_pattern(set, parts, &found, &is, &back);
	if (r < 0 || found != pattern)
		return r;
	/* Reading may give another value than was written. */
	r = template_write(bytes_str(pattern->session), &back, &again);
	return r < 0 ? r : bytes_equal(buf_bytes(&again), session);
}

/* The parts of the path that an id has, and with a key that of its file: 1, or 0 if it has none. */
static int find_parts(uint64_t set, struct bytes session, const struct bytes *key, uint32_t kind,
		      struct parts *parts)
{
	const struct pattern *pattern;

	for (size_t i = 0; (pattern = pattern_at(set, i)); i++) {
		struct bytes path;
		uint32_t of;
		int r;

		suffix_of(pattern, &path, &of);
		if (!pattern->key != !key || (key && of != kind))
			continue;
		r = pattern_leads(set, pattern, session, key ? *key : BYTES(""), parts);
		if (r)
			return r;
		parts_done(parts);
	}
	return 0;
}

static int layout_judge_parts(uint64_t set, const struct parts *parts, enum layout_is *ret_is,
			      struct buf *session, struct buf *key)
{
	_cleanup_(values_done) struct values values = { 0 };
	_cleanup_(parts_done) struct parts back = { 0 };
	const struct pattern *pattern = NULL;
	struct bytes state;
	int r = find_pattern(set, parts, &pattern, ret_is, &values);

	if (r < 0 || *ret_is == LAYOUT_ABOVE || *ret_is == LAYOUT_NONE)
		return r;
	/* An empty id is an id: it must have an address. */
	r = buf_reserve(session, 1);
	if (r == 0)
		r = template_write(bytes_str(pattern->session), &values, session);
	if (r == 0 && pattern->key)
		r = template_write(bytes_str(pattern->key), &values, key);
	if (r < 0)
		return r;
	state = buf_bytes(key);
	r = find_parts(set, buf_bytes(session), pattern->key ? &state : NULL, parts->kind, &back);
	if (r >= 0 && (!r || !parts_equal(parts, &back)))
		*ret_is = LAYOUT_NONE;
	return MIN(r, 0);
}

int layout_judge(uint64_t set, struct bytes path, bool is_dir, enum layout_is *ret_is,
		 struct buf *session, struct buf *key)
{
	_cleanup_(parts_done) struct parts parts = { 0 };
	enum layout_is is = LAYOUT_NONE;
	int r;

	buf_clear(session);
	buf_clear(key);
	r = parts_read(path, is_dir, &parts);

	if (r == 0)
		r = layout_judge_parts(set, &parts, &is, session, key);
	*ret_is = is;
	return r;
}

static int append_path(const struct parts *parts, struct buf *path)
{
	struct bytes suffix = names_suffix(parts->kind);
	int r = 0;

	for (size_t i = 0; r == 0 && i < parts->count; i++) {
		bool last = i + 1 == parts->count;

		r = names_encode(NAMES_SESSION, buf_bytes(&parts->part[i]),
				 NAME_LIMIT - (last ? suffix.size : 0), path);
		if (r == 0)
			r = last ? buf_append_bytes(path, suffix) : buf_append_byte(path, '/');
	}
	return r;
}

static int write_path(uint64_t set, struct bytes session, const struct bytes *key, uint32_t kind,
		      struct buf *path)
{
	_cleanup_(parts_done) struct parts parts = { 0 };
	size_t start = path->size;
	int r = find_parts(set, session, key, kind, &parts);

	if (r == 0)
		return -ENOENT;
	if (r > 0)
		r = append_path(&parts, path);
	if (r < 0)
		path->size = start;
	return r;
}

int layout_session(uint64_t set, struct bytes session, struct buf *path)
{
	return write_path(set, session, NULL, BACKEND_ORDINARY, path);
}

int layout_state(uint64_t set, struct bytes session, struct bytes key, uint32_t kind,
		 struct buf *path)
{
	return write_path(set, session, &key, kind, path);
}

size_t layout_own_id(uint64_t set, struct bytes session)
{
	for (const struct layout *layout = layouts; layout < layouts + LAYOUT_COUNT; layout++) {
		const size_t size = strlen(layout->name);

		if (set >> layout->bit & 1 && session.size > size && session.data[size] == ':' &&
		    memcmp(session.data, layout->name, size) == 0)
			return layout->own_id;
	}
	return 0;
}

int layout_above(uint64_t set, struct bytes path, size_t number, struct buf *start)
{
	const struct pattern *pattern = pattern_at(set, number);
	_cleanup_(values_done) struct values values = { 0 };
	_cleanup_(parts_done) struct parts parts = { 0 };
	int r = pattern ? parts_read(path, true, &parts) : -ENOENT;

	buf_clear(start);
	if (r == 0)
		r = pattern_fits(pattern, &parts, &values);
	if (r != LAYOUT_ABOVE)
		return MIN(r, 0);
	/* An empty one has an address, too. */
	r = buf_reserve(start, 1);
	if (r == 0)
		r = template_start(bytes_str(pattern->session), &values, start);
	return r < 0 ? r : 1;
}

bool layout_keys_outside(uint64_t set, struct bytes session, struct bytes *ret_start)
{
	const struct pattern *pattern;
	bool found = false;

	for (size_t i = 0; (pattern = pattern_at(set, i)); i++) {
		_cleanup_(values_done) struct values values = { 0 };
		struct bytes start;

		if (!pattern->key ||
		    template_read(bytes_str(pattern->session), session, &values) <= 0)
			continue;
		start = bytes_make(pattern->key, strcspn(pattern->key, "{"));
		*ret_start = found && !bytes_equal(start, *ret_start) ? BYTES("") : start;
		found = true;
	}
	return found;
}

bool layout_has_parts(struct bytes path)
{
	for (const struct layout *layout = layouts; layout < layouts + LAYOUT_COUNT; layout++)
		if (layout->parts && bytes_starts_with(path, bytes_str(layout->parts)))
			return true;
	return false;
}
