/* SPDX-License-Identifier: MIT */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

/*
 * SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012): a short name for long bytes.
 *
 * With a public key it tells bytes apart that differ by chance.  An attacker can make two that
 * collide, so a caller must bear a collision.
 */

#include <stdint.h>

#include "backend/base/buf.h"

enum { DIGEST_SIZE = 16, DIGEST_TEXT = 2 * DIGEST_SIZE + 1 };

void digest_make(const uint8_t key[16], struct bytes data, uint8_t ret_digest[DIGEST_SIZE]);
/* The same in hexadecimal digits; the key is text, of which the first 16 bytes count. */
void digest_show(const char *key, struct bytes data, char ret_text[DIGEST_TEXT]);

#endif
