/* SPDX-License-Identifier: MIT */
/* What is to be done about one file and its objects. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "backend/base/moment.h"
#include "fs/base/lines.h"
#include "fs/base/look.h"
#include "src/bucket/bucket.h"
#include "src/exchange/document.h"
#include "src/exchange/import.h"

enum {
	DENIED_MOST = S3_LANES, /* objects that may not be read, before nothing is asked any more */
};
#define PART_LATEST INT64_C(9999999999999) /* of 13 digits */

/* What is wrong with an object that no file can have; kept in place of its digest. */
static const char not_json[] = "it is not JSON of this layout";
static const char too_large[] = "it is larger than 256 MiB";

int task_read(struct task *task)
{
	_cleanup_(access_file_dropp) struct access_file *file = NULL;
	int r;

	if (!*task->stamp)
		return 0;
	r = access_file_open(task->sync->access, task->path, ACCESS_FILE_READ, &file);
	if (r < 0) {
		*task->stamp = '\0';
		return r == -ENOENT ? 0 : r;
	}
	/* A small file is not to take a whole block.  It may have grown. */
	r = access_file_fill(file, (size_t)MIN(task->need, S3_LIMIT) + 1, &task->local);
	return r < 0 || task->local.size <= task->need ?
		       r :
		       access_file_fill(file, S3_LIMIT + 1, &task->local);
}

/* Whether a text is what an object of this form holds: JSON, or lines of it. */
static bool is_sound(enum bucket_form form, struct bytes text)
{
	struct line line;

	if (form == FORM_DOCUMENT)
		return json_valid(text, NULL);
	while (form != FORM_TEXT && lines_next(&text, &line))
		if (!json_valid(line.text, NULL))
			return false;
	return true;
}

/* So many lines from the beginning of a text, and how many there were. */
static struct bytes cut_lines(struct bytes *text, int64_t most, int64_t *ret_lines)
{
	struct bytes cut = bytes_make(text->data, 0);
	struct line line;

	for (*ret_lines = 0; *ret_lines < most && lines_next(text, &line); (*ret_lines)++)
		cut.size += line.size;
	return cut;
}

/* ---- Objects ---- */

/* 1, or -ENOMEM. */
static int part_leave_out(const struct task *task, struct part *part, const char *why)
{
	free(part->asked.why);
	part->asked.why = str_printf("s3://%s/%s: %s, so it is left out", task->sync->bucket->name,
				     part->key.data, why);
	return part->asked.why ? 1 : -ENOMEM;
}

/* One request about the object, which gets the stamp of the answer: 0; 1: it is not there any more,
 * or is left out; -EEXIST: a condition does not hold; or -errno when going on is useless. */
static int part_ask(struct task *task, struct part *part, struct s3_request request)
{
	const struct bucket *bucket = task->sync->bucket;
	struct s3_request *asked = &part->asked;
	const char *etag = strchr(part->now, ' ');
	int r;

	s3_request_done(asked);
	*asked = request;
	asked->key = part->key.data;
	asked->lane = task->lane;
	r = bucket->ops->perform(bucket->s3, asked);
	if (r == -EEXIST || r == -ENOENT)
		free(steal_ptr(asked->why));
	/* A version that was listed with another size has not changed by that. */
	if (strcmp(asked->method, "GET") != 0 || !etag || strcmp(etag + 1, asked->etag) != 0)
		snprintf(part->now, SYNC_STAMP, "%" PRIu64 " %s", asked->size, asked->etag);
	if (r < 0 && r != -EFBIG)
		*part->now = '\0';
	if (r != -EPERM)
		task->sync->denied = 0;
	else if (!asked->body.size && ++task->sync->denied <= DENIED_MOST)
		r = 1;
	return r == -ENOENT || r == -EINVAL ? 1 : r;
}

static bool part_was_seen(const struct part *part)
{
	return *part->now && strcmp(part->now, part->seen) == 0;
}

static const char *part_fault(const struct part *part)
{
	return strcmp(part->shows, not_json) == 0  ? not_json :
	       strcmp(part->shows, too_large) == 0 ? too_large :
						     NULL;
}

static void part_see(struct part *part, const char *shows)
{
	snprintf(part->seen, SYNC_STAMP, "%s", part->now);
	snprintf(part->shows, DIGEST_TEXT, "%s", shows);
	part->is_news = true;
}

/* The object as the file has it: as part_ask(). */
static int part_fetch(struct task *task, struct part *part)
{
	struct buf *data = &part->asked.data, lines = { 0 };
	int r;

	if (part->fetched)
		return 0;
	if (strtoull(part->now, NULL, 10) > S3_LIMIT)
		return part_leave_out(task, part, too_large);
	if (part_was_seen(part) && part_fault(part))
		return part_leave_out(task, part, part_fault(part));
	r = part_ask(task, part, (struct s3_request){ .method = "GET" });
	if (r == 0 && task->form == FORM_LIST) {
		const char *end = data->data + data->size, *begin = look_blanks(data->data, end);
		const struct bytes array = bytes_make(begin, (size_t)(end - begin));

		r = json_valid(array, NULL) && look_is(array, '[') ?
			    document_content(array, &lines) :
			    -EINVAL;
		buf_done(data);
		*data = lines;
	}
	if (r == 0 && task->form == FORM_PARTS && lines_tail(buf_bytes(data)).size)
		r = buf_append_byte(data, '\n');
	if (r == -EFBIG || r == -EINVAL || (r == 0 && !is_sound(task->form, buf_bytes(data)))) {
		part_see(part, r == -EFBIG ? too_large : not_json);
		return part_leave_out(task, part, part_fault(part));
	}
	part->fetched = r == 0;
	return r;
}

/* Finds out whether the object is what the file has. */
static int part_compare(struct task *task, struct part *part)
{
	char digest[DIGEST_TEXT], there[DIGEST_TEXT];
	const bool was_seen = part_was_seen(part) && !part_fault(part);
	int r = was_seen ? 0 : part_fetch(task, part);

	part->move = MOVE_NONE;
	if (r != 0)
		return MIN(r, 0);
	digest_show("", part->here, digest);
	if (!was_seen)
		digest_show("", buf_bytes(&part->asked.data), there);
	part->move =
		strcmp(digest, was_seen ? part->shows : there) == 0 ? MOVE_SAME : MOVE_CONFLICT;
	if (!was_seen && part->move == MOVE_CONFLICT)
		part_see(part, there);
	return 0;
}

/* Puts or deletes the object. */
static int part_send(struct task *task, struct part *part)
{
	const bool drops = part->move == MOVE_DROP;
	_cleanup_(buf_done) struct buf array = { 0 };
	struct s3_request request = { .method = drops ? "DELETE" : "PUT",
				      .is_new = !*part->now,
				      .match = *part->now ? strchr(part->now, ' ') + 1 : NULL };
	int r = 0;

	if (!drops && !is_sound(task->form, part->here))
		return part_leave_out(task, part, "its file is not JSON");
	if (!drops && task->form == FORM_LIST) {
		/* Its lines as elements. */
		if (buf_append_byte(&array, '[') < 0 || buf_append_bytes(&array, part->here) < 0)
			return -ENOMEM;
		for (char *at = array.data; (at = memchr(at, '\n', array.data + array.size - at));)
			*at = ',';
		array.size -= array.data[array.size - 1] == ',';
		r = buf_append_byte(&array, ']');
	}
	if (!drops)
		request.body = task->form == FORM_LIST ? buf_bytes(&array) : part->here;
	if (r == 0)
		r = part_ask(task, part, request);
	if (r != -EEXIST && (drops || r != 1 || part->asked.status != 404))
		return r;
	/* Another one was faster, or our own first try was carried out and its answer lost. */
	part->fetched = false;
	r = part_compare(task, part);
	if (part->move == MOVE_NONE)
		part->move = MOVE_CONFLICT;
	return r;
}

/* ---- What is to be done ---- */

/* By the two versions of the file's content and the two of the object. */
static enum move part_judge(const struct sync *sync, const struct part *part)
{
	char digest[DIGEST_TEXT] = "";

	if (part->is_here)
		digest_show("", part->here, digest);
	/* Of the source, and of the target. */
	const struct {
		bool is_there, changed;
	} here = { part->is_here, strcmp(digest, part->digest) != 0 },
	  there = { *part->now, strcmp(part->now, part->known) != 0 },
	  from = sync->up ? here : there, to = sync->up ? there : here;

	if (!from.is_there && to.is_there && !sync->drop)
		return MOVE_NONE;
	if (!from.changed)
		return from.is_there && !to.changed ? MOVE_SAME : MOVE_NONE;
	if (!to.changed)
		return from.is_there ? MOVE_BRING : MOVE_DROP;
	return from.is_there && to.is_there ? MOVE_COMPARE :
	       from.is_there || to.is_there ? MOVE_CONFLICT :
					      MOVE_SAME;
}

/* The object of a file that has none yet, or of lines that no part has. */
static int add_new(struct task *task, struct bytes here)
{
	_cleanup_(buf_done) struct buf key = { 0 };
	int64_t now = time_now() / 1000000;
	uint32_t random = 0;
	struct part *part;
	int r = layout_turn(task->sync->layout, task->path, false, NULL, &key);

	/* Behind all others, by its name. */
	for (size_t i = 0; task->form == FORM_PARTS && i < task->count; i++) {
		const char *name = strrchr(task->parts[i].key.data, '/');

		now = MAX(now, strtoll(name + strlen("/part-"), NULL, 10) + 1);
	}
	part = r < 0 ? NULL : task_add(task, key.data);
	if (!part || getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -ENOMEM;
	part->here = here;
	part->is_here = true;
	if (now > PART_LATEST)
		return MIN(0, part_leave_out(task, part, "no part can stand behind the last one"));
	return task->form != FORM_PARTS ? 0 :
					  buf_printf(&part->key, "%013lld-%06x.jsonl",
						     (long long)now, random & 0xffffff);
}

/* Whether a text begins with the lines of the next part behind this one that is known. */
static bool next_begins(const struct task *task, size_t i, struct bytes text)
{
	char digest[DIGEST_TEXT];
	int64_t lines;

	while (++i < task->count && !(*task->parts[i].known && task->parts[i].lines))
		;
	if (i == task->count)
		return false;
	digest_show("", cut_lines(&text, task->parts[i].lines, &lines), digest);
	return strcmp(digest, task->parts[i].digest) == 0;
}

/* Which lines of the file belong to which object. */
static int split(struct task *task)
{
	struct bytes rest = buf_bytes(&task->local), whole;
	const bool parts = task->form == FORM_PARTS, is_here = *task->stamp;
	int64_t lines;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < task->count; i++) {
		struct part *part = &task->parts[i];
		struct bytes text;

		part->is_here = is_here;
		if (!parts) {
			part->lines = INT64_MAX;
		} else if (!*part->known) {
			/* Lines that another run has exported may be here already. */
			r = part_fetch(task, part);
			text = buf_bytes(&part->asked.data);
			part->is_here = r == 0 && text.size && bytes_starts_with(rest, text) &&
					!next_begins(task, i, rest);
			cut_lines(&text, part->is_here ? INT64_MAX : 0, &part->lines);
		}
		part->here = cut_lines(&rest, part->lines, &lines);
	}
	whole = parts ? lines_whole(rest) : rest;
	task->tail = rest;
	if (r < 0 || !task->sync->up || !is_here || !(whole.size || (!parts && !task->count)))
		return MIN(r, 0);
	task->tail = bytes_make(rest.data + whole.size, rest.size - whole.size);
	return add_new(task, whole);
}

void task_ask(struct task *task)
{
	const struct sync *sync = task->sync;
	int r = split(task);

	for (size_t i = 0; r >= 0 && i < task->count; i++) {
		struct part *part = &task->parts[i];

		part->move = part->asked.why ? MOVE_NONE : part_judge(sync, part);
		if (part->move == MOVE_COMPARE)
			r = part_compare(task, part);
		else if (!sync->dry && sync->up &&
			 (part->move == MOVE_BRING || part->move == MOVE_DROP))
			r = part_send(task, part);
		else if (!sync->dry && part->move == MOVE_BRING)
			r = part_fetch(task, part);
		if (part->asked.why || (r == 1 && !sync->up))
			part->move = MOVE_NONE;
	}
	task->error = MIN(r, 0);
}

/* ---- The file ---- */

/* The file as it is to be, from what is here and what has come.  1, after a sentence: it is left as
 * it is. */
static int write_local(struct task *task)
{
	struct sync *sync = task->sync;
	_cleanup_(buf_done) struct buf content = { 0 };
	_cleanup_(copier_done) struct copier writer = { .store = sync->copier.store,
							.to = sync->access,
							.flags = COPIER_ROWS | COPIER_CHECKSUM,
							.progress.fd = -1 };
	struct copier_entry entry = { .path = task->path, .name = task->path };
	bool changes = false, stays = task->tail.size;
	const char *why = NULL;
	char now[SYNC_STAMP];
	time_t modified = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < task->count; i++) {
		const struct part *part = &task->parts[i];
		const bool comes = part->move == MOVE_BRING;
		const bool is_kept = part->is_here && !comes && part->move != MOVE_DROP;

		changes |= comes || part->move == MOVE_DROP;
		stays |= comes || is_kept;
		modified = comes ? MAX(modified, part->asked.modified) : modified;
		if (comes || is_kept)
			r = buf_append_bytes(&content,
					     comes ? buf_bytes(&part->asked.data) : part->here);
	}
	if (r < 0 || !changes)
		return r;
	r = buf_append_bytes(&content, task->tail);
	if (sync_stamp(sync, task->path, NULL, now) < 0 || strcmp(now, task->stamp) != 0)
		why = "it has changed meanwhile; the next run looks again";
	else if (stays && import_is_view(&writer, task->path) == 1)
		why = "it has the name of a view, so it is not imported";
	if (why)
		r = sync_say(sync, &sync->copier.failed,
			     str_printf("%s: %s: %s", sync->copier.store, task->path, why));
	if (r < 0 || why)
		return r < 0 ? r : 1;
	entry.data = buf_bytes(&content);
	entry.st.st_mode = S_IFREG | 0644;
	entry.st.st_size = (off_t)content.size;
	entry.st.st_atim.tv_sec = entry.st.st_mtim.tv_sec = modified;
	entry.set = modified > 0 ? ACCESS_SET_TIMES : 0;
	r = stays ? copier_file(&writer, &entry) : access_remove(sync->access, task->path, false);
	if (r < 0)
		return copier_fail(&sync->copier, &entry, r) < 0 ? r : 1;
	return sync_stamp(sync, task->path, NULL, task->stamp);
}

/* Tells and counts what was done with a part, or would be, and keeps in mind that both sides are
 * the same. */
static int part_finish(struct task *task, struct part *part, bool is_last)
{
	struct sync *sync = task->sync;
	const bool comes = part->move == MOVE_BRING && !sync->up;
	const char *const words[] = { [MOVE_BRING] = sync->up ? "upload" : "download",
				      [MOVE_DROP] = "delete",
				      [MOVE_CONFLICT] = "conflict" };
	struct bytes here = comes ? buf_bytes(&part->asked.data) : part->here;
	char digest[DIGEST_TEXT] = "";
	int r = 0;

	/* The other side is as it was when both were the same: there, or not. */
	sync->copier.did[COPIER_CREATED] += part->move == MOVE_BRING && !*part->known;
	sync->copier.did[COPIER_REPLACED] += part->move == MOVE_BRING && *part->known;
	sync->copier.did[COPIER_DELETED] += part->move == MOVE_DROP;
	sync->copier.bytes += part->move == MOVE_BRING ? here.size : 0;
	if (part->move == MOVE_CONFLICT)
		r = sync_say(sync, &sync->copier.did[COPIER_CONFLICTS],
			     str_printf("s3://%s/%s: it has changed here and in the bucket; "
					"nothing was overwritten",
					sync->bucket->name, part->key.data));
	if (r == 0 && part->is_news && !sync->dry)
		r = sync_keep(sync, part, NULL);
	if (sync->dry && words[part->move])
		copier_print(&sync->copier, words[part->move], "key", part->key.data);
	if (r < 0 || sync->dry || part->move == MOVE_NONE || part->move == MOVE_CONFLICT)
		return r;
	if (part->move == MOVE_DROP)
		*part->now = '\0';
	else if (*part->now)
		digest_show("", here, digest);
	/* Of a file with many parts only the last one brings its new stamp. */
	if (part->move == MOVE_SAME && !(is_last && *task->stamp) &&
	    strcmp(part->now, part->known) == 0 && strcmp(digest, part->digest) == 0)
		return 0;
	snprintf(part->known, SYNC_STAMP, "%s", part->now);
	snprintf(part->digest, DIGEST_TEXT, "%s", digest);
	cut_lines(&here, INT64_MAX, &part->lines);
	return sync_keep(sync, part, task->stamp);
}

int task_finish(struct task *task)
{
	struct sync *sync = task->sync;
	bool same = task->count, settled = true;
	const char *why = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < task->count; i++) {
		const struct part *part = &task->parts[i];

		same &= part->move == MOVE_SAME && *part->now;
		settled &= part->move != MOVE_NONE && part->move != MOVE_CONFLICT;
		why = part->asked.why ? part->asked.why : why;
		if (part->asked.why && !task->error)
			r = sync_say(sync, &sync->copier.failed, strdup(why));
	}
	if (task->error)
		return say_why(why, task->error);
	if (r == 0 && !sync->up && !sync->dry)
		r = write_local(task);
	/* What is left for a run the other way is seen there: the file counts as changed. */
	if (!settled || lines_whole(task->tail).size)
		*task->stamp = '\0';
	for (size_t i = 0; r == 0 && i < task->count; i++)
		r = part_finish(task, &task->parts[i], i + 1 == task->count);
	sync->copier.did[COPIER_UNCHANGED] += r == 0 && same;
	return MIN(r, 0);
}
