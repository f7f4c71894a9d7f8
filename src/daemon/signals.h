/* SPDX-License-Identifier: MIT */
#ifndef SIGNALS_H
#define SIGNALS_H

/*
 * The signals that end a mount: SIGTERM, SIGINT and SIGHUP, the last one unless it is ignored, as
 * after nohup(1).
 */

/* Hold them back: from before there is a mount, so that none can end the process and leave a dead
 * mount behind. */
void signals_hold(void);

/* From here on each of them calls this function, which must be async-signal-safe: at once, and then
 * every second, since a thread that is about to wait may have missed the first. */
void signals_watch(void (*stop)(void));

/* Hold them back again. */
void signals_end(void);

#endif
