/* SPDX-License-Identifier: MIT */
#ifndef BASE_LOG_NEWS_H
#define BASE_LOG_NEWS_H

/*
 * Limits messages that a user can cause as often as wanted: in a minute each sentence is logged
 * once, and no more than LOG_NEWS_MOST at all.  All zeros to begin with; for one thread at a time.
 */

#include "backend/base/buf.h"
#include "backend/base/digest.h"

enum { LOG_NEWS_MOST = 20 };

struct log_news {
	int64_t until; /* end of the minute, by tick_now() */
	unsigned count;
	uint8_t said[LOG_NEWS_MOST][DIGEST_SIZE];
};

/* Whether to say it now; after the last one, log_news_full(). */
bool log_news_is(struct log_news *news, struct bytes sentence, int64_t now);

/* Nothing more is said in this minute. */
static inline bool log_news_full(const struct log_news *news)
{
	return news->count == LOG_NEWS_MOST;
}

#endif
