/* SPDX-License-Identifier: MIT */
#ifndef FS_VIEWS_QUESTION_QUESTION_H
#define FS_VIEWS_QUESTION_QUESTION_H

/*
 * Questions: the names of views, and which lines they ask for.
 *
 * A question is clauses with ',' between them, and '@' before them where it is a name.  A clause is
 * NAME=VALUE; those of the first five rows may have several values, with '+' between them, and
 * stand more than once: their values are merged.
 *
 *	role=R not-role=R		the role that a line was made in
 *	agent=A not-agent=A		the agent that made it
 *	.a.b=V not-.a.b=V		the value of a member of the line's object
 *	match=W				a word in its text
 *	as=lines|items|list|events|text|records|html
 *					how the lines are shown
 *	items=A-B items=A-		items by index, from 0, both inclusive
 *	since=T before=T		by the time of the row: since or at T, before T
 *	first=N last=N			at most so many lines
 *	at=T				as it was then (backend/history.h)
 *	bytes=N				the newest whole lines that are not larger together
 *	if=WORD				the version of the list: it cannot be
 *					opened in another one
 *
 * - %XX (two hexadecimal digits) in a value, or in a part of a member's path, is that byte.
 * - N is a decimal number up to INT64_MAX.  That of bytes= may end in K, M or G (1024 each).
 * - T is YYYY-MM-DD, which may be followed by 'T' or a blank and HH:MM, HH:MM:SS or HH:MM:SS.F, and
 *   by 'Z'; it is UTC.  Or it is an age: a number and s, m, h, d, w or y (365 days).
 * - as=list and as=events are files, whose names end in ".jsonl" behind the last clause, and so is
 *   as=text where its name ends in ".txt"; in all other questions such an end is part of the last
 *   value.
 * - as=events goes with since= alone, which is then the number of an event.
 * - A wrong question is one with an unknown or empty clause, an empty value, a clause that stands
 *   twice and is none of those that may, or first= and last= together.
 *
 * Whether a line passes:
 *
 *	1. It fits any of role=, agent= and .a.b=, all values of all of them together (if there are
 *	   some).
 *	2. It fits none of not-role=, not-agent= and not-.a.b=.
 *	3. It holds all words of match=.
 *	4. Its index is in items=, and its time is within since= and before=.
 *	5. Of the lines that are left, first= or last= takes some, and of those bytes= the newest,
 *	   also behind first=.
 *
 * question_fits() judges 1 to 3.  The others need what the row's bytes do not tell; the caller
 * applies them.
 *
 * What is compared:
 *
 * - A member's value: a string is compared after its escapes are decoded, in full and with regard
 *   to case; a number, true, false and null as they are spelled.  An object or array has no value.
 *   A path goes through objects only.  If a key stands twice in an object, each of them counts.
 * - The role is what fs/views/question/records.c says for the records of clients that are known;
 *   what they note for themselves has none, and a line with nothing but results of tools is of the
 *   role tool.  Of others it is the first string of these, in this order: role, message.role,
 *   payload.role, payload.type, @type, type (shapes.c).  Roles are compared without regard to case
 *   (of ASCII).  Programs have words of their own for some: a line of type "gemini" fits
 *   role=assistant as well as role=gemini.
 * - The agent is the first string of these: agent, agentId, agent_id, agentName, agent_name,
 *   componentId, name.  If a key stands twice, its first string counts.
 * - A line that has no role fits neither role= nor not-role=; likewise an agent.
 * - Words are looked for in each string of the line, but not in keys, after its escapes are
 *   decoded; a surrogate without its other half is the three bytes that encode it.  A word is a
 *   run of bytes anywhere in one string.  Letters of ASCII match in either case, all others in
 *   that of the question.
 *
 * A struct question does not change after the parse, so any number of threads may use it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum {
	QUESTION_TEXT_MAX = 65536, /* bytes of a question */
	QUESTION_WORD_MAX = 255,   /* bytes of a word of match= */
};

enum question_as {
	QUESTION_LINES,	 /* directory: the tree, with fewer lines in its lists */
	QUESTION_ITEMS,	 /* directory: each list is a directory of documents */
	QUESTION_LIST,	 /* file: the documents of this directory as a list */
	QUESTION_EVENTS, /* file: what changes in this directory and below */
	QUESTION_TEXT,	 /* directory: the tree, with what its lists and documents say to people
			  * (fs/api/text.h); file: what the documents of this directory say */
};

struct question_time {
	enum question_clock {
		QUESTION_NEVER_SAID, /* the clause is not there */
		QUESTION_AT,	     /* ns is since 1970, UTC */
		QUESTION_AGO,	     /* ns is before the moment of the look-up */
	} clock;
	int64_t ns;
};

struct question {
	enum question_as as;
	/* QUESTION_TEXT: also what is not talk (as=records); in HTML (as=html, html-records). */
	bool all, html;
	bool is_file; /* QUESTION_LIST, QUESTION_EVENTS, or QUESTION_TEXT of documents */
	/* INT64_MIN and INT64_MAX unless said. */
	int64_t items_from, items_to;
	struct question_time since, before, at;
	/* -1 unless said. */
	int64_t first, last, bytes;
	/* QUESTION_EVENTS: those behind this one; -1 unless said. */
	int64_t since_event;
	/* of if=, owned by the question; no data unless said. */
	struct bytes if_version;
	struct question_filter *filter; /* private */
};

/* Whether a name is that of a view: it begins with '@', and has a '=' in its first clause.  The
 * question may be wrong all the same. */
bool question_is(struct bytes name);

/*
 * Parse the question of a name, with its '@', or of clauses without one (-o view=), which are not a
 * file.  0; -EINVAL with a sentence in reason, or -ENOMEM.  The sentence is appended, without a
 * newline but with bytes of the question; a NUL stands behind it, which is not counted.  The caller
 * owns *ret.
 */
int question_parse(struct bytes name, struct question **ret, struct buf *reason);
int question_parse_clauses(struct bytes clauses, struct question **ret, struct buf *reason);
void question_free(struct question *question);
static inline void question_freep(struct question **question)
{
	question_free(*question);
}

/* Whether the documents of a directory are shown as one file. */
static inline bool question_gathers(const struct question *question)
{
	return question->is_file && question->as != QUESTION_EVENTS;
}

/* The moment that a time means for a look-up at now; otherwise if the clause is not there. */
int64_t question_moment(struct question_time time, int64_t now, int64_t otherwise);

/* Whether its matches change as time goes by. */
static inline bool question_has_ages(const struct question *question)
{
	return question->since.clock == QUESTION_AGO || question->before.clock == QUESTION_AGO ||
	       question->at.clock == QUESTION_AGO;
}

/* Whether it asks for what was at another time: that can only be read. */
static inline bool question_has_at(const struct question *question)
{
	return question->at.clock != QUESTION_NEVER_SAID;
}

/* Whether lines can be appended through it. */
static inline bool question_takes_lines(const struct question *question)
{
	return question->as == QUESTION_LINES && !question_has_at(question);
}

/* Whether it asks for anything in the bytes of a line; if not, every line fits. */
bool question_needs_line(const struct question *question);

/* Whether nothing but items=, first= and if= is asked, and one of the first two is: a save through
 * such a view may replace what it shows. */
bool question_only_items(const struct question *question);

/* Whether a line, without its newline, passes 1 to 3 above.  The answer means something for JSON;
 * any other bytes are safe.  No allocation, no recursion; the time is proportional to the bytes,
 * and to the clauses about members and words. */
bool question_fits(const struct question *question, struct bytes line);

#endif
