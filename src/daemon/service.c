/* SPDX-License-Identifier: MIT */
/*
 * libsystemd is not used: sd_notify() makes a new socket for each message, which a daemon that has
 * given up its rights may not.  Ours is connected before that, and there is nothing more to the
 * protocol than datagrams of lines "NAME=value".
 */
#include "src/daemon/service.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/base/log.h"

/* The socket of the manager; -1: there is none. */
static int manager = -1;

/* A name that begins with '@' is not a file: the kernel gets a NUL in its place. */
static int connect_to(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t size = strlen(name);
	int fd;

	if (*name != '/' && *name != '@')
		return -EAFNOSUPPORT;
	if (!name[1] || size >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, name, size);
	if (*name == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

void service_begin(void)
{
	const char *name = getenv("NOTIFY_SOCKET");

	if (!name || !*name)
		return;
	manager = connect_to(name);
	if (manager < 0)
		log_warning("cannot reach the service manager at %s: %s", name, strerror(-manager));
	unsetenv("NOTIFY_SOCKET");
}

static void service_tell(const char *message)
{
	if (manager >= 0 && send(manager, message, strlen(message), MSG_NOSIGNAL) < 0)
		log_warning("cannot send a message to the service manager: %s", strerror(errno));
}

void service_ready(const char *format, ...)
{
	static const char head[] = "READY=1\nSTATUS=";
	char message[4096];
	va_list args;

	memcpy(message, head, sizeof(head));
	va_start(args, format);
	vsnprintf(message + sizeof(head) - 1, sizeof(message) - sizeof(head) + 1, format, args);
	va_end(args);
	/* A newline in a path would begin another message. */
	for (char *p = message + sizeof(head) - 1; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	service_tell(message);
}

void service_stopping(void)
{
	service_tell("STOPPING=1\nSTATUS=Unmounting, and writing what is pending");
}
