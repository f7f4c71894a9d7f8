/* SPDX-License-Identifier: MIT */
#ifndef FS_BASE_NAMES_H
#define FS_BASE_NAMES_H

/*
 * Names and keys: what a file name means, and how an id that another program chose is shown.
 *
 * A *component* is one part of an id: a whole session id, or the part of a key between two slashes.
 * A *name* is what stands in a directory: 1 to 255 bytes, no '/', no NUL, not "." or "..".
 *
 * A component that can be a name is its own name: "100%", "a%zz", "a%41", "~" mean themselves.
 * Two kinds of component cannot, and are *escaped*:
 *
 * - what a file should not be called: the empty component, "."  and "..", and components with a
 *   NUL,
 *     a '/', a control character (0x01-0x1F, 0x7F) or bytes that are not valid UTF-8;
 *   - what would be taken for something else: the escaped form of another component ("%2F"), and
 *     components with "%~" in them, the sign of a cut name (below).
 *
 * Escaping writes as %XX (two upper-case hexadecimal digits) each of these bytes, each '%', and the
 * dots of "." and ".."; the empty component becomes "%".  So "a/50%" is shown as "a%2F50%25", the
 * component "%2F" as "%252F", "%" as "%25", and "a/%~" as "a%2F%25~".
 *
 * A name that would be longer than its limit is *cut*: a prefix of the escaped form, which never
 * ends in half an escape or half a character, then "%~" and the 32 lower-case hexadecimal digits of
 * a digest of the whole component.
 *
 * Decoding turns an escaped form back, but only one that encoding makes; every other name is the
 * component itself, letter by letter ("%2f", "%41%2F", "%2Ea", a cut name).  So
 *
 *   decode(encode(c)) == c for every component c that was not cut;
 *   encode(decode(n)) == n for every name n that is valid UTF-8 without control characters and "%~"
 *   (names that only users make: a control character or "%~" decodes to itself, an invalid byte to
 *   the three characters %XX, since rows hold text; encoded again they are escaped).
 *
 * One thing differs between sessions and keys: in a key '/' always separates, so a component of a
 * key has none, and "%2F" is an escape only in session ids.
 *
 * All functions are pure; 0 or -errno (-ENOMEM, and what is said below); outputs are appended to a
 * buffer, which is as it was on failure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "backend/base/buf.h"

enum { NAME_LIMIT = 255 };

enum names_scope {
	NAMES_SESSION, /* a session id: the whole of it is one component */
	NAMES_KEY,     /* one component of a key */
};

/* What a name below a session says about the file (values of enum backend_kind that are state). */
struct names_split {
	uint32_t kind;	   /* BACKEND_ORDINARY when the name leaves no key */
	struct bytes stem; /* the name without .json, .jsonl or .hash; borrowed */
};

/* Cuts the first name off a path, in which '/' stands between names: false when it is the last. */
bool names_cut(struct bytes *path, struct bytes *ret_name);

/* Which view a file name below a session is: "k.json" -> single "k", ".json" -> ordinary. */
struct names_split names_split(struct bytes name);
/* The number that the name of a document ends in: "message_7.json", "7.json" and "007.json" have 7.
 * False: it has none, or one above INT64_MAX, or is not a document's name. */
bool names_number(struct bytes name, int64_t *ret_number);
/* ".json", ".jsonl", ".hash", or "" for other kinds. */
struct bytes names_suffix(uint32_t kind);
/* Whether clients give such a name to a file while they save a state: "k.json.tmp",
 * ".k.json.x.tmp", "k.json.tmp.17.ab", "k.json.__strands_tmp_ab", "k.tmp".  Not one that is locked
 * ("k.json.lock"), since two that lock one name mean one file. */
bool names_is_temporary(struct bytes name);

/* limit is the room for the name, NAME_LIMIT less the suffix that will follow; -EINVAL when it is
 * less than NAME_LIMIT_MIN. */
enum { NAME_LIMIT_MIN = 64 };
int names_encode(enum names_scope scope, struct bytes component, size_t limit, struct buf *name);
int names_decode(enum names_scope scope, struct bytes name, struct buf *component);

/* ":_hash": the end of a sidecar's key. */
extern const struct bytes names_hash_suffix;

/*
 * The key of a state file: the components of its directories below the session (decoded, each
 * followed by '/': this is dirs, "" or "a/b/"), then the decoded stem, then ":_hash" for a sidecar.
 * -EINVAL for the name of an ordinary file.
 *
 * The key of a single or list never ends in ":_hash", since that would be a sidecar's: a stem that
 * does ("a:_hash.json") keeps its suffix in the key ("a:_hash.json").  So that this leaves no key
 * for two files, a stem that looks like such a key keeps its suffix as well
 * ("a:_hash.json.json").
 *
 * Two names have the same key when they differ in their suffixes (k.json, k.jsonl), when they
 * decode to the same component (see above), and as "..json" does with "%2E.json".
 */
int names_key(struct bytes dirs, struct bytes name, struct buf *key);

/*
 * A key for a file whose ordinary key is taken: dirs, the decoded stem and the suffix, so in
 * general the full file name; with attempt > 0 followed by "~" and that number; for a sidecar
 * ":_hash" behind that.  May itself be taken.
 */
int names_own_key(struct bytes dirs, struct bytes name, unsigned attempt, struct buf *key);

/*
 * Where a key that another program wrote is shown.  Calls component() for each directory name, in
 * order, then once for the file name with last set; attempt > 0 puts "%~" and that number before
 * the suffix (when the name is taken).  kind is what the rows say (single, list or hash; else
 * -EINVAL); for a hash the key ends in ":_hash" and this end is not shown.  component() returns 0
 * to go on; anything else stops and is returned.  names_key() of these names is the key again,
 * unless a name was cut, attempt was given, or a single or list has a key that ends in ":_hash".
 */
typedef int names_component_fn(void *arg, struct bytes name, bool last);
int names_path(struct bytes key, uint32_t kind, unsigned attempt, names_component_fn *component,
	       void *arg);

#endif
