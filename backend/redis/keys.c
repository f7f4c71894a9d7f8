/* SPDX-License-Identifier: MIT */
/* Which keys there are, and their rows. */
#include "backend/redis/keys.h"

#include <errno.h>
#include <stdlib.h>

#include "backend/redis/read.h"
#include "backend/redis/slots.h"
#include "backend/base/array.h"
#include "backend/base/cleanup.h"
#include "backend/base/log.h"

enum { SCAN_COUNT = 10000, SESSIONS_PAGE = 128, KEYS_PAGE = 256, ROWS_BYTES = 1 << 20 };

static const struct bytes list_suffix = { ":list", 5 };
static const struct bytes hash_suffix = { ":_hash", 6 };

/* Rows. */

struct rows_wanted {
	int64_t from;
	bool back;
	uint64_t most;
};

static int ask_rows(struct reading *reading, struct bytes session, struct bytes key,
		    const struct rows_wanted *wanted)
{
	/* Numbers of Lua are exact so far, and no list has more. */
	const int64_t exact = INT64_C(1) << 53;

	call_request(&reading->call, wanted->back ? "back" : "rows");
	reading_group(reading, session, key);
	call_number(&reading->call, MAX(MIN(wanted->from, exact), -exact));
	call_number(&reading->call, (int64_t)MIN(wanted->most, (uint64_t)exact));
	call_number(&reading->call, ROWS_BYTES);
	call_number(&reading->call, snapshot_clip(reading->snapshot, session, key));
	return reading_ask(reading);
}

/* One page of them; *ret_next: where the next one begins, as long as there is more. */
static int hand_rows(struct reading *reading, struct bytes session, struct bytes key,
		     struct rows_wanted *wanted, bool *ret_more, backend_row_fn *fn, void *arg)
{
	const struct reply *found = reading_answer(reading, 0);
	const int64_t size =
		snapshot_see(reading->snapshot, session, key, reply_number(reply_at(found, 1)));
	int64_t at = wanted->back ? MIN(wanted->from, size - 1) : MAX(wanted->from, 0);
	const size_t count = found->count > 2 ? found->count - 2 : 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct reply *row = reply_at(found, i + 2);

		if (row->type != REPLY_TEXT)
			break;
		r = fn(arg, at, reply_bytes(row));
		at += wanted->back ? -1 : 1;
		wanted->most--;
	}
	wanted->from = at;
	*ret_more = r == 0 && count && wanted->most && at >= 0 && at < size &&
		    !reply_is(reply_at(found, 0), "s");
	return r;
}

static int read_rows(struct backend *backend, struct backend_snapshot *snapshot,
		     struct bytes session, struct bytes key, struct rows_wanted wanted,
		     backend_row_fn *fn, void *arg)
{
	bool more = wanted.most > 0;
	int r = 0;

	while (r == 0 && more) {
		struct reading reading = reading_in(backend, snapshot);

		r = ask_rows(&reading, session, key, &wanted);
		if (r == 0)
			r = hand_rows(&reading, session, key, &wanted, &more, fn, arg);
		reading_done(&reading);
	}
	return MIN(r, 0);
}

int redis_row_read(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		   struct bytes key, int64_t first, backend_row_fn *fn, void *arg)
{
	return read_rows(backend, snapshot, session, key,
			 (struct rows_wanted){ .from = first, .most = UINT64_MAX }, fn, arg);
}

int redis_row_read_back(struct backend *backend, struct backend_snapshot *snapshot,
			struct bytes session, struct bytes key, int64_t last, uint64_t most,
			backend_row_fn *fn, void *arg)
{
	if (last < 0)
		return 0;
	return read_rows(backend, snapshot, session, key,
			 (struct rows_wanted){ .from = last, .back = true, .most = most }, fn, arg);
}

bool redis_take_stat(struct backend_snapshot *snapshot, const struct reply *found,
		     struct bytes session, struct bytes key, struct backend_key_stat *ret_stat)
{
	int64_t size = reply_number(reply_at(found, 1));
	bool list = reply_is(reply_at(found, 0), "l");

	if (list)
		size = snapshot_see(snapshot, session, key, size);
	*ret_stat = (struct backend_key_stat){ .last = size - 1, .list = list };
	return size > 0;
}

int redis_key_stat(struct backend *backend, struct backend_snapshot *snapshot, struct bytes session,
		   struct bytes key, struct backend_key_stat *ret_stat)
{
	struct reading reading = reading_in(backend, snapshot);
	int r;

	call_request(&reading.call, "stat");
	reading_group(&reading, session, key);
	r = reading_ask(&reading);
	if (r == 0 &&
	    !redis_take_stat(snapshot, reading_answer(&reading, 0), session, key, ret_stat))
		r = -ENOENT;
	reading_done(&reading);
	return r;
}

/* Sessions. */

void keys_found_free(struct keys_found *found)
{
	if (!found)
		return;
	for (size_t i = 0; i < found->count; i++)
		free(found->sessions[i]);
	free(found->sessions);
	free(found);
}

static struct bytes text_at(char *const *texts, size_t i)
{
	uint32_t size;

	memcpy(&size, texts[i], sizeof(size));
	return bytes_make(texts[i] + sizeof(size), size);
}

static char *text_make(struct bytes text)
{
	const uint32_t size = (uint32_t)text.size;
	char *made = malloc(sizeof(size) + size + 1);

	if (!made)
		return NULL;
	memcpy(made, &size, sizeof(size));
	if (size)
		memcpy(made + sizeof(size), text.data, size);
	return made;
}

static int compare_texts(const void *a, const void *b)
{
	return bytes_compare(text_at(a, 0), text_at(b, 0));
}

/* In their order, each once. */
static void sort_texts(char **texts, size_t *count)
{
	size_t kept = 0;

	if (*count)
		qsort(texts, *count, sizeof(*texts), compare_texts);
	for (size_t i = 0; i < *count; i++) {
		if (kept && bytes_equal(text_at(texts, kept - 1), text_at(texts, i)))
			free(texts[i]);
		else
			texts[kept++] = texts[i];
	}
	*count = kept;
}

/* A text in which nothing stands for something else. */
static int append_escaped(struct buf *buf, const char *text)
{
	int r = 0;

	for (; r == 0 && *text; text++) {
		if (strchr("*?[]\\^", *text))
			r = buf_append_byte(buf, '\\');
		if (r == 0)
			r = buf_append_byte(buf, *text);
	}
	return r;
}

int redis_scan(struct redis *store, const char *begins, const char *ends,
	       int (*fn)(void *arg, struct bytes key), void *arg)
{
	_cleanup_(buf_done) struct buf pattern = { 0 };
	_cleanup_(buf_done) struct buf cursor = { 0 };
	int r = append_escaped(&pattern, begins);

	if (r == 0)
		r = buf_printf(&pattern, "*%s", ends);
	if (r == 0)
		r = buf_append_str(&cursor, "0");
	do {
		_cleanup_(words_done) struct words words = { 0 };
		_cleanup_(reply_done) struct reply reply = { 0 };
		const struct reply *keys;

		words_str(&words, "SCAN");
		words_add(&words, buf_bytes(&cursor));
		words_str(&words, "MATCH");
		words_add(&words, buf_bytes(&pattern));
		words_str(&words, "COUNT");
		words_number(&words, SCAN_COUNT);
		if (r == 0)
			r = redis_ask_words(store, &words, &reply);
		keys = reply_at(&reply, 1);
		for (size_t i = 0; r == 0 && i < keys->count; i++)
			r = fn(arg, reply_bytes(reply_at(keys, i)));
		buf_clear(&cursor);
		if (r == 0)
			r = buf_append_bytes(&cursor, reply_bytes(reply_at(&reply, 0)));
	} while (r == 0 && !bytes_equal(buf_bytes(&cursor), BYTES("0")));
	return r;
}

struct scanning {
	struct keys_found *found;
	size_t before, behind; /* the parts of a key around the session */
};

static int take_session(void *arg, struct bytes key)
{
	struct scanning *scanning = arg;
	struct keys_found *found = scanning->found;
	const size_t around = scanning->before + scanning->behind;
	char *session;

	if (key.size < around)
		return 0;
	session = text_make(bytes_make(key.data + scanning->before, key.size - around));
	if (!session || ARRAY_ROOM(found->sessions, found->count, found->room) < 0) {
		free(session);
		return -ENOMEM;
	}
	found->sessions[found->count++] = session;
	return 0;
}

struct naming {
	size_t before, behind;
	backend_name_fn *fn;
	void *arg;
};

static int hand_session(void *arg, struct bytes key)
{
	const struct naming *naming = arg;
	const size_t around = naming->before + naming->behind;

	return key.size < around ? 0 :
				   naming->fn(naming->arg, bytes_make(key.data + naming->before,
								      key.size - around));
}

int redis_session_names(struct backend *backend, backend_name_fn *fn, void *arg)
{
	struct redis *store = redis_of(backend);
	struct naming naming = { strlen(store->prefix), strlen(":_keys"), fn, arg };

	return redis_scan(store, store->prefix, ":_keys", hand_session, &naming);
}

static int find_sessions(struct backend *backend, struct backend_snapshot *snapshot)
{
	struct redis *store = redis_of(backend);
	struct scanning scanning = { .behind = strlen(":_keys") };
	struct reading reading = reading_in(backend, snapshot);
	int r = reading_ask(&reading); /* that it has begun */

	reading_done(&reading);
	if (r < 0 || snapshot->keys)
		return r;
	scanning.found = calloc(1, sizeof(*scanning.found));
	if (!scanning.found)
		return -ENOMEM;
	scanning.before = strlen(store->prefix);
	r = redis_scan(store, store->prefix, ":_keys", take_session, &scanning);
	snapshot->keys = scanning.found;
	sort_texts(scanning.found->sessions, &scanning.found->count);
	return r;
}

/* Keys of some sessions. */

struct key_page {
	struct found_key {
		struct bytes session;
		char *key;
	} * keys;
	size_t count, room;
};

static void key_page_done(struct key_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		free(page->keys[i].key);
	free(page->keys);
	*page = (struct key_page){ 0 };
}

static int add_key(struct key_page *page, struct bytes session, struct bytes key,
		   struct bytes suffix)
{
	_cleanup_(buf_done) struct buf buf = { 0 };
	char *made = NULL;
	int r = buf_append_bytes(&buf, key);

	if (r == 0)
		r = buf_append_bytes(&buf, suffix);
	if (r == 0)
		made = text_make(buf_bytes(&buf));
	if (!made || ARRAY_ROOM(page->keys, page->count, page->room) < 0) {
		free(made);
		return -ENOMEM;
	}
	page->keys[page->count++] = (struct found_key){ session, made };
	return 0;
}

/* What a member of a session's set may mean; each is asked for. */
static int add_member(struct key_page *page, struct bytes session, struct bytes member)
{
	const struct bytes none = { 0 };
	struct bytes base = member;
	int r = 0;

	if (bytes_ends_with(member, list_suffix)) {
		base.size -= list_suffix.size;
		r = add_key(page, session, base, none);
		if (r == 0)
			r = add_key(page, session, base, hash_suffix);
	}
	return r < 0 || call_is_sidecar(member) ? r : add_key(page, session, member, none);
}

static int compare_keys(const void *a, const void *b)
{
	const struct found_key *one = a, *two = b;
	int order = bytes_compare(one->session, two->session);

	return order ? order : bytes_compare(text_at(&one->key, 0), text_at(&two->key, 0));
}

static int read_members(struct backend *backend, struct backend_snapshot *snapshot,
			const struct bytes *sessions, size_t count, struct key_page *page)
{
	struct reading reading = reading_in(backend, snapshot);
	int r;

	for (size_t i = 0; i < count; i++) {
		call_request(&reading.call, "members");
		/* The empty key has the same set, and is compared with nothing. */
		call_number(&reading.call,
			    (int64_t)call_group(&reading.call, sessions[i], BYTES(""), "c"));
	}
	r = reading_ask(&reading);
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct reply *members = reading_answer(&reading, i);

		for (size_t j = 0; r == 0 && j < members->count; j++)
			r = add_member(page, sessions[i], reply_bytes(reply_at(members, j)));
	}
	reading_done(&reading);
	if (page->count)
		qsort(page->keys, page->count, sizeof(*page->keys), compare_keys);
	return r;
}

static void warn_of(const struct redis *store, struct bytes session, struct bytes key,
		    const struct reply *flag)
{
	if (reply_is(flag, "a"))
		log_warning("%s: the key %.*s:%.*s is that of two sessions, or of two keys; it is "
			    "not shown",
			    store->place, (int)session.size, session.data, (int)key.size, key.data);
	if (reply_is(flag, "b"))
		log_warning(
			"%s: the session %.*s has a list and a single state %.*s; only the list "
			"is shown",
			store->place, (int)session.size, session.data, (int)key.size, key.data);
}

static int hand_keys(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct found_key *keys, size_t count, backend_key_fn *fn, void *arg)
{
	struct reading reading = reading_in(backend, snapshot);
	int r;

	for (size_t i = 0; i < count; i++) {
		call_request(&reading.call, "stat");
		call_number(&reading.call, (int64_t)call_group(&reading.call, keys[i].session,
							       text_at(&keys[i].key, 0), "c"));
	}
	r = reading_ask(&reading);
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct reply *found = reading_answer(&reading, i);
		const struct bytes key = text_at(&keys[i].key, 0);
		struct backend_key_stat stat;

		warn_of(redis_of(backend), keys[i].session, key, reply_at(found, 2));
		if (redis_take_stat(snapshot, found, keys[i].session, key, &stat))
			r = fn(arg, keys[i].session, key, &stat);
	}
	reading_done(&reading);
	return r;
}

static bool is_behind(const struct found_key *key, struct bytes after_session,
		      struct bytes after_key)
{
	int order = after_session.data ? bytes_compare(key->session, after_session) : 1;

	return order > 0 || (order == 0 && (!after_key.data ||
					    bytes_compare(text_at(&key->key, 0), after_key) > 0));
}

/* The keys of some sessions behind one. */
static int list_some(struct backend *backend, struct backend_snapshot *snapshot,
		     const struct bytes *sessions, size_t count, struct bytes after_session,
		     struct bytes after_key, backend_key_fn *fn, void *arg)
{
	struct found_key keys[KEYS_PAGE];
	struct key_page page = { 0 };
	size_t some = 0;
	int r = read_members(backend, snapshot, sessions, count, &page);

	for (size_t i = 0; r == 0 && i < page.count; i++) {
		bool twice = i && compare_keys(&page.keys[i - 1], &page.keys[i]) == 0;

		if (!twice && is_behind(&page.keys[i], after_session, after_key))
			keys[some++] = page.keys[i];
		if (some == KEYS_PAGE || (i + 1 == page.count && some)) {
			r = hand_keys(backend, snapshot, keys, some, fn, arg);
			some = 0;
		}
	}
	key_page_done(&page);
	return r;
}

int redis_key_list(struct backend *backend, struct backend_snapshot *snapshot,
		   struct bytes after_session, struct bytes after_key, backend_key_fn *fn,
		   void *arg)
{
	struct bytes sessions[SESSIONS_PAGE];
	size_t i = 0, count;
	int r = snapshot->keys ? 0 : find_sessions(backend, snapshot);
	const struct keys_found *found = snapshot->keys;

	if (r < 0)
		return r;
	while (after_session.data && i < found->count &&
	       bytes_compare(text_at(found->sessions, i), after_session) < 0)
		i++;
	while (r == 0 && i < found->count) {
		for (count = 0; count < SESSIONS_PAGE && i < found->count; count++, i++)
			sessions[count] = text_at(found->sessions, i);
		r = list_some(backend, snapshot, sessions, count, after_session, after_key, fn,
			      arg);
	}
	return MIN(r, 0);
}

int redis_session_keys(struct backend *backend, struct backend_snapshot *snapshot,
		       struct bytes session, struct bytes after_key, backend_key_fn *fn, void *arg)
{
	return MIN(list_some(backend, snapshot, &session, 1, session, after_key, fn, arg), 0);
}
