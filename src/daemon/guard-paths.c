/* SPDX-License-Identifier: MIT */
/*
 * Landlock: which files can be reached.  Needed are the store's folder, where SQLite makes the WAL
 * and its companions; unnamed temporary files, for large saves; and two devices.  Files that are
 * open already, as the device of the mount is, are not concerned.
 *
 * A store on a server needs no folder.  To connect again, it needs what the C library reads to find
 * an address by a name, and which certificates are trusted; and it may connect to the server's port
 * and to that of name servers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "src/daemon/guard.h"

#if __has_include(<linux/landlock.h>) && defined(SYS_landlock_create_ruleset)
#include <linux/landlock.h>

/* What older headers lack. */
struct net_port {
	uint64_t access, port;
};
enum {
	RULE_NET_PORT = 2,
	FS_TRUNCATE = 1 << 14,	       /* version 3 */
	FS_IOCTL_DEV = 1 << 15,	       /* 5 */
	NET_BIND_TCP = 1 << 0,	       /* 4 */
	NET_CONNECT_TCP = 1 << 1,      /* 4 */
	SCOPE_ABSTRACT_SOCKET = 1 << 0 /* 6 */
};

enum {
	FS_READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
	FS_WRITE = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE,
	FS_MAKE = LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE,
	FS_FILE = FS_WRITE | LANDLOCK_ACCESS_FS_EXECUTE | FS_IOCTL_DEV, /* that a file can have */
	FS_VERSION_1 = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1,
};

/* As the kernel has it since version 6; older ones take the beginning. */
struct ruleset {
	uint64_t fs, net, scoped;
};

/* What each version of Landlock can forbid. */
static const struct {
	size_t size;
	struct ruleset handled;
} versions[] = {
	{ offsetof(struct ruleset, net), { .fs = FS_VERSION_1 } },
	{ offsetof(struct ruleset, net), { .fs = FS_VERSION_1 | LANDLOCK_ACCESS_FS_REFER } },
	{ offsetof(struct ruleset, net), { .fs = (FS_TRUNCATE << 1) - 1 } },
	{ offsetof(struct ruleset, scoped),
	  { .fs = (FS_TRUNCATE << 1) - 1, .net = NET_BIND_TCP | NET_CONNECT_TCP } },
	{ offsetof(struct ruleset, scoped),
	  { .fs = (FS_IOCTL_DEV << 1) - 1, .net = NET_BIND_TCP | NET_CONNECT_TCP } },
	{ sizeof(struct ruleset),
	  { .fs = (FS_IOCTL_DEV << 1) - 1,
	    .net = NET_BIND_TCP | NET_CONNECT_TCP,
	    .scoped = SCOPE_ABSTRACT_SOCKET } },
};

/* A path that is not there is not needed either. */
static int allow(int rules, const char *path, uint64_t access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access };
	_cleanup_(closep) int fd = path && *path ? open(path, O_PATH | O_CLOEXEC) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_FILE;
	rule.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return -errno;
	return 0;
}

static int allow_port(int rules, unsigned port)
{
	const struct net_port rule = { NET_CONNECT_TCP, port };

	return syscall(SYS_landlock_add_rule, rules, RULE_NET_PORT, &rule, 0) < 0 ? -errno : 0;
}

/* What connecting to a host by TCP needs. */
static int allow_host(int rules, const struct guard *guard, const struct ruleset *handled)
{
	enum { NAME_SERVERS = 53 };
	const char *const read[] = { "/etc", "/run/systemd/resolve", "/usr/share/ca-certificates",
				     "/usr/local/share/ca-certificates", guard->file };
	int r = 0;

	/* Files there are replaced by others while the daemon lives, so it is not enough to name
	 * some. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(read); i++)
		r = allow(rules, read[i], FS_READ & handled->fs);
	if (r == 0 && handled->net)
		r = allow_port(rules, guard->port);
	if (r == 0 && handled->net)
		r = allow_port(rules, NAME_SERVERS);
	return r;
}

static int allow_all(int rules, const struct guard *guard, uint64_t handled)
{
	const uint64_t temporary = FS_WRITE | (guard->makes_files ? FS_READ | FS_MAKE : 0);
	const struct {
		const char *path;
		uint64_t access;
	} needed[] = {
		{ guard->folder, FS_READ | FS_WRITE | FS_MAKE },
		{ getenv("TMPDIR"), temporary },
		{ "/var/tmp", temporary },
		{ "/tmp", temporary },
		{ "/dev/null", FS_WRITE },
		{ "/proc", LANDLOCK_ACCESS_FS_READ_FILE }, /* whether a writer lives: handle.c */
		{ "/dev/urandom", LANDLOCK_ACCESS_FS_READ_FILE }, /* SQLite's temporary names */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
		{ "/", FS_READ }, /* a report names functions and lines */
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		int r = allow(rules, needed[i].path, needed[i].access & handled);

		if (r < 0)
			return r;
	}
	return 0;
}

int guard_rules(const struct guard *guard)
{
	long version =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	enum { PORT_MAX = 65535 };
	struct ruleset handled;
	int rules, r;
	size_t i;

	if (version < 1)
		return -ENOSYS; /* or compiled in, but not started */
	i = MIN((size_t)version, ARRAY_SIZE(versions)) - 1;
	handled = versions[i].handled;
	if (guard->port > PORT_MAX)
		handled.net = 0;
	rules = (int)syscall(SYS_landlock_create_ruleset, &handled, versions[i].size, 0);
	if (rules < 0)
		return -errno;
	r = allow_all(rules, guard, handled.fs);
	if (r == 0 && guard->connects && guard->port)
		r = allow_host(rules, guard, &handled);
	if (r == 0)
		return rules;
	close(rules);
	return r;
}

int guard_paths(const struct guard *guard)
{
	_cleanup_(closep) int own = guard->rules ? -1 : guard_rules(guard);
	int rules = guard->rules ? guard->rules : own;

	if (rules < 0)
		return rules;
	return syscall(SYS_landlock_restrict_self, rules, 0) < 0 ? -errno : 0;
}

#else

int guard_rules(const struct guard *guard)
{
	(void)guard;
	return -ENOSYS;
}

int guard_paths(const struct guard *guard)
{
	(void)guard;
	return -ENOSYS;
}

#endif
