/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

/*
 * Targets that are fed arbitrary bytes.
 *
 * A target is a source with the four names below.  libFuzzer drives it where it is (`make fuzz`);
 * elsewhere, and in `make check`, driver.c does: seeds, inputs that once found something, and
 * random mutations of both.  A target runs one input in one world, which it makes and takes down;
 * what must hold and does not ends the process (fuzz_check), as a sanitizer's report does.
 *
 * Most targets read the input as a sequence of choices: each take_*() below turns some bytes into
 * one, and what is missing at the end is zero, so that every input means something and a part of
 * it means almost the same.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The name of the target. */
extern const char fuzz_name[];
/* Mutations in a short run. */
extern const unsigned fuzz_runs;
/* What is worth inserting; the last one has no data. */
extern const struct bytes fuzz_words[];
/* Append the nth input to begin with; false when there are no more. */
bool fuzz_seed(unsigned n, struct buf *seed);

/* seeds.c: libFuzzer calls this first.  With FUZZ_SEEDS=DIR in the environment it writes the seeds
 * into files of that folder, and the words into DIR.dict, and ends the process. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define fuzz_check(condition, ...)                                                                 \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);            \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)
/* No memory, no room for files: the machine's trouble. */
#define fuzz_need(condition) fuzz_check(condition, "the machine does not give what is needed")

/* Choices. */

struct fuzz_input {
	const uint8_t *at;
	const uint8_t *end;
};

static inline struct fuzz_input fuzz_input(const uint8_t *data, size_t size)
{
	return (struct fuzz_input){ data, data + size };
}

static inline size_t fuzz_left(const struct fuzz_input *in)
{
	return (size_t)(in->end - in->at);
}

static inline uint8_t take_byte(struct fuzz_input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

/* 0 to limit - 1; limit is 256 at the most. */
static inline unsigned take_below(struct fuzz_input *in, unsigned limit)
{
	return take_byte(in) % limit;
}

#define take_of(in, table) ((table)[take_below((in), ARRAY_SIZE(table))])

/* Any number; those at which something changes are likely. */
uint64_t take_number(struct fuzz_input *in);
/* At most limit bytes, borrowed from the input: a byte says how many. */
struct bytes take_bytes(struct fuzz_input *in, size_t limit);

/* A seed from a generator: count random bytes, the same for the same n. */
void fuzz_noise(unsigned n, size_t count, struct buf *seed);
void fuzz_put(struct buf *seed, const void *data, size_t size);

#endif
