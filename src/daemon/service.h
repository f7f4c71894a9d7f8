/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_H
#define SERVICE_H

/*
 * What a service manager such as systemd is told by a mount in the foreground: that it can be used,
 * and that it ends.  The protocol is that of sd_notify(3).
 *
 * service_begin() comes before the daemon gives up its rights, everything else may come after it
 * and does nothing where there is no manager that listens.
 */

/* Connect to the socket that $NOTIFY_SOCKET names, if it names one, and take the variable away: the
 * answer is not for our children to give. */
void service_begin(void);

/* The mount answers.  The sentence says what is served. */
void service_ready(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The mount is being taken down; what is pending is still written. */
void service_stopping(void);

#endif
