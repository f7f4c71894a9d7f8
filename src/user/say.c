/* SPDX-License-Identifier: MIT */
#include "src/user/say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fs/base/names.h"
#include "backend/base/cleanup.h"
#include "backend/base/utf8.h"
#include "backend/base/log.h"
#include "src/user/progress.h"

static void print_stderr(int level, const char *sentence)
{
	WITH_PROGRESS_HELD;

	(void)level;
	fprintf(stderr, "sessfs: %s\n", sentence);
}

/* The journal records the program's name itself. */
static void print_journal(int level, const char *sentence)
{
	fprintf(stderr, "<%d>%s\n", level, sentence);
}

static void print_syslog(int level, const char *sentence)
{
	syslog(level, "%s", sentence);
}

static void print_while_starting(int level, const char *sentence)
{
	if (level <= LOG_NOTICE)
		print_stderr(level, sentence);
	else
		print_syslog(level, sentence);
}

/* Whether stderr leads to the journal, which takes a level at the start of each line. */
static bool has_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	int end = 0;

	return stream && sscanf(stream, "%llu:%llu%n", &device, &inode, &end) == 2 &&
	       !stream[end] && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device &&
	       st.st_ino == inode;
}

void say_to_stderr(int level)
{
	log_set_level(level);
	log_set_sink(has_journal() ? print_journal : print_stderr);
}

void say_while_starting(void)
{
	openlog("sessfs", LOG_PID, LOG_DAEMON);
	log_set_level(LOG_INFO);
	log_set_sink(print_while_starting);
}

bool say_has_syslog(void)
{
	static const int types[] = { SOCK_DGRAM, SOCK_STREAM };
	const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		_cleanup_(closep) int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0);

		if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
			return true;
	}
	return false;
}

/* The log file, for a system without a log. */
static struct {
	int fd; /* -1: not in use */
	char *path;
	bool fresh;	   /* was made by us, or was empty */
	atomic_bool warns; /* holds a notice or worse */
	atomic_llong size; /* bytes that we have written to it */
} file = { .fd = -1 };

/* A daemon runs for years: the file begins anew when it has become large. */
static void print_file(int level, const char *sentence)
{
	enum { MOST = 16 << 20 };
	char when[32] = "";
	time_t now = time(NULL);
	struct stat st;
	struct tm utc;

	if (level <= LOG_NOTICE)
		file.warns = true;
	if (gmtime_r(&now, &utc))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
	if (fstat(file.fd, &st) == 0 && st.st_size > MOST && ftruncate(file.fd, 0) < 0)
		return;
	file.size += dprintf(file.fd, "%s sessfs[%d]: %s\n", when, (int)getpid(), sentence);
}

int say_open_file(const char *path)
{
	_cleanup_(closep) int fd =
		open(path,
		     O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		     0600);
	struct stat st;

	if (fd < 0)
		return -errno;
	/* A process that removes the file holds an exclusive lock on it (say_close_file()). */
	while (flock(fd, LOCK_SH) < 0 && errno == EINTR)
		;
	if (fstat(fd, &st) == 0 && !st.st_nlink)
		return say_open_file(path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return -EEXIST;
	file.path = bytes_dup(bytes_str(path));
	file.fresh = st.st_size == 0;
	file.fd = fd;
	fd = -1;
	return 0;
}

/* Other processes may log to the same file and have warned: keep it then. */
void say_close_file(void)
{
	struct stat st;

	if (file.fd >= 0 && file.fresh && !file.warns && file.path &&
	    flock(file.fd, LOCK_EX | LOCK_NB) == 0 && fstat(file.fd, &st) == 0 &&
	    st.st_size == file.size)
		unlink(file.path);
}

void say_to_log(void)
{
	log_set_sink(file.fd < 0 ? print_syslog : print_file);
}

int say_why(const char *why, int error)
{
	if (why || error != -EINTR)
		log_error("%s", why ? why : strerror(-error));
	return error;
}

/* Why something was not printed, or could not even be made: stdio knows that, but not why. */
static int lost;

/* Only glibc lets a program put another stream in the place of stdout; elsewhere the reason why
 * something was not printed stays unknown. */
#ifdef __GLIBC__

static ssize_t print_bytes(void *cookie, const char *bytes, size_t size)
{
	size_t done = 0;

	(void)cookie;
	while (done < size) {
		ssize_t written = write(STDOUT_FILENO, bytes + done, size - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			lost = lost ? lost : -errno;
			break;
		}
		done += (size_t)written;
	}
	return (ssize_t)done;
}

int say_begin(void)
{
	const cookie_io_functions_t functions = { .write = print_bytes };
	FILE *out = fopencookie(NULL, "w", functions);

	if (!out)
		return -ENOMEM;
	setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
	stdout = out;
	return 0;
}

#else

int say_begin(void)
{
	return 0;
}

#endif

/* The numbers that are not whole are times: seconds since 1970, which are exact to the millisecond
 * in so many digits. */
enum { JSON_FLAGS = JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(13) };

static void say_value(json_t *value)
{
	/* What could not be written has its own reason. */
	if (!value || (json_dumpf(value, stdout, JSON_FLAGS) < 0 && !ferror(stdout)))
		lost = lost ? lost : -ENOMEM;
	json_decref(value);
}

void say_json(json_t *value)
{
	say_value(value);
	putchar('\n');
}

void say_item(struct say_list *list, json_t *value)
{
	fputs(list->begun ? ",\n" : "[\n", stdout);
	list->begun = true;
	say_value(value);
}

void say_list_end(struct say_list *list)
{
	if (list->json)
		puts(list->begun ? "\n]" : "[]");
}

void say_heading(struct say_list *list, const char *heading)
{
	if (!list->begun && isatty(STDOUT_FILENO))
		puts(heading);
	list->begun = true;
}

bool say_has_heading(const struct say_list *list)
{
	return !list->json && list->begun && isatty(STDOUT_FILENO);
}

json_t *say_json_name(const char *name, size_t size)
{
	_cleanup_(buf_done) struct buf shown = { 0 };
	struct bytes bytes = bytes_make(name, size);

	if (utf8_valid(bytes))
		return json_stringn(name, size);
	if (names_encode(NAMES_KEY, bytes, NAME_LIMIT, &shown) < 0)
		return NULL;
	return json_stringn(shown.data, shown.size);
}

/* Bytes of the character that begins here; 0 when it is none, or one that a terminal obeys. */
static size_t shown_size(const char *name)
{
	unsigned char first = (unsigned char)*name;
	bool control =
		first < ' ' || first == 0x7f || (first == 0xc2 && (unsigned char)name[1] < 0xa0);

	return control ? 0 : utf8_sequence(bytes_make(name, strnlen(name, 4)));
}

/* $'...', which bash, zsh, ksh and others read. */
static void print_escaped(const char *name)
{
	fputs("$'", stdout);
	while (*name) {
		size_t size = shown_size(name);

		if (*name == '\'' || *name == '\\')
			putchar('\\');
		if (!size)
			printf("\\%03o", (unsigned char)*name);
		else
			fwrite(name, 1, size, stdout);
		name += size ? size : 1;
	}
	putchar('\'');
}

static void print_quoted(const char *name)
{
	putchar('\'');
	for (; *name; name++)
		fputs(*name == '\'' ? "'\\''" : (char[]){ *name, '\0' }, stdout);
	putchar('\'');
}

void say_name(const char *name, const char *end)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_@%+=:,./-";
	bool shown = true, bare = true;

	for (const char *p = name; shown && *p; p += shown_size(p)) {
		shown = shown_size(p) > 0;
		bare &= (unsigned char)*p >= 0x80 || strchr(plain, *p);
	}
	if (!isatty(STDOUT_FILENO) || (shown && bare && *name))
		fputs(name, stdout);
	else if (shown)
		print_quoted(name);
	else
		print_escaped(name);
	fputs(end, stdout);
}

bool say_is_unheard(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

int say_finish(void)
{
	static bool told;
	int r = fflush(stdout) != 0 || ferror(stdout) ? -EIO : 0;

	if (lost < 0)
		r = lost;
	if (r < 0 && !told && !say_is_unheard())
		log_error("cannot write to the standard output: %s", strerror(-r));
	told = r < 0;
	return r;
}
