/* SPDX-License-Identifier: MIT */
#include "backend/base/digest.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

struct state {
	uint64_t v[4];
};

static inline uint64_t rotate(uint64_t word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static void sip_rounds(struct state *s, int rounds)
{
	uint64_t *v = s->v;

	while (rounds-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static uint64_t load_word(const void *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return le64toh(word);
}

static void compress(struct state *s, uint64_t word)
{
	s->v[3] ^= word;
	sip_rounds(s, 2);
	s->v[0] ^= word;
}

static void put_half(struct state *s, uint8_t *half)
{
	uint64_t word;

	sip_rounds(s, 4);
	word = htole64(s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3]);
	memcpy(half, &word, sizeof(word));
}

void digest_make(const uint8_t key[16], struct bytes data, uint8_t ret_digest[DIGEST_SIZE])
{
	uint64_t k0 = load_word(key), k1 = load_word(key + 8);
	size_t whole = data.size - data.size % 8;
	uint8_t last[8] = { 0 };
	/* "somepseudorandomlygeneratedbytes", as the specification has it. */
	struct state s = { {
		k0 ^ UINT64_C(0x736f6d6570736575),
		k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
		k0 ^ UINT64_C(0x6c7967656e657261),
		k1 ^ UINT64_C(0x7465646279746573),
	} };

	for (size_t at = 0; at < whole; at += 8)
		compress(&s, load_word(data.data + at));
	if (data.size > whole)
		memcpy(last, data.data + whole, data.size - whole);
	last[7] = (uint8_t)data.size;
	compress(&s, load_word(last));

	s.v[2] ^= 0xee;
	put_half(&s, ret_digest);
	s.v[1] ^= 0xdd;
	put_half(&s, ret_digest + 8);
}

void digest_show(const char *key, struct bytes data, char ret_text[DIGEST_TEXT])
{
	uint8_t digest[DIGEST_SIZE], bytes[16] = { 0 };

	memcpy(bytes, key, strnlen(key, sizeof(bytes)));
	digest_make(bytes, data, digest);
	bytes_hex(bytes_make(digest, DIGEST_SIZE), ret_text);
}
