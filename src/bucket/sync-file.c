/* SPDX-License-Identifier: MIT */
/* What is to be done about one file and its objects. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "fs/base/json.h"
#include "src/bucket/sync.h"
#include "src/exchange/document.h"
#include "src/exchange/import.h"

enum { BLOCK = 256 << 10, OBJECT_MAX = 256 << 20 };

enum move {
	MOVE_NONE,
	MOVE_SAME, /* only to be kept in mind */
	MOVE_UP,
	MOVE_DOWN,
	MOVE_DROP_THERE,
	MOVE_DROP_HERE,
	MOVE_COMPARE,
	MOVE_CONFLICT,
};

/* An item's part of the file, and what there is of its object. */
struct piece {
	struct bytes here;
	char md5[S3_HASH];
	bool is_here, fetched;
	bool failed; /* which was said */
	bool replaces;
	struct buf there; /* as the file has it */
	enum move move;
};

struct work {
	struct sync *sync;
	struct task *task;
	struct buf local;
	struct bytes tail;
	struct piece *pieces; /* as task->items */
};

static void work_done(struct work *work)
{
	for (size_t i = 0; work->pieces && i < work->task->count; i++)
		buf_done(&work->pieces[i].there);
	free(work->pieces);
	buf_done(&work->local);
}

/* ---- Content ---- */

static int read_local(struct work *work)
{
	struct sync *sync = work->sync;
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	size_t before;
	int r;

	if (work->task->stamp.size < 0)
		return 0;
	pthread_mutex_lock(&sync->lock);
	r = access_file_open(sync->access, work->task->path, ACCESS_FILE_READ, &file);
	if (r == -ENOENT)
		work->task->stamp.size = -1;
	do {
		before = work->local.size;
		if (r == 0)
			r = access_file_read(file, BLOCK, &work->local);
	} while (r == 0 && work->local.size > before && work->local.size <= OBJECT_MAX);
	access_file_drop(file);
	file = NULL;
	pthread_mutex_unlock(&sync->lock);
	return r == -ENOENT ? 0 : r;
}

/* Whether a text is what an object of this form holds: JSON, or lines of it. */
static bool is_sound(enum bucket_form form, struct bytes text)
{
	const char *end;

	if (form == FORM_DOCUMENT)
		return json_valid(text, NULL);
	while (form != FORM_TEXT && text.size) {
		end = memchr(text.data, '\n', text.size);
		end = end ? end + 1 : text.data + text.size;
		if (!json_valid(bytes_make(text.data, (size_t)(end - text.data)), NULL))
			return false;
		text = bytes_make(end, text.size - (size_t)(end - text.data));
	}
	return true;
}

/* An object, as the file has it; -EINVAL: it is not of this form. */
static int to_file(enum bucket_form form, struct buf *object)
{
	_cleanup_(buf_done) struct buf array = { 0 };
	struct bytes text;

	if (form == FORM_LIST) {
		array = *object;
		*object = (struct buf){ 0 };
		text = buf_bytes(&array);
		while (text.size && strchr(" \t\r\n", *text.data))
			text = bytes_make(text.data + 1, text.size - 1);
		return json_valid(text, NULL) && *text.data == '[' ?
			       document_content(text, object) :
			       -EINVAL;
	}
	if (form == FORM_PARTS && object->size && object->data[object->size - 1] != '\n' &&
	    buf_append_byte(object, '\n') < 0)
		return -ENOMEM;
	return is_sound(form, buf_bytes(object)) ? 0 : -EINVAL;
}

/* The lines of a list, as its object has them. */
static int to_array(struct bytes text, struct buf *object)
{
	int r = buf_append_byte(object, '[');

	while (r == 0 && text.size) {
		const char *end = memchr(text.data, '\n', text.size);
		const size_t size = end ? (size_t)(end - text.data) : text.size;

		if (object->size > 1)
			r = buf_append_byte(object, ',');
		if (r == 0)
			r = buf_append(object, text.data, size);
		text.data += size + (end != NULL);
		text.size -= size + (end != NULL);
	}
	return r < 0 ? r : buf_append_byte(object, ']');
}

/* ---- Objects ---- */

/* 1, or -ENOMEM. */
static int refuse(struct work *work, const struct item *item, const char *why)
{
	struct sync *sync = work->sync;
	int r;

	pthread_mutex_lock(&sync->lock);
	r = copier_refuse(&sync->copier, "s3://%s/%.*s: %s", sync->bucket->name,
			  (int)item->key.size, item->key.data, why);
	pthread_mutex_unlock(&sync->lock);
	return r < 0 ? r : 1;
}

/* One request about the object: 0; 1: it is not there any more, or was refused; -EEXIST: a
 * condition does not hold; or -errno after a sentence when going on is useless. */
static int object_ask(struct work *work, const struct item *item, struct s3_request *request)
{
	const struct bucket *bucket = work->sync->bucket;
	int r;

	request->key = buf_bytes(&item->key);
	r = bucket->ops->perform(bucket->s3, request);
	if (r == -EFBIG || r == -EINVAL)
		return refuse(work, item, request->why);
	return r == -ENOENT ? 1 : r < 0 && r != -EEXIST ? say_why(request->why, r) : r;
}

/* The object as the file has it: as object_ask(). */
static int fetch(struct work *work, struct item *item, struct piece *piece)
{
	_cleanup_(s3_request_done) struct s3_request request = { .method = "GET" };
	const uint64_t size = item->size;
	int r = 0;

	if (piece->fetched)
		return 0;
	if (size > OBJECT_MAX)
		return refuse(work, item, "it is larger than 256 MiB, so it is left out");
	for (uint64_t at = 0; r == 0 && (at < size || !at); at += BUCKET_RANGE) {
		s3_request_done(&request);
		if (size <= BUCKET_RANGE) {
			request = (struct s3_request){ .method = "GET", .limit = OBJECT_MAX };
			r = object_ask(work, item, &request);
		} else {
			r = bucket_range(work->sync->bucket, buf_bytes(&item->key), item->etag, at,
					 &request);
			r = r < 0 && r != -EEXIST ? say_why(request.why, r) : r;
		}
		if (r == 0)
			r = buf_append_bytes(&piece->there, buf_bytes(&request.data));
		snprintf(item->etag, sizeof(item->etag), "%s", request.etag);
	}
	if (r == -EEXIST)
		return refuse(work, item,
			      "it has changed while it was read; the next run takes it");
	if (r == 0)
		r = to_file(work->task->form, &piece->there);
	piece->fetched = r == 0;
	return r == -EINVAL ?
		       refuse(work, item, "it is not JSON of this layout, so it is left out") :
		       r;
}

/* Whether the object is what the file has: 1 or 0; the ETag, mostly the MD5, may say so. */
static int compare(struct work *work, struct item *item, struct piece *piece)
{
	int r;

	if (work->task->form != FORM_LIST && *piece->md5 && strcmp(piece->md5, item->etag) == 0)
		return 1;
	r = fetch(work, item, piece);
	piece->failed = r == 1;
	return r != 0 ? MIN(r, 0) : bytes_equal(buf_bytes(&piece->there), piece->here);
}

static int put(struct work *work, struct item *item, struct piece *piece)
{
	_cleanup_(buf_done) struct buf array = { 0 };
	_cleanup_(freep) char *match = *item->etag ? str_printf("If-Match: \"%s\"", item->etag) :
						     strdup("If-None-Match: *");
	_cleanup_(s3_request_done) struct s3_request put = { .method = "PUT",
							     .headers = { match } };
	_cleanup_(s3_request_done) struct s3_request head = { .method = "HEAD" };
	int r = match ? 0 : -ENOMEM;

	piece->move = MOVE_NONE;
	if (!is_sound(work->task->form, piece->here))
		return refuse(work, item, "its file is not JSON, so it is not exported");
	if (r == 0 && work->task->form == FORM_LIST)
		r = to_array(piece->here, &array);
	put.body = work->task->form == FORM_LIST ? buf_bytes(&array) : piece->here;
	if (r == 0)
		r = object_ask(work, item, &put);
	if (r == 0)
		piece->move = MOVE_UP;
	snprintf(item->etag, sizeof(item->etag), "%s", put.etag);
	if (r != -EEXIST && !(r == 1 && put.status == 404))
		return r;
	/* Another one was faster, or our own first try was carried out and its answer lost. */
	piece->move = MOVE_CONFLICT;
	piece->fetched = false;
	r = object_ask(work, item, &head);
	snprintf(item->etag, sizeof(item->etag), "%s", head.etag);
	item->size = head.size;
	if (r == 0)
		r = compare(work, item, piece);
	if (r == 1 && *head.etag && !piece->failed)
		piece->move = MOVE_SAME;
	return MIN(r, 0);
}

static int drop_there(struct work *work, struct item *item)
{
	_cleanup_(s3_request_done) struct s3_request request = { .method = "DELETE" };
	int r = object_ask(work, item, &request);

	if (r >= 0)
		item->etag[0] = '\0';
	return r;
}

/* ---- What is to be done ---- */

static enum move judge_move(const struct sync *sync, const struct item *item,
			    const struct piece *piece)
{
	const bool known = *item->known_etag, there = *item->etag, here = piece->is_here;
	const bool there_changed = strcmp(item->etag, item->known_etag) != 0;
	const bool here_changed = !*piece->md5 || strcmp(piece->md5, item->known_md5) != 0;

	if (!here && !there)
		return known ? MOVE_SAME : MOVE_NONE;
	if (here && there && known && !(here_changed && there_changed))
		return here_changed  ? (sync->up ? MOVE_UP : MOVE_NONE) :
		       there_changed ? (sync->up ? MOVE_NONE : MOVE_DOWN) :
				       MOVE_SAME;
	if (here && there)
		return MOVE_COMPARE;
	if (!known)
		return here == sync->up ? (here ? MOVE_UP : MOVE_DOWN) : MOVE_NONE;
	/* It is gone on one side. */
	if (here ? here_changed : there_changed)
		return here == sync->up || sync->drop ? MOVE_CONFLICT : MOVE_NONE;
	if (here == sync->up || !sync->drop)
		return MOVE_NONE;
	return here ? MOVE_DROP_HERE : MOVE_DROP_THERE;
}

/* So many lines from the beginning of a text. */
static struct bytes cut_lines(struct bytes *text, int64_t lines)
{
	const char *begun = text->data, *end;

	while (lines-- > 0 && text->size) {
		end = memchr(text->data, '\n', text->size);
		end = end ? end + 1 : text->data + text->size;
		*text = bytes_make(end, text->size - (size_t)(end - text->data));
	}
	return bytes_make(begun, text->data ? (size_t)(text->data - begun) : 0);
}

static int64_t count_lines(struct bytes text)
{
	int64_t lines = 0;

	for (; text.size; lines++)
		cut_lines(&text, 1);
	return lines;
}

/* The object of a file that has none yet, or of lines that no part has. */
static int name_new(struct work *work, struct item *item)
{
	const struct task *task = work->task;
	int64_t now = time_now() / 1000000;
	enum bucket_form form;
	uint32_t random = 0;
	int r = buf_append_bytes(&item->key, buf_bytes(&work->sync->plan.base));

	if (r == 0)
		r = layout_key_of(work->sync->layout, work->sync->plan.root, bytes_str(task->path),
				  &item->key, &form);

	/* Behind all others, by its name. */
	for (size_t i = 0; i + 1 < task->count; i++) {
		const char *part = memmem(task->items[i].key.data, task->items[i].key.size,
					  "/part-", strlen("/part-"));

		now = MAX(now, part ? strtoll(part + strlen("/part-"), NULL, 10) + 1 : 0);
	}
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	if (r == 1 && form == FORM_PARTS)
		r = buf_printf(&item->key, "part-%013lld-%06x.jsonl", (long long)now,
			       random & 0xffffff);
	return MIN(r, 0);
}

static int add_new(struct work *work, struct bytes here)
{
	struct piece *piece = &work->pieces[work->task->count];
	struct item *item;
	int r = task_add(work->task, &item);

	if (r == 0)
		r = name_new(work, item);
	*piece = (struct piece){ .here = here, .is_here = true };
	work->sync->bucket->ops->md5(here, piece->md5);
	return r;
}

/* Which part of the file belongs to which object. */
static int split(struct work *work)
{
	struct task *task = work->task;
	struct bytes rest = buf_bytes(&work->local);
	const bool parts = task->form == FORM_PARTS, is_here = task->stamp.size >= 0;
	int r = 0;

	work->pieces = calloc(task->count + 1, sizeof(*work->pieces));
	if (!work->pieces)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < task->count; i++) {
		struct item *item = &task->items[i];
		struct piece *piece = &work->pieces[i];

		piece->is_here = is_here;
		piece->here = !parts ? rest : cut_lines(&rest, item->lines);
		/* Lines that another run has exported may be here already. */
		if (parts && !*item->known_etag) {
			r = fetch(work, item, piece);
			piece->failed = r == 1;
			piece->is_here = r == 0 && piece->there.size &&
					 bytes_starts_with(rest, buf_bytes(&piece->there));
			if (piece->is_here)
				piece->here =
					cut_lines(&rest, count_lines(buf_bytes(&piece->there)));
		}
		work->sync->bucket->ops->md5(piece->here, piece->md5);
	}
	work->tail = parts ? rest : bytes_make(NULL, 0);
	while (parts && rest.size && rest.data[rest.size - 1] != '\n')
		rest.size--;
	if (r >= 0 && is_here && work->sync->up && (parts ? rest.size : !task->count)) {
		if (parts)
			work->tail = bytes_make(rest.data + rest.size, work->tail.size - rest.size);
		r = add_new(work, rest);
	}
	return MIN(r, 0);
}

static int act(struct work *work, struct item *item, struct piece *piece)
{
	int r = 0;

	piece->replaces = piece->is_here && *item->etag;
	piece->move = piece->failed ? MOVE_NONE : judge_move(work->sync, item, piece);
	if (piece->move == MOVE_COMPARE) {
		r = compare(work, item, piece);
		piece->move = piece->failed ? MOVE_NONE : r == 1 ? MOVE_SAME : MOVE_CONFLICT;
		return MIN(r, 0);
	}
	if (work->sync->dry)
		return 0;
	if (piece->move == MOVE_UP)
		r = put(work, item, piece);
	else if (piece->move == MOVE_DROP_THERE)
		r = drop_there(work, item);
	else if (piece->move == MOVE_DOWN && (r = fetch(work, item, piece)) == 1)
		piece->move = MOVE_NONE;
	return MIN(r, 0);
}

/* ---- The file ---- */

static int stamp_of(struct sync *sync, const char *path, struct stamp *ret_stamp)
{
	struct stat st;
	int r = access_stat(sync->access, path, &st);

	*ret_stamp = r < 0 ? (struct stamp){ -1, 0 } :
			     (struct stamp){ st.st_size, time_join(st.st_ctim) };
	return r == -ENOENT ? 0 : r;
}

/* Under the lock, in its turn: the file from what is here and what has come. */
static int write_local(struct work *work)
{
	struct sync *sync = work->sync;
	struct task *task = work->task;
	_cleanup_(buf_done) struct buf content = { 0 };
	struct copier_entry entry = { .path = task->path, .name = task->path };
	bool changes = false, empty = true;
	int64_t modified = 0;
	struct stamp now;
	int r = 0;

	for (size_t i = 0; r == 0 && i < task->count; i++) {
		const struct piece *piece = &work->pieces[i];

		changes |= piece->move == MOVE_DOWN || piece->move == MOVE_DROP_HERE;
		empty &= piece->move == MOVE_DROP_HERE;
		if (piece->move == MOVE_DOWN)
			modified = MAX(modified, moment_read(task->items[i].modified));
		if (piece->move != MOVE_DROP_HERE && (piece->is_here || piece->move == MOVE_DOWN))
			r = buf_append_bytes(&content, piece->move == MOVE_DOWN ?
							       buf_bytes(&piece->there) :
							       piece->here);
	}
	if (r < 0 || !changes)
		return r;
	r = stamp_of(sync, task->path, &now);
	if (r == 0 && (now.size != task->stamp.size || now.ctime != task->stamp.ctime))
		return copier_refuse(&sync->copier,
				     "%s: %s: it has changed meanwhile; the next run looks again",
				     sync->copier.store, task->path) < 0 ?
			       -ENOMEM :
			       1;
	if (r == 0 && empty && !work->tail.size)
		return access_remove(sync->access, task->path, false);
	if (r == 0)
		r = import_is_view(&sync->copier, task->path);
	if (r == 1)
		return copier_refuse(&sync->copier,
				     "%s has the name of a view, so it is not imported",
				     task->path) < 0 ?
			       -ENOMEM :
			       1;
	if (r == 0)
		r = buf_append_bytes(&content, work->tail);
	entry.data = buf_bytes(&content);
	entry.st.st_mode = S_IFREG | 0644;
	entry.st.st_size = (off_t)content.size;
	entry.st.st_atim = entry.st.st_mtim = time_split(modified);
	entry.set = modified ? ACCESS_SET_TIMES : 0;
	if (r == 0)
		r = copier_file(&sync->copier, &entry);
	if (r < 0)
		r = copier_fail(&sync->copier, &entry, r) < 0 ? r : 1;
	return r < 0 ? r : r == 1 ? 1 : stamp_of(sync, task->path, &task->stamp);
}

static void tell_move(struct sync *sync, const struct item *item, enum move move)
{
	static const char *const words[] = {
		[MOVE_UP] = "upload",	      [MOVE_DOWN] = "download",
		[MOVE_DROP_THERE] = "delete", [MOVE_DROP_HERE] = "delete",
		[MOVE_CONFLICT] = "conflict",
	};
	const int size = (int)item->key.size;

	if (move == MOVE_CONFLICT)
		log_error("s3://%s/%.*s: it has changed here and in the bucket; nothing was "
			  "overwritten",
			  sync->bucket->name, size, item->key.data);
	if (sync->dry && words[move]) {
		WITH_PROGRESS_HELD;

		if (sync->copier.list.json)
			say_item(&sync->copier.list,
				 json_pack("{ss so}", "action", words[move], "key",
					   say_json_name(item->key.data, item->key.size)));
		else
			printf("%-10s  %.*s\n", words[move], size, item->key.data);
	}
}

/* Under the lock: count what was done, and keep in mind what is the same now. */
static int finish(struct work *work)
{
	struct sync *sync = work->sync;
	struct task *task = work->task;
	bool same = task->count;
	int r = 0;

	for (size_t i = 0; r == 0 && i < task->count; i++) {
		struct item *item = &task->items[i];
		struct piece *piece = &work->pieces[i];
		const bool gone = piece->move == MOVE_DROP_HERE || piece->move == MOVE_DROP_THERE;

		if (piece->move == MOVE_DOWN)
			piece->here = buf_bytes(&piece->there);
		if (piece->move == MOVE_UP || piece->move == MOVE_DOWN)
			*(piece->replaces ? &sync->replaced : &sync->created) += 1;
		sync->copier.bytes += piece->move == MOVE_UP ? piece->here.size : 0;
		sync->removed += gone;
		sync->conflicts += piece->move == MOVE_CONFLICT;
		same &= piece->move == MOVE_SAME && *item->etag;
		tell_move(sync, item, piece->move);
		if (sync->dry || piece->move == MOVE_NONE || piece->move == MOVE_CONFLICT)
			continue;
		sync->bucket->ops->md5(piece->here, piece->md5);
		/* Of a file with many parts only the last one brings its new stamp. */
		if (piece->move == MOVE_SAME && strcmp(item->etag, item->known_etag) == 0 &&
		    strcmp(piece->md5, item->known_md5) == 0 && i + 1 < task->count)
			continue;
		snprintf(item->known_etag, sizeof(item->known_etag), "%s", gone ? "" : item->etag);
		snprintf(item->known_md5, sizeof(item->known_md5), "%s", piece->md5);
		item->lines = task->form == FORM_PARTS ? count_lines(piece->here) : 1;
		r = plan_keep(&sync->plan, task, item, &task->stamp);
	}
	sync->unchanged += same;
	return r;
}

int sync_file(struct sync *sync, struct task *task, uint64_t ticket)
{
	_cleanup_(work_done) struct work work = { .sync = sync, .task = task };
	int r = read_local(&work);

	if (r == 0)
		r = split(&work);
	for (size_t i = 0; r == 0 && i < task->count; i++)
		r = act(&work, &task->items[i], &work.pieces[i]);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sync->lock);
	if (!sync->up)
		sync_turn(sync, ticket);
	/* What is in the bucket already is kept in mind, also when another thread has failed. */
	if (!sync->up && (sync->error || !sync->dry))
		r = sync->error ? sync->error : write_local(&work);
	if (r == 0)
		r = finish(&work);
	pthread_mutex_unlock(&sync->lock);
	return MIN(r, 0);
}
