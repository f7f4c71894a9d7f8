/* SPDX-License-Identifier: MIT */

/* What all targets share: choices from the input, and seeds as files for libFuzzer. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/base/log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/random.h"

static const uint64_t numbers[] = {
	0,
	1,
	2,
	3,
	7,
	255,
	256,
	4095,
	4096,
	4097,
	32767,
	32768,
	32769,
	65536,
	100000,
	1 << 20,
	(8 << 20) + 1,
	INT32_MAX,
	UINT32_MAX,
	UINT64_C(1) << 32,
	UINT64_C(1) << 40,
	INT64_MAX - 4096,
	INT64_MAX - 1,
	INT64_MAX,
	(uint64_t)INT64_MAX + 1,
	UINT64_MAX - 1,
	UINT64_MAX,
};

uint64_t take_number(struct fuzz_input *in)
{
	uint8_t choice = take_byte(in);
	uint64_t number = 0;

	if (choice < 64)
		return choice;
	if (choice < 192)
		return numbers[choice % ARRAY_SIZE(numbers)];
	for (unsigned i = 0; i < (choice < 240 ? 2u : 8u); i++)
		number = number << 8 | take_byte(in);
	return number;
}

struct bytes take_bytes(struct fuzz_input *in, size_t limit)
{
	size_t size = take_byte(in);
	struct bytes bytes;

	/* The last values are lengths that fit in no byte. */
	if (size >= 240)
		size = (size - 239) * 251;
	size = MIN(size, limit);
	bytes = bytes_make(in->at, MIN(size, fuzz_left(in)));
	in->at += bytes.size;
	return bytes;
}

void fuzz_put(struct buf *seed, const void *data, size_t size)
{
	fuzz_need(buf_append(seed, data, size) == 0);
}

void fuzz_noise(unsigned n, size_t count, struct buf *seed)
{
	uint64_t state = n;

	while (count--) {
		uint8_t byte = (uint8_t)random_next(&state);

		fuzz_put(seed, &byte, 1);
	}
}

static void write_file(const char *path, struct bytes bytes)
{
	FILE *file = fopen(path, "we");

	fuzz_need(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size);
	fuzz_need(fclose(file) == 0);
}

static void write_seeds(const char *folder)
{
	_cleanup_(buf_done) struct buf seed = { 0 };
	char path[4096];

	fuzz_need(mkdir(folder, 0777) == 0 || errno == EEXIST);
	for (unsigned n = 0; fuzz_seed(n, &seed); n++) {
		snprintf(path, sizeof(path), "%s/seed-%u", folder, n);
		write_file(path, buf_bytes(&seed));
		buf_clear(&seed);
	}
}

static void write_words(const char *folder)
{
	_cleanup_(buf_done) struct buf words = { 0 };
	char path[4096];

	for (const struct bytes *word = fuzz_words; word->data; word++) {
		fuzz_need(buf_append_byte(&words, '"') == 0);
		for (size_t i = 0; i < word->size; i++)
			fuzz_need(buf_printf(&words, "\\x%02X", (unsigned char)word->data[i]) == 0);
		fuzz_need(buf_append_str(&words, "\"\n") == 0);
	}
	snprintf(path, sizeof(path), "%s.dict", folder);
	write_file(path, buf_bytes(&words));
}

/* Sentences are made, so that making them is tried, and go nowhere. */
static void drop(int level, const char *sentence)
{
	if (getenv("FUZZ_LOG"))
		fprintf(stderr, "<%d> %s\n", level, sentence);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *folder = getenv("FUZZ_SEEDS");

	(void)argc;
	(void)argv;
	log_set_sink(drop);
	log_set_level(LOG_DEBUG);
	if (folder) {
		write_seeds(folder);
		write_words(folder);
		exit(0);
	}
	return 0;
}
