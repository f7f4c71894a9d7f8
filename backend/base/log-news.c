/* SPDX-License-Identifier: MIT */
#include "backend/base/log-news.h"

static const int64_t MINUTE = INT64_C(60000000000);

bool log_news_is(struct log_news *news, struct bytes sentence, int64_t now)
{
	static const uint8_t key[16];
	uint8_t digest[DIGEST_SIZE];

	if (now >= news->until) {
		news->until = now + MINUTE;
		news->count = 0;
	}
	if (log_news_full(news))
		return false;
	digest_make(key, sentence, digest);
	for (unsigned i = 0; i < news->count; i++)
		if (memcmp(news->said[i], digest, sizeof(digest)) == 0)
			return false;
	memcpy(news->said[news->count++], digest, sizeof(digest));
	return true;
}
