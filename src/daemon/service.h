/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_H
#define SERVICE_H

/*
 * Messages to a service manager such as systemd about a mount in the foreground: that it can be
 * used, and that it ends.  The protocol is that of sd_notify(3).
 *
 * Call service_begin() before the daemon gives up its rights; the other functions may come after it
 * and do nothing without a manager that listens.
 */

/* Connect to the socket that $NOTIFY_SOCKET names, if it names one, and take the variable away: the
 * answer is not for our children to give. */
void service_begin(void);

/* The mount answers.  The sentence says what is served. */
void service_ready(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The mount is being taken down; what is pending is still written. */
void service_stopping(void);

#endif
