/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_SLOTS_H
#define BACKEND_SLOTS_H

/*
 * The slots of a store as lists, for code that does the same with each: declares it, puts it into
 * the table of a store, or forwards it to another store inside (tests/stores/wrapper.h).
 *
 *	READ(slot, (parameters behind the snapshot), (arguments))	what reads in a snapshot,
 *	READ_ROWS(...)							of the rows of one key
 *	CALL(slot, (parameters behind the store), (arguments))		the others that may fail
 *
 * BACKEND_READS and BACKEND_CALLS are those of struct backend_ops, but for close(), the
 * snapshots' and commit(); each optional struct has a list, and BACKEND_OTHERS what does not fit
 * into these:
 *
 *	OTHER(type, struct, slot, (parameters behind the store), (arguments))
 *
 * A user of a list defines these macros; SLOTS_READ is a READ that is a CALL with a snapshot.
 */

#include "backend/backend.h"

/* clang-format off */
#define BACKEND_READS                                                                              \
	READ(node_get, (uint64_t ino, struct backend_node *ret_node),                              \
	     (ino, ret_node))                                                                      \
	READ(node_find, (struct bytes session, struct bytes key, struct backend_node *ret_node),   \
	     (session, key, ret_node))                                                             \
	READ(node_list, (uint64_t after, bool orphans_only, backend_node_fn *fn, void *arg),       \
	     (after, orphans_only, fn, arg))                                                       \
	READ(entry_find, (uint64_t parent, struct bytes name, uint64_t *ret_id,                    \
			  struct backend_node *ret_node),                                          \
	     (parent, name, ret_id, ret_node))                                                     \
	READ(entry_name, (uint64_t parent, uint64_t id, struct buf *name),                         \
	     (parent, id, name))                                                                   \
	READ(entry_list, (uint64_t parent, uint64_t after, backend_entry_fn *fn, void *arg),       \
	     (parent, after, fn, arg))                                                             \
	READ(xattr_get, (uint64_t ino, struct bytes name, struct buf *value),                      \
	     (ino, name, value))                                                                   \
	READ(xattr_list, (uint64_t ino, backend_name_fn *fn, void *arg),                           \
	     (ino, fn, arg))                                                                       \
	READ(chunk_read, (uint64_t ino, int64_t first, int64_t last, backend_chunk_fn *fn,         \
			  void *arg),                                                              \
	     (ino, first, last, fn, arg))                                                          \
	READ_ROWS(row_read, (struct bytes session, struct bytes key, int64_t first,                \
			     backend_row_fn *fn, void *arg),                                       \
	     (session, key, first, fn, arg))                                                       \
	READ_ROWS(row_read_back, (struct bytes session, struct bytes key, int64_t last,            \
				  uint64_t most, backend_row_fn *fn, void *arg),                   \
	     (session, key, last, most, fn, arg))                                                  \
	READ_ROWS(key_stat, (struct bytes session, struct bytes key,                               \
			     struct backend_key_stat *ret_stat),                                   \
	     (session, key, ret_stat))                                                             \
	READ(key_list, (struct bytes after_session, struct bytes after_key, backend_key_fn *fn,    \
			void *arg),                                                                \
	     (after_session, after_key, fn, arg))                                                  \
	READ(piece_read, (uint64_t ino, int64_t first, int64_t first_seq, backend_piece_fn *fn,    \
			  void *arg),                                                              \
	     (ino, first, first_seq, fn, arg))                                                     \
	READ(mark_find, (uint64_t ino, uint64_t offset, struct backend_mark *ret_mark),            \
	     (ino, offset, ret_mark))                                                              \
	READ(mark_find_index, (uint64_t ino, int64_t index, struct backend_mark *ret_mark),        \
	     (ino, index, ret_mark))                                                               \
	READ(last_ids, (uint64_t *ret_ino, uint64_t *ret_entry),                                   \
	     (ret_ino, ret_entry))                                                                 \
	READ(setting_list, (backend_setting_fn *fn, void *arg),                                    \
	     (fn, arg))

#define BACKEND_SHARED                                                                             \
	READ(lock_find, (uint64_t ino, const struct backend_lock *lock,                            \
			 struct backend_lock *ret_lock),                                           \
	     (ino, lock, ret_lock))                                                                \
	READ(feed_list, (backend_feed_fn *fn, void *arg),                                          \
	     (fn, arg))                                                                            \
	READ(orphan_list, (backend_node_fn *fn, void *arg),                                        \
	     (fn, arg))                                                                            \
	READ(orphan_find, (struct bytes session, struct bytes key, struct backend_node *ret_node), \
	     (session, key, ret_node))

#define BACKEND_JOINED                                                                             \
	READ(tail_get, (const struct backend_node *node, struct backend_tail *ret_tail),           \
	     (node, ret_tail))                                                                     \
	READ(entry_look, (struct backend_looked *looked, size_t number),                           \
	     (looked, number))                                                                     \
	READ(session_keys, (struct bytes session, struct bytes after_key, backend_key_fn *fn,      \
			    void *arg),                                                            \
	     (session, after_key, fn, arg))                                                        \
	READ(key_look, (struct backend_key_looked *looked, size_t number),                         \
	     (looked, number))                                                                     \
	READ(entry_list_tails, (uint64_t parent, uint64_t after, uint64_t most,                    \
				backend_wanted_fn *wanted, backend_tail_fn *fn, void *arg),        \
	     (parent, after, most, wanted, fn, arg))

#define BACKEND_CALLS                                                                              \
	CALL(sync, (),                                                                             \
	     ())                                                                                   \
	CALL(space, (struct backend_space *ret_space),                                             \
	     (ret_space))

#define BACKEND_SCANS                                                                              \
	READ(chunk_list, (uint64_t ino, int64_t first, int64_t last, backend_chunk_size_fn *fn,    \
			  void *arg),                                                              \
	     (ino, first, last, fn, arg))                                                          \
	READ_ROWS(row_read_times, (struct bytes session, struct bytes key, int64_t from,           \
				   bool back, uint64_t most, backend_row_time_fn *fn, void *arg),  \
	     (session, key, from, back, most, fn, arg))                                            \
	READ(session_list, (backend_session_fn *fn, void *arg),                                    \
	     (fn, arg))                                                                            \
	READ(session_stat, (struct bytes session, struct backend_session_stat *ret_stat),          \
	     (session, ret_stat))                                                                  \
	READ(day_list, (backend_day_fn *fn, void *arg),                                            \
	     (fn, arg))

#define BACKEND_CHANGES                                                                            \
	READ(change_list, (backend_change_fn *fn, void *arg),                                      \
	     (fn, arg))                                                                            \
	READ(change_find, (struct bytes session, struct bytes key,                                 \
			   struct backend_change *ret_change),                                     \
	     (session, key, ret_change))                                                           \
	CALL(change_wait, (int timeout_ms),                                                        \
	     (timeout_ms))

#define BACKEND_HISTORY                                                                            \
	READ(past_list, (const struct backend_past_key *key, int64_t after, backend_past_fn *fn,   \
			 void *arg),                                                               \
	     (key, after, fn, arg))                                                                \
	READ(past_times, (const struct backend_past_key *key, int64_t after, backend_past_fn *fn,  \
			  void *arg),                                                              \
	     (key, after, fn, arg))                                                                \
	READ(past_read, (const struct backend_past_key *key, int64_t first, int64_t last,          \
			 bool back, backend_row_time_fn *fn, void *arg),                           \
	     (key, first, last, back, fn, arg))                                                    \
	READ(past_keys, (const struct backend_past_key *after, backend_past_key_fn *fn,            \
			 void *arg),                                                               \
	     (after, fn, arg))                                                                     \
	READ(past_size, (uint64_t *ret_bytes, int64_t *ret_last),                                  \
	     (ret_bytes, ret_last))                                                                \
	READ(hidden_read, (uint64_t ino, int64_t from, bool back, backend_row_time_fn *fn,         \
			   void *arg),                                                             \
	     (ino, from, back, fn, arg))

#define BACKEND_UPKEEP                                                                             \
	CALL(check, (backend_report_fn *report, void *arg, uint64_t *ret_damage),                  \
	     (report, arg, ret_damage))

#define BACKEND_OTHERS                                                                             \
	OTHER(int, changes, change_waiting, (int64_t *ret_oldest, int64_t *ret_newest),            \
	      (ret_oldest, ret_newest))                                                            \
	OTHER(void, changes, wake, (),                                                             \
	      ())                                                                                  \
	OTHER(bool, changes, change_seen, (int64_t stamp),                                         \
	      (stamp))                                                                             \
	OTHER(int, changes, session_names, (backend_name_fn *fn, void *arg),                       \
	      (fn, arg))                                                                           \
	OTHER(bool, shared, is_shared, (),                                                         \
	      ())                                                                                  \
	OTHER(bool, shared, on_duty, (),                                                           \
	      ())                                                                                  \
	OTHER(void, shared, turn, (bool take),                                                     \
	      (take))                                                                              \
	OTHER(int, shared, hold, (bool untold),                                                   \
	      (untold))                                                                            \
	OTHER(int, shared, use, (uint64_t ino, bool on),                                           \
	      (ino, on))                                                                           \
	OTHER(uint64_t, shared, lease, (),                                                         \
	      ())                                                                                  \
	OTHER(void, shared, feed_done, (uint64_t n),                                               \
	      (n))                                                                                 \
	OTHER(bool, snapshots, snapshot_keep, (backend_keep_fn *keep, void *arg),                  \
	      (keep, arg))                                                                         \
	OTHER(int, upkeep, copy, (const char *new_store, const struct backend_copy *copy),         \
	      (new_store, copy))

#define SLOTS_READ(slot, parameters, arguments)                                                    \
	CALL(slot, (struct backend_snapshot *snapshot SLOTS_BEHIND parameters),                    \
	     (snapshot SLOTS_BEHIND arguments))
/* clang-format on */

/* A list in parentheses, behind other parameters. */
#define SLOTS_BEHIND(...) , ##__VA_ARGS__

#endif
