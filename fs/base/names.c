/* SPDX-License-Identifier: MIT */
#include "backend/backend.h"
#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "backend/base/digest.h"
#include "backend/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

/*
 * Why the two forms do not get mixed up.  Call E(c) the escaped form of a component.  E is
 * injective, since it escapes every '%', and unescape() is its inverse.  Let plain(c) say that c
 * could be the name of a file and has no "%~" in it.  Define, for strings of any length:
 *
 * - escaped(n): n == E(c) for some c != n, and c is not plain or escaped(c) holds.
 * - encode(c): c when plain(c) and not escaped(c), else E(c).
 * - decode(n): the c with n == E(c) when escaped(n), else n.
 *
 * The definition of escaped() comes to an end, as c is shorter than E(c) unless they are equal;
 * only the empty c, which is not plain, is the form of nothing.
 *
 * decode(encode(c)) == c: if encode(c) is c, then escaped(c) is false and decode leaves it alone.
 * If it is E(c), then c is not plain or escaped(c) holds; both make E(c) differ from c, so
 * escaped(E(c)) holds and decode undoes it.  For a plain n, encode(decode(n)) == n by the same
 * cases.
 */

const struct bytes names_hash_suffix = { ":_hash", 6 };

static const struct bytes cut_sign = { "%~", 2 };

enum { CUT_SIZE = 2 + 2 * DIGEST_SIZE }; /* the sign and the digest */

/* ---- Escaping ---- */

static bool is_dots(struct bytes component)
{
	return bytes_equal(component, BYTES(".")) || bytes_equal(component, BYTES(".."));
}

/* ASCII bytes that encoded names never contain. */
static bool is_hidden(unsigned char byte)
{
	return byte < 0x20 || byte == 0x7f || byte == '/';
}

static struct bytes bytes_from(struct bytes bytes, size_t at)
{
	return at ? bytes_make(bytes.data + at, bytes.size - at) : bytes;
}

/* Can it be the name of a file, and not be mistaken for a cut one? */
static bool is_plain(struct bytes component)
{
	if (component.size == 0 || is_dots(component) || !utf8_valid(component))
		return false;
	for (size_t at = 0; at < component.size; at++)
		if (is_hidden((unsigned char)component.data[at]))
			return false;
	return !memmem(component.data, component.size, cut_sign.data, cut_sign.size);
}

static int append_escape(struct buf *name, unsigned char byte)
{
	static const char digits[] = "0123456789ABCDEF";
	const char escape[] = { '%', digits[byte >> 4], digits[byte & 15] };

	return buf_append(name, escape, sizeof(escape));
}

/* Append the escaped form, or so much of it as fits limit: then the answer is 1. */
static int escape(struct bytes component, size_t limit, struct buf *name)
{
	bool dots = is_dots(component);
	size_t used = 0, step;

	if (component.size == 0)
		return buf_append_byte(name, '%');
	for (size_t at = 0; at < component.size; at += step) {
		unsigned char byte = (unsigned char)component.data[at];
		size_t sequence = utf8_sequence(bytes_from(component, at));
		bool as_is = sequence > 0 && !is_hidden(byte) && byte != '%' && !dots;
		int r;

		step = as_is ? sequence : 1;
		used += as_is ? sequence : 3;
		if (used > limit)
			return 1;
		r = as_is ? buf_append(name, component.data + at, sequence) :
			    append_escape(name, byte);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Undo the escapes of a name in *component: 1; 0: it is not an escaped form.  The caller must still
 * compare, since escapes of bytes that need none are undone here too. */
static int unescape(enum names_scope scope, struct bytes name, struct buf *component)
{
	int r = 0;

	buf_clear(component);
	if (!bytes_equal(name, BYTES("%")))
		r = buf_append_decoded(component, name);
	if (r == -ENOMEM)
		return r;
	return r == 0 && (scope != NAMES_KEY || !component->size ||
			  !memchr(component->data, '/', component->size));
}

/* Is name == E(*component), with the component found?  1 or 0. */
static int is_form(enum names_scope scope, struct bytes name, struct buf *component)
{
	_cleanup_(buf_done) struct buf again = { 0 };
	int r = unescape(scope, name, component);

	if (r <= 0)
		return r;
	r = escape(buf_bytes(component), SIZE_MAX, &again);
	if (r < 0)
		return r;
	return bytes_equal(buf_bytes(&again), name);
}

/* escaped(name) of the essay above: 1 or 0. */
static int is_escaped(enum names_scope scope, struct bytes name)
{
	_cleanup_(buf_done) struct buf outer = { 0 };
	_cleanup_(buf_done) struct buf inner = { 0 };
	struct buf swap;

	for (;;) {
		int r;

		if (name.size == 0 || !memchr(name.data, '%', name.size))
			return 0;
		r = is_form(scope, name, &inner);
		if (r <= 0)
			return r;
		if (!is_plain(buf_bytes(&inner)))
			return 1;
		/* Plain is decided by the form within the form, which is shorter. */
		swap = outer;
		outer = inner;
		inner = swap;
		name = buf_bytes(&outer);
	}
}

/* ---- Encoding and decoding ---- */

static int append_cut(struct bytes component, size_t limit, struct buf *name)
{
	/* The key is not secret; it separates these digests from other uses. */
	static const char key[] = "sessfs-cut-name";
	char digest[DIGEST_TEXT];
	int r = escape(component, limit - CUT_SIZE, name);

	if (r >= 0)
		r = buf_append_bytes(name, cut_sign);
	digest_show(key, component, digest);
	return r < 0 ? r : buf_append_str(name, digest);
}

int names_encode(enum names_scope scope, struct bytes component, size_t limit, struct buf *name)
{
	size_t start = name->size;
	int r = 1;

	if (limit < NAME_LIMIT_MIN)
		return -EINVAL;
	if (component.size <= limit && is_plain(component)) {
		r = is_escaped(scope, component);
		if (r == 0)
			return buf_append_bytes(name, component);
	}
	if (r >= 0)
		r = escape(component, limit, name);
	if (r == 1) {
		name->size = start;
		r = append_cut(component, limit, name);
	}
	if (r < 0)
		name->size = start;
	return r;
}

/* The name itself; rows hold text, so bytes that are not text are spelt out. */
static int append_text(struct bytes name, struct buf *component)
{
	size_t step;

	for (size_t at = 0; at < name.size; at += step) {
		size_t sequence = utf8_sequence(bytes_from(name, at));
		int r = sequence ? buf_append(component, name.data + at, sequence) :
				   append_escape(component, (unsigned char)name.data[at]);

		if (r < 0)
			return r;
		step = sequence ? sequence : 1;
	}
	return 0;
}

int names_decode(enum names_scope scope, struct bytes name, struct buf *component)
{
	_cleanup_(buf_done) struct buf inner = { 0 };
	size_t start = component->size;
	int r = is_escaped(scope, name);

	if (r == 1) {
		r = unescape(scope, name, &inner);
		if (r >= 0)
			r = buf_append_bytes(component, buf_bytes(&inner));
	} else if (r == 0) {
		r = append_text(name, component);
	}
	if (r < 0)
		component->size = start;
	return r;
}

/* ---- Files and keys ---- */

static const struct {
	uint32_t kind;
	struct bytes suffix;
} views[] = {
	{ BACKEND_SINGLE, { ".json", 5 } },
	{ BACKEND_LIST, { ".jsonl", 6 } },
	{ BACKEND_HASH, { ".hash", 5 } },
};

struct bytes names_suffix(uint32_t kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		if (views[i].kind == kind)
			return views[i].suffix;
	}
	return BYTES("");
}

static struct bytes bytes_before(struct bytes bytes, struct bytes end)
{
	return bytes_make(bytes.data, bytes.size - end.size);
}

bool names_cut(struct bytes *path, struct bytes *ret_name)
{
	const char *slash = path->size ? memchr(path->data, '/', path->size) : NULL;

	*ret_name = *path;
	if (!slash)
		return false;
	ret_name->size = (size_t)(slash - path->data);
	*path = bytes_make(slash + 1, path->size - ret_name->size - 1);
	return true;
}

struct names_split names_split(struct bytes name)
{
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		struct bytes suffix = views[i].suffix;

		if (name.size > suffix.size && bytes_ends_with(name, suffix))
			return (struct names_split){ views[i].kind, bytes_before(name, suffix) };
	}
	return (struct names_split){ BACKEND_ORDINARY, name };
}

static bool has(struct bytes bytes, struct bytes part)
{
	return bytes.size && memmem(bytes.data, bytes.size, part.data, part.size);
}

/* Whether what follows the name of a state is the ending of a temporary file. */
static bool is_temporary_ending(struct bytes ending)
{
	return ending.size && !isalnum((unsigned char)ending.data[0]) &&
	       (has(ending, BYTES("tmp")) || has(ending, BYTES("temp"))) &&
	       !bytes_ends_with(ending, BYTES("lock"));
}

bool names_is_temporary(struct bytes name)
{
	static const struct bytes tmp = { ".tmp", 4 };

	if (names_split(name).kind != BACKEND_ORDINARY)
		return false;
	if (name.size > tmp.size && bytes_ends_with(name, tmp))
		return true;
	for (size_t at = 2; at < name.size; at++) {
		struct bytes before = bytes_make(name.data, at);

		if (names_split(before).kind != BACKEND_ORDINARY &&
		    is_temporary_ending(bytes_from(name, at)))
			return true;
	}
	return false;
}

bool names_number(struct bytes name, int64_t *ret_number)
{
	struct names_split split = names_split(name);
	int64_t number = 0, unit = 1;
	size_t left = split.stem.size;
	bool large = false;

	if (split.kind != BACKEND_SINGLE)
		return false;
	for (; left && split.stem.data[left - 1] >= '0' && split.stem.data[left - 1] <= '9';
	     left--) {
		int digit = split.stem.data[left - 1] - '0';
		int64_t more;

		if (digit && (large || __builtin_mul_overflow(unit, digit, &more) ||
			      __builtin_add_overflow(number, more, &number)))
			return false;
		large |= __builtin_mul_overflow(unit, 10, &unit);
	}
	if (left == split.stem.size)
		return false;
	*ret_number = number;
	return true;
}

/* Would the key of a single or list with this stem end in ":_hash", or look as if it were made
 * because of that? */
static bool is_hash_stem(struct bytes stem, struct bytes suffix)
{
	while (bytes_ends_with(stem, suffix))
		stem = bytes_before(stem, suffix);
	return bytes_ends_with(stem, names_hash_suffix);
}

int names_key(struct bytes dirs, struct bytes name, struct buf *key)
{
	struct names_split split = names_split(name);
	struct bytes suffix = names_suffix(split.kind);
	size_t start = key->size, stem;
	int r;

	if (split.kind == BACKEND_ORDINARY)
		return -EINVAL;
	r = buf_append_bytes(key, dirs);
	stem = key->size;
	if (r >= 0)
		r = names_decode(NAMES_KEY, split.stem, key);
	if (r >= 0 && split.kind == BACKEND_HASH)
		r = buf_append_bytes(key, names_hash_suffix);
	else if (r >= 0 && is_hash_stem(bytes_from(buf_bytes(key), stem), suffix))
		r = buf_append_bytes(key, suffix);
	if (r < 0)
		key->size = start;
	return r;
}

int names_own_key(struct bytes dirs, struct bytes name, unsigned attempt, struct buf *key)
{
	struct names_split split = names_split(name);
	size_t start = key->size;
	int r = buf_append_bytes(key, dirs);

	if (r >= 0)
		r = names_decode(NAMES_KEY, split.stem, key);
	if (r >= 0)
		r = buf_append_bytes(key, names_suffix(split.kind));
	if (r >= 0 && attempt)
		r = buf_printf(key, "~%u", attempt);
	if (r >= 0 && split.kind == BACKEND_HASH)
		r = buf_append_bytes(key, names_hash_suffix);
	if (r < 0)
		key->size = start;
	return r;
}

/* The stem that a file name shows for the last component of a key. */
static struct bytes stem_of(struct bytes last, uint32_t kind)
{
	struct bytes suffix = names_suffix(kind);

	if (kind == BACKEND_HASH) {
		if (bytes_ends_with(last, names_hash_suffix))
			return bytes_before(last, names_hash_suffix);
	} else if (bytes_ends_with(last, suffix) &&
		   is_hash_stem(bytes_before(last, suffix), suffix)) {
		return bytes_before(last, suffix);
	}
	return last;
}

static int append_file(struct bytes last, uint32_t kind, unsigned attempt, struct buf *name)
{
	struct bytes suffix = names_suffix(kind);
	char tail[16] = "";
	size_t limit;
	int r;

	if (attempt)
		snprintf(tail, sizeof(tail), "%s%u", cut_sign.data, attempt);
	limit = NAME_LIMIT - suffix.size - strlen(tail);
	r = names_encode(NAMES_KEY, stem_of(last, kind), limit, name);
	if (r >= 0)
		r = buf_append_str(name, tail);
	if (r >= 0)
		r = buf_append_bytes(name, suffix);
	return r;
}

int names_path(struct bytes key, uint32_t kind, unsigned attempt, names_component_fn *component,
	       void *arg)
{
	_cleanup_(buf_done) struct buf name = { 0 };
	const char *slash;
	int r;

	if (names_suffix(kind).size == 0)
		return -EINVAL;
	while (key.size && (slash = memchr(key.data, '/', key.size))) {
		size_t size = (size_t)(slash - key.data);

		buf_clear(&name);
		r = names_encode(NAMES_KEY, bytes_make(key.data, size), NAME_LIMIT, &name);
		if (r >= 0)
			r = component(arg, buf_bytes(&name), false);
		if (r)
			return r;
		key = bytes_from(key, size + 1);
	}
	buf_clear(&name);
	r = append_file(key, kind, attempt, &name);
	return r < 0 ? r : component(arg, buf_bytes(&name), true);
}
