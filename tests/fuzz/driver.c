/* SPDX-License-Identifier: MIT */

/*
 * Drives a target where libFuzzer is not.
 *
 *	TARGET			the seeds, the inputs that once found something, and as many
 *				mutations as the target names
 *	TARGET FILE...		these inputs only
 *
 * Mutation n depends on SESSFS_TEST_SEED and n alone.  FUZZ_RUNS=N makes N of them, FUZZ_FIRST=N
 * begins with the Nth.  An input that ends the process is written to ./TARGET.finding, or below
 * FUZZ_FINDINGS; one that takes longer than FUZZ_HANG seconds (180) is ended.
 */

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/random.h"
#include "tests/unit/rounds.h"

enum { INPUT_MAX = 65536 };

/* In a program without sanitizers there is none. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static struct {
	struct buf *input; /* that an input is made from */
	size_t count;
} corpus;

static struct bytes running;
static char finding[4096];
static unsigned run_number;

/* Nothing but system calls: anything may be broken by now. */
static void keep_input(void)
{
	static const char says[] = "the input that did it was kept; its file's name ends in "
				   ".finding\n";
	int fd;

	if (!running.data)
		return;
	fd = open(finding, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, running.data, running.size) < 0 || close(fd) < 0)
		return;
	if (write(STDERR_FILENO, says, sizeof(says) - 1) < 0)
		return;
}

static void ended(int signal_number)
{
	static const char hangs[] = "this input takes too long\n";

	if (signal_number == SIGALRM && write(STDERR_FILENO, hangs, sizeof(hangs) - 1) < 0)
		_exit(1);
	keep_input();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
	const char *given = getenv(name);

	return given && *given ? strtoul(given, NULL, 0) : otherwise;
}

static void watch(void)
{
	const char *folder = getenv("FUZZ_FINDINGS");
	struct sigaction action = { .sa_handler = ended, .sa_flags = (int)SA_RESETHAND };

	snprintf(finding, sizeof(finding), "%s/%s.finding", folder ? folder : ".", fuzz_name);
	sigaction(SIGABRT, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(keep_input);
}

/* A copy of exactly its size lets a sanitizer see a read too far. */
static void run(struct bytes input)
{
	_cleanup_(freep) uint8_t *copy = malloc(input.size ? input.size : 1);

	fuzz_need(copy);
	if (input.size)
		memcpy(copy, input.data, input.size);
	running = bytes_make(copy, input.size);
	alarm((unsigned)from_environment("FUZZ_HANG", 180));
	LLVMFuzzerTestOneInput(copy, input.size);
	alarm(0);
	running = bytes_make(NULL, 0);
}

static void corpus_add(struct buf *input)
{
	corpus.input = reallocarray(corpus.input, corpus.count + 1, sizeof(*corpus.input));
	fuzz_need(corpus.input);
	corpus.input[corpus.count++] = *input;
	*input = (struct buf){ 0 };
}

static void corpus_done(void)
{
	for (size_t i = 0; i < corpus.count; i++)
		buf_done(&corpus.input[i]);
	free(corpus.input);
}

static void read_input(const char *path, struct buf *input)
{
	FILE *file = fopen(path, "re");
	char part[4096];
	size_t n;

	fuzz_check(file, "%s cannot be opened", path);
	while ((n = fread(part, 1, sizeof(part), file)) > 0)
		fuzz_put(input, part, n);
	fclose(file);
}

/* Mutations. */

static size_t place_in(const struct buf *input, uint64_t *state)
{
	return random_below(state, input->size + 1);
}

/* Replace the bytes between from and to. */
static void replace_part(struct buf *input, size_t from, size_t to, struct bytes by)
{
	_cleanup_(buf_done) struct buf whole = { 0 };
	struct buf before;

	fuzz_put(&whole, input->data, from);
	fuzz_put(&whole, by.data, by.size);
	fuzz_put(&whole, input->data + to, input->size - to);
	before = *input;
	*input = whole;
	whole = before;
}

static void flip_bit(struct buf *input, uint64_t *state)
{
	if (input->size)
		input->data[random_below(state, input->size)] ^=
			(char)(1 << random_below(state, 8));
}

static void set_byte(struct buf *input, uint64_t *state)
{
	if (input->size)
		input->data[random_below(state, input->size)] = (char)random_next(state);
}

static void insert_bytes(struct buf *input, uint64_t *state)
{
	uint64_t bytes = random_next(state);
	size_t at = place_in(input, state);

	replace_part(input, at, at, bytes_make(&bytes, 1 + random_below(state, sizeof(bytes))));
}

static void insert_word(struct buf *input, uint64_t *state)
{
	size_t at = place_in(input, state), words = 0, over;
	struct bytes word;

	while (fuzz_words[words].data)
		words++;
	if (!words)
		return;
	word = fuzz_words[random_below(state, words)];
	over = random_below(state, 2) ? MIN(word.size, input->size - at) : 0;
	replace_part(input, at, at + over, word);
}

static void remove_bytes(struct buf *input, uint64_t *state)
{
	size_t at = place_in(input, state);
	size_t size = 1 + random_below(state, random_below(state, 4) ? 8 : 256);

	replace_part(input, at, at + MIN(size, input->size - at), bytes_make(NULL, 0));
}

/* A part of this input, or of another one, put somewhere. */
static void copy_part(struct buf *input, uint64_t *state)
{
	const struct buf *other =
		random_below(state, 2) ? input : &corpus.input[random_below(state, corpus.count)];
	size_t from = place_in(other, state), at = place_in(input, state), size, over;
	_cleanup_(buf_done) struct buf part = { 0 };

	size = 1 + random_below(state, random_below(state, 4) ? 32 : 1024);
	size = MIN(size, other->size - from);
	over = random_below(state, 2) ? MIN(size, input->size - at) : 0;
	fuzz_put(&part, other->data + from, size);
	replace_part(input, at, at + over, buf_bytes(&part));
}

static void (*const mutations[])(struct buf *input, uint64_t *state) = {
	flip_bit,    set_byte,	   set_byte,  insert_bytes, insert_word,
	insert_word, remove_bytes, copy_part, copy_part,
};

static void mutate(uint64_t seed, unsigned n, struct buf *input)
{
	uint64_t state = seed + n * UINT64_C(0x632be59bd9b4e019);
	const struct buf *from = &corpus.input[random_below(&state, corpus.count)];

	fuzz_put(input, from->data, from->size);
	for (size_t i = 1 + random_below(&state, 8); i; i--)
		mutations[random_below(&state, ARRAY_SIZE(mutations))](input, &state);
	input->size = MIN(input->size, (size_t)INPUT_MAX);
}

/* Cases. */

static void run_seeds(void)
{
	for (;;) {
		struct buf seed = { 0 };

		if (!fuzz_seed((unsigned)corpus.count, &seed))
			break;
		run(buf_bytes(&seed));
		corpus_add(&seed);
	}
	printf("ok: %zu seeds\n", corpus.count);
}

static void run_findings(void)
{
	const char *top = getenv("top_srcdir");
	struct dirent **entries;
	char folder[2048];
	int count, found = 0;

	snprintf(folder, sizeof(folder), "%s/tests/fuzz/findings/%s", top ? top : ".", fuzz_name);
	count = scandir(folder, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		struct buf input = { 0 };
		char path[4096];

		if (entries[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
			read_input(path, &input);
			run(buf_bytes(&input));
			corpus_add(&input);
			found++;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	printf("ok: %d inputs that once found something\n", found);
}

static void run_mutations(uint64_t seed)
{
	unsigned long first = from_environment("FUZZ_FIRST", 0);
	unsigned long count = rounds("FUZZ_RUNS", (fuzz_runs + 4) / 5, fuzz_runs);

	for (run_number = (unsigned)first; run_number < first + count; run_number++) {
		_cleanup_(buf_done) struct buf input = { 0 };

		mutate(seed, run_number, &input);
		run(buf_bytes(&input));
	}
	printf("ok: %lu mutations\n", count);
}

int main(int argc, char **argv)
{
	uint64_t seed;

	LLVMFuzzerInitialize(&argc, &argv);
	watch();
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		_cleanup_(buf_done) struct buf input = { 0 };

		read_input(argv[i], &input);
		run(buf_bytes(&input));
	}
	if (argc > 1)
		return 0;
	seed = random_seed(fuzz_name);
	run_seeds();
	run_findings();
	run_mutations(seed);
	corpus_done();
	puts("3 passed, 0 failed");
	return 0;
}
