/* SPDX-License-Identifier: MIT */
#include "src/cmd/past.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "fs/base/names.h"
#include "src/user/say.h"
#include "src/user/units.h"

void past_place_done(struct past_place *place)
{
	free(place->session);
	free(place->key);
	*place = (struct past_place){ 0 };
}

struct bytes past_key(const struct past_place *place)
{
	return place->key ? bytes_str(place->key) : (struct bytes){ 0 };
}

static int found_key(void *arg, struct bytes session, struct bytes key,
		     const struct backend_key_stat *stat)
{
	(void)session;
	(void)key;
	(void)stat;
	*(bool *)arg = true;
	return 1;
}

struct looking {
	struct bytes session;
	struct bytes key; /* data NULL: any */
	bool found;
};

static int found_past(void *arg, const struct backend_past_key *key)
{
	struct looking *looking = arg;

	if (key->ino || !bytes_equal(key->session, looking->session))
		return 1;
	looking->found = !looking->key.data || bytes_equal(key->key, looking->key);
	return looking->found;
}

/* Whether it has rows, or had some. */
static int is_there(struct backend *backend, struct backend_snapshot *snapshot,
		    struct bytes session, struct bytes key, bool *ret_there)
{
	const struct backend_past_key before = { 0, session, BYTES("") };
	struct looking looking = { .session = session, .key = key };
	const struct bytes all = { 0 };
	struct backend_key_stat stat;
	int r;

	if (key.data) {
		r = backend->ops->key_stat(backend, snapshot, session, key, &stat);
		looking.found = r == 0;
		r = r == -ENOENT ? 0 : r;
	} else {
		r = backend_session_keys(backend, snapshot, session, all, found_key,
					 &looking.found);
	}
	if (r == 0 && !looking.found)
		r = backend_past_keys(backend, snapshot, &before, found_past, &looking);
	*ret_there = looking.found;
	return r;
}

static int split(struct backend *backend, struct backend_snapshot *snapshot, const char *name,
		 size_t slash, struct past_place *place)
{
	const struct bytes session = bytes_make(name, slash);
	struct bytes key = bytes_str(name + slash + 1);
	struct names_split file = names_split(key);
	_cleanup_(freep) char *hash = NULL;
	bool there = false;
	int r = is_there(backend, snapshot, session, key, &there);

	if (r == 0 && !there && file.stem.size < key.size) {
		hash = str_printf("%.*s:_hash", (int)file.stem.size, file.stem.data);
		key = file.kind == BACKEND_HASH && hash ? bytes_str(hash) : file.stem;
		r = is_there(backend, snapshot, session, key, &there);
	}
	if (r < 0 || !there)
		return r;
	place->session = bytes_dup(session);
	place->key = bytes_dup(key);
	return place->session && place->key ? 1 : -ENOMEM;
}

int past_find(char **operands, const struct options *options, bool writes,
	      struct backend **ret_backend, struct past_place *ret_place)
{
	const struct backend_options wanted = { .table = options->table, .rows_only = true };
	const char *store = operands[0], *name = operands[1];
	_cleanup_(store_look_done) struct store_look look = { 0 };
	_cleanup_(freep) char *why = NULL;
	bool there = false;
	int r;

	if (!writes) {
		r = store_open_backend(store, options, NULL, ret_backend);
	} else {
		r = backend_open(store, &wanted, ret_backend, &why);
		if (r < 0)
			say_why(why, r);
		else if (!(*ret_backend)->ops->history)
			return log_fail(-EOPNOTSUPP, "%s: this kind of store keeps no history",
					store);
	}
	if (r < 0)
		return r;
	r = store_look(*ret_backend, 0, &look);
	if (r == 0)
		r = is_there(*ret_backend, look.snapshot, bytes_str(name), (struct bytes){ 0 },
			     &there);
	if (r == 0 && there)
		ret_place->session = strdup(name);
	for (size_t at = strlen(name); r == 0 && !there && at--;)
		if (name[at] == '/')
			r = split(*ret_backend, look.snapshot, name, at, ret_place);
	if (r < 0)
		log_error("%s cannot be read: %s", store, strerror(-r));
	else if (!ret_place->session)
		log_error("%s: there is no session %s, nor has the history one", store, name);
	return r < 0 ? r : ret_place->session ? 0 : -ENOENT;
}

const char *past_show_time(int64_t time, char text[PAST_TIME])
{
	const struct timespec split_time = time_split(time);
	struct tm utc;
	size_t size;

	gmtime_r(&split_time.tv_sec, &utc);
	size = strftime(text, PAST_TIME, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + size, PAST_TIME - size, ".%03ldZ", split_time.tv_nsec / 1000000);
	return text;
}

static int take_time(int64_t *time, const char *value, int64_t least, char **ret_why)
{
	int64_t age;
	const bool is_age = units_age(value, &age) == 0;

	if (is_age)
		*time = time_now() - age;
	return (is_age || moment_exact(bytes_str(value), time)) && *time >= least ?
		       0 :
		       str_explain(ret_why, -EINVAL,
				   "'%s' is not a time: it takes one of UTC as in "
				   "2026-01-31T18:30, or an age as in 2h",
				   value);
}

int past_take_time(void *field, const char *value, char **ret_why)
{
	return take_time(field, value, 1, ret_why);
}

int past_take_since(void *field, const char *value, char **ret_why)
{
	return take_time(field, value, INT64_MIN, ret_why);
}

int past_take_items(void *field, const char *value, char **ret_why)
{
	struct past_items *items = field;
	uint64_t first = 0, last;
	char *end;
	int r = units_number(value, 10, INT64_MAX, &first, &end);

	last = r == 0 && *end == '-' ? INT64_MAX : first;
	if (r == 0 && *end == '-' && *++end)
		r = units_number(end, 10, INT64_MAX, &last, &end);
	if (r < 0 || *end || last < first)
		return str_explain(
			ret_why, -EINVAL,
			"'%s' are no items: it takes indexes from 0 as in 0-39, 40- or 7", value);
	*items = (struct past_items){ true, (int64_t)first, (int64_t)last };
	return 0;
}
