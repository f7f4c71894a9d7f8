/* SPDX-License-Identifier: MIT */
#ifndef TESTS_RANDOM_CONTRACT_H
#define TESTS_RANDOM_CONTRACT_H

/*
 * What users may rely on, in its shortest form: files, their rows, and who sees what.  Nothing here
 * knows how the filesystem does it; bytes are whole buffers, rows are cut from them anew.
 *
 * A struct file is a file, whatever name it has; a struct user_file is an open descriptor.  The
 * functions do what a call shall do and return what it shall answer: 0 or a count, or -errno.  What
 * may be seen in more than one way (a reader in the middle of a file that was replaced) is asked by
 * giving what was seen: may_read(), may_be_size().
 *
 * All names lie in NAMES; the sessions and directories that they need are always there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backend/base/buf.h"

enum kind { ORDINARY, SINGLE, LIST, SIDECAR };

struct name {
	const char *path;
	enum kind kind;
	const char *key;     /* of session "s" */
	const char *own_key; /* when another file has that one */
};
enum { NAMES = 11 };
extern const struct name names[NAMES];

/* Content that somebody may still be reading. */
struct version {
	unsigned count;
	struct buf bytes;
	struct version *next; /* that replaced it */
	bool seen_at_once; /* the next one keeps all bytes of this one, or is another program's */
};

enum { STAMP = 32 };
struct row {
	struct buf data;
	char created[STAMP]; /* "": it is not known yet */
	char updated[STAMP];
	char moved[STAMP]; /* updated was this, and is to differ now; or "" */
};

struct file {
	struct file *next;
	int name; /* or -1 */
	enum kind kind;
	char key[32];
	struct version *now;
	struct buf *earlier; /* an ordinary file's bytes before each write since all was stored */
	size_t earlier_count;
	bool draft;
	size_t changes;	  /* of the bytes, but for what was added behind them, until now */
	struct buf valid; /* the bytes that the rows are cut from: older than a draft */
	struct row *rows;
	size_t row_count;
	bool ghost;	  /* unlinked a moment ago: the rows are still there */
	bool inherited;	  /* made over a ghost, and nobody has written yet */
	bool borrows;	  /* its content is what it has inherited, and no save of it */
	bool orphan;	  /* unlinked for good: bytes for those who have it open */
	int64_t ghost_at; /* since */
	int ghost_name;
	int made_on; /* the mount; no other knows what it borrows */
	int left_on; /* the mount where it lost its name: no other hands a ghost's rows on */
	mode_t mode;
	int64_t mtime;	    /* as somebody has set it; or -1 */
	int64_t mtime_from; /* not older than this */
	char xattr[16];
	uint64_t ino; /* 0: not known yet */
	unsigned open;
};

enum handle_state { PLAIN, APPENDS, SAVES };

struct user_file {
	bool is_open;
	struct file *file;
	int flags;
	int process;
	bool was_ordinary; /* it was opened as such a file */
	enum handle_state state;
	struct buf stage;
	bool dirty;
	bool only_cut;	/* nothing was done but to set its size */
	bool only_adds; /* nothing but to add behind what was kept */
	size_t kept;
	size_t seen;	       /* bytes that there were */
	struct version *begun; /* published as what */
	size_t begun_changes;
	bool keeps_times; /* they were set since it wrote */
	int64_t written;  /* when it wrote last */
	bool paused;	  /* that was looked at, and what it held was not whole */
	struct buf piece;
	bool owns_tail;
	size_t tail_end;
	bool streams;
	size_t stream_end;
	size_t published_size;
	bool cached;		/* may see old pages: keeps the version that it began with */
	struct version *opened; /* what there was then: it may be seen as long as nothing is read */
	size_t opened_size;	/* and how much of it; more may have come since */
	struct version *from;	/* the oldest that it may see */
	bool has_read;		/* since it was opened */
	bool unsure;		/* what it read began several versions; from is the first */
	bool reads_on;		/* it has read from the start up to */
	size_t read_to;
	size_t position; /* of the caller's */
};

struct contract {
	bool strict;
	bool exact;
	int mount;   /* where what is done now is done */
	bool caches; /* readers of large lists have the page cache */
	struct file *files;
	int64_t now;
	int64_t inherits_from; /* since when the last ghost was one whose rows were taken over */
};

void contract_done(struct contract *contract);

struct file *file_named(struct contract *contract, int name);
/* Ghosts, and files that are open, are kept. */
struct file *file_with_key(struct contract *contract, const char *key);

/* Whether a ghost would be inherited by a file that is made under a name. */
bool would_inherit(struct contract *contract, int name);
int user_open(struct contract *contract, struct user_file *user, int name, int flags, int process);
ssize_t user_write(struct contract *contract, struct user_file *user, size_t offset,
		   struct bytes data);
int user_truncate(struct contract *contract, struct user_file *user, size_t size);
int user_flush(struct contract *contract, struct user_file *user);
void user_close(struct contract *contract, struct user_file *user);
/* Without publishing what is staged; an unfinished line is kept if so told. */
void user_abandon(struct contract *contract, struct user_file *user, bool keep_piece);
/* A writer has paused. */
void user_pause(struct contract *contract, struct user_file *user);

/* Whether this may be what a read answers; it is remembered that it did.  pages: it was read
 * through the page cache, which a reader keeps as it was when the file is replaced. */
bool may_read(struct user_file *user, bool pages, size_t offset, size_t size, struct bytes seen);
bool may_be_size(const struct user_file *users, size_t count, const struct file *file, int process,
		 size_t size);
bool may_be_own_size(const struct user_file *user, size_t size);
/* The same for who has not heard any more of what was added before the file went. */
bool may_have_missed(const struct user_file *user, size_t offset, size_t size, struct bytes seen);
bool may_have_missed_size(const struct user_file *user, size_t size);

int file_truncate_to(struct contract *contract, int name, size_t size);
int file_unlink(struct contract *contract, int name);
int file_rename(struct contract *contract, int name, int name_to, unsigned flags);
int file_set_mode(struct contract *contract, int name, mode_t mode);
/* The rows of unlinked files go. */
void settle(struct contract *contract);
/* The filesystem ended; with killed: without a word. */
void restart(struct contract *contract, bool killed);
/* Whether a named ordinary file may have these bytes behind a kill, which takes away its last
 * writes; from now on they are its bytes. */
bool may_be_left(struct file *file, struct bytes seen);

enum sql { SQL_ADD, SQL_UPDATE, SQL_DELETE_LAST, SQL_DELETE, SQL_KINDS };
/* Another program changes rows: false when there is nothing to change.  *ret_index: the row. */
bool sql_changes(struct contract *contract, struct file *file, enum sql what, size_t place,
		 struct bytes data, size_t *ret_index);

/* Lines of the content, or a document, that are kept beside the rows. */
size_t invalid_count(const struct file *file);

#endif
