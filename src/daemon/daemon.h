/* SPDX-License-Identifier: MIT */
#ifndef DAEMON_H
#define DAEMON_H

/*
 * Going into the background: a child does the work, the parent waits until it can be used.
 *
 * The child keeps its parent's stderr, terminal and folder until it calls daemon_ready(), so an
 * error before that is printed where the user looks, and ^C ends both.  A signal that ends the
 * parent before it has returned ends the child, too.  Threads and open databases do not survive a
 * fork: run() must open and start everything.
 */

struct daemon {
	int (*run)(void *arg);	   /* in the child; its result is the child's exit status */
	int (*answers)(void *arg); /* in a process of its own, when the child is ready: 0 if all is
				    * well, or -errno after a sentence; then the child is to end */
	void *arg;
};

/* In the parent: 0 when the child is ready and answers, otherwise an exit status, after a sentence
 * that says why. */
int daemon_start(const struct daemon *daemon);

/* In the child, from any thread: leave the terminal, and let the parent go.  Does nothing in a
 * process that is not such a child. */
void daemon_ready(void);

#endif
