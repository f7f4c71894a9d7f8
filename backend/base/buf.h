/* SPDX-License-Identifier: MIT */
#ifndef BASE_BUF_H
#define BASE_BUF_H

/*
 * Bytes: a borrowed run of bytes (struct bytes) and a growing owned one (struct buf).
 *
 * Nothing here is text: a NUL byte is a byte.  struct bytes never owns its bytes; where one is
 * stored, a comment names the owner.  A zeroed struct buf is an empty buffer.  Functions that may
 * allocate return 0 or -ENOMEM and leave the buffer as it was on failure.  Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const char *data; /* may be NULL when size is 0 */
	size_t size;
};

struct buf {
	char *data;
	size_t size;
	size_t room; /* bytes allocated */
};

#define BYTES(literal) ((struct bytes){ (literal), sizeof(literal) - 1 })

static inline struct bytes bytes_make(const void *data, size_t size)
{
	return (struct bytes){ data, size };
}

/* The bytes of a C string, without its NUL. */
static inline struct bytes bytes_str(const char *text)
{
	return (struct bytes){ text, strlen(text) };
}

/* What is there has to have bytes, be it none of them. */
static inline struct bytes bytes_given(struct bytes bytes)
{
	return bytes.data ? bytes : BYTES("");
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Order as SQLite's BINARY collation: memcmp, then the shorter one first. */
int bytes_compare(struct bytes a, struct bytes b);

/* Fowler, Noll and Vo's hash 1a of 64 bits: BYTES_HASH, or what the bytes before gave, goes on. */
#define BYTES_HASH UINT64_C(0xcbf29ce484222325)
uint64_t bytes_hash(uint64_t hash, struct bytes bytes);

bool bytes_starts_with(struct bytes bytes, struct bytes start);
bool bytes_ends_with(struct bytes bytes, struct bytes end);

/* Two hexadecimal digits for each byte, and a NUL. */
void bytes_hex(struct bytes bytes, char *ret_text);

/* A copy with a NUL behind it, owned by the caller; NULL when there is no memory. */
char *bytes_dup(struct bytes bytes);

/* A text as printf(3) makes it, owned by the caller; NULL when there is no memory. */
char *str_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Replace a text, which may be NULL or among what it is made of, by another; without memory it
 * stays, and where text is NULL nothing happens.  Returns error, so that it can stand behind
 * return. */
int str_explain(char **text, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static inline struct bytes buf_bytes(const struct buf *buf)
{
	return (struct bytes){ buf->data, buf->size };
}

/* The same, which are there even if they are none. */
static inline struct bytes buf_given(const struct buf *buf)
{
	return bytes_given(buf_bytes(buf));
}

/* Room for at least extra bytes behind the present ones. */
int buf_reserve(struct buf *buf, size_t extra);
int buf_append(struct buf *buf, const void *data, size_t size);
int buf_append_bytes(struct buf *buf, struct bytes bytes);
int buf_append_str(struct buf *buf, const char *text);
/* Several runs of bytes, one behind the other. */
int buf_append_runs(struct buf *buf, const struct bytes *runs, size_t count);
#define buf_join(buf, ...)                                                                         \
	buf_append_runs(buf, (const struct bytes[]){ __VA_ARGS__ },                                \
			sizeof((const struct bytes[]){ __VA_ARGS__ }) / sizeof(struct bytes))
int buf_append_byte(struct buf *buf, char byte);
/* A NUL stands behind it, which is not counted. */
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A text (NULL: none) in which only letters, digits, the bytes of "-._~" and those of plain stand
 * for themselves, the others as %XX. */
int buf_append_encoded(struct buf *buf, const char *text, const char *plain);
/* The bytes that a text with %XX stands for; -EINVAL: a % without two hexadecimal digits. */
int buf_append_decoded(struct buf *buf, struct bytes text);
/* size bytes of value zero. */
int buf_append_zeros(struct buf *buf, size_t size);
/* Drop size bytes from the front. */
void buf_consume(struct buf *buf, size_t size);
static inline void buf_clear(struct buf *buf)
{
	buf->size = 0;
}
void buf_done(struct buf *buf);

#endif
