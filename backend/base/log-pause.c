/* SPDX-License-Identifier: MIT */
#include "backend/base/log-pause.h"

#include "backend/base/cleanup.h"

#define SECONDS(n) ((n)*INT64_C(1000000000))
#define FIRST SECONDS(1)
#define LONGEST SECONDS(60)
#define FORGOTTEN SECONDS(10) /* what is tried again after a second is not over in between */

bool log_pause_over(struct log_pause *pause, int64_t now)
{
	bool is_new = !pause->last || now - pause->last > FORGOTTEN;

	pause->last = now;
	if (!is_new && now < pause->again)
		return false;
	pause->pause = is_new ? FIRST : MIN(2 * pause->pause, LONGEST);
	pause->again = now + pause->pause;
	return true;
}
