/* SPDX-License-Identifier: MIT */
#include "backend/url/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/buf.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"

/* A file of passwords is smaller. */
enum { FILE_MAX = 64 * 1024 };

/* A file in memory of a fixed size, so that no copy of it stays behind when it grows. */
struct file {
	char text[FILE_MAX + 1]; /* with a NUL behind it */
	char *path;
	mode_t mode;
};

static void file_free(struct file **file)
{
	if (!*file)
		return;
	explicit_bzero((*file)->text, sizeof((*file)->text));
	free((*file)->path);
	free(*file);
}

static int read_all(int fd, char *text, size_t room)
{
	size_t size = 0;
	ssize_t more;

	do {
		more = read(fd, text + size, room - size);
		size += more > 0 ? (size_t)more : 0;
	} while ((more > 0 && size < room) || (more < 0 && errno == EINTR));
	text[size] = '\0';
	return more < 0 ? -errno : size == room ? -EFBIG : 0;
}

/* The caller frees *ret_file, also after an error.  -errno, and a sentence. */
static int file_read(const char *path, struct file **ret_file, char **ret_why)
{
	_cleanup_(closep) int fd = descriptor_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct file *file = *ret_file = calloc(1, sizeof(*file));
	struct stat st;
	int r = 0;

	if (!file)
		return -ENOMEM;
	file->path = bytes_dup(bytes_str(path));
	if (!file->path)
		return -ENOMEM;
	if (fd < 0 || fstat(fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode))
		r = -EINVAL;
	else
		r = read_all(fd, file->text, FILE_MAX);
	if (r < 0)
		return str_explain(ret_why, r, "cannot read the password in %s: %s", path,
				   r == -EINVAL ? "it is not a regular file" : strerror(-r));
	file->mode = st.st_mode;
	return 0;
}

/* Take what was found in a file as the password. */
static int secret_take(struct url *url, const struct file *file, const char *password,
		       char **ret_why)
{
	if (file->mode & (S_IRWXG | S_IRWXO))
		return str_explain(ret_why, -EACCES,
				   "the password in %s is not used, because other users can open "
				   "the file; run 'chmod 600 %s'",
				   file->path, file->path);
	url->password = bytes_dup(bytes_str(password));
	return url->password ? 0 : -ENOMEM;
}

static int from_passfile(struct url *url, char **ret_why)
{
	_cleanup_(file_free) struct file *file = NULL;
	int r = file_read(url->passfile, &file, ret_why);

	if (r < 0)
		return r;
	file->text[strcspn(file->text, "\r\n")] = '\0';
	if (!*file->text)
		return str_explain(ret_why, -EINVAL,
				   "the first line of %s is empty; it must be the password",
				   url->passfile);
	return secret_take(url, file, file->text, ret_why);
}

/* A file in the user's home.  A missing or unreadable one counts as empty, as for the servers' own
 * clients. */
static int read_at_home(const char *name, struct file **ret_file, char **ret_why)
{
	const char *home = secure_getenv("HOME");
	const struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
	_cleanup_(freep) char *path = str_printf("%s/%s",
						 user ? user->pw_dir :
						 home ? home :
							"",
						 name);
	int r = path ? file_read(path, ret_file, ret_why) : -ENOMEM;

	if (r != -ENOENT && r != -ENOTDIR && r != -EACCES)
		return r;
	free(*ret_why);
	*ret_why = NULL;
	return 0;
}

/* The value of an option of MySQL's, in place: quotes and backslashes go. */
static char *unquote(char *value)
{
	static const char escapes[][2] = { "bB", "tT", "nN", "rR", "sS" };
	static const char meant[] = { '\b', '\t', '\n', '\r', ' ' };
	char quote = '\0', *to, *from;

	value += strspn(value, " \t");
	if (*value == '\'' || *value == '"')
		quote = *value++;
	for (to = from = value; *from && *from != quote && (quote || *from != '#'); to++, from++) {
		*to = *from;
		if (*from != '\\' || !from[1])
			continue;
		*to = *++from;
		for (size_t i = 0; i < ARRAY_SIZE(escapes); i++)
			if (*from == escapes[i][0])
				*to = meant[i];
	}
	while (!quote && to > value && strchr(" \t", to[-1]))
		to--;
	*to = '\0';
	return value;
}

/* The last value of an option in a group of MySQL's option files, cut out of the text; NULL: it has
 * none. */
static char *option_in(char *text, const char *group, const char *name)
{
	char *found = NULL, *place = NULL;
	bool inside = false;

	for (char *line = strtok_r(text, "\r\n", &place); line;
	     line = strtok_r(NULL, "\r\n", &place)) {
		size_t size;

		line += strspn(line, " \t");
		size = strcspn(line, " \t=");
		if (*line == '[')
			inside = strncmp(line + 1, group, strlen(group)) == 0 &&
				 line[1 + strlen(group)] == ']';
		if (!inside || strlen(name) != size || strncmp(line, name, size) != 0)
			continue;
		line += size + strspn(line + size, " \t");
		if (*line == '=')
			found = unquote(line + 1);
	}
	return found;
}

int secret_find_user(struct url *url, char **ret_why)
{
	_cleanup_(file_free) struct file *file = NULL;
	const char *user;
	int r;

	if (url->user || strcmp(url->scheme, "mysql") != 0)
		return 0;
	r = read_at_home(".my.cnf", &file, ret_why);
	if (r < 0)
		return r;
	user = option_in(file->text, "client", "user");
	if (!user || !*user)
		return 0;
	url->user = bytes_dup(bytes_str(user));
	return url->user ? 0 : -ENOMEM;
}

static int from_my_cnf(struct url *url, char **ret_why)
{
	_cleanup_(file_free) struct file *file = NULL;
	const char *password;
	int r = read_at_home(".my.cnf", &file, ret_why);

	if (r < 0)
		return r;
	password = option_in(file->text, "client", "password");
	return password && *password ? secret_take(url, file, password, ret_why) : 0;
}

/* The next field of a line of .pgpass, in place: up to a ':' that has no backslash before it. */
static char *field_of(char **line)
{
	char *field = *line, *to = field, *from = field;

	for (; *from && *from != ':'; from++) {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	*line = *from ? from + 1 : from;
	*to = '\0';
	return field;
}

/* HOST:PORT:DATABASE:USER:PASSWORD, of which the first four may be "*". */
static const char *password_in(char *line, const struct url *url)
{
	char port[16];
	const char *const wanted[] = { url->host ? url->host : "localhost", port, url->database,
				       url->user };
	bool fits = *line != '#';

	snprintf(port, sizeof(port), "%u", url_port(url));
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		bool any = strncmp(line, "*:", 2) == 0;
		const char *field = field_of(&line);

		fits = fits && (any || strcmp(field, wanted[i]) == 0);
	}
	return fits ? field_of(&line) : NULL;
}

static int from_pgpass(struct url *url, char **ret_why)
{
	_cleanup_(file_free) struct file *file = NULL;
	const char *password = NULL;
	char *place = NULL;
	int r = read_at_home(".pgpass", &file, ret_why);

	if (r < 0)
		return r;
	for (char *line = strtok_r(file->text, "\r\n", &place); line && !password;
	     line = strtok_r(NULL, "\r\n", &place))
		password = password_in(line, url);
	return password && *password ? secret_take(url, file, password, ret_why) : 0;
}

static const struct source {
	const char *scheme, *variable;
	int (*from_home)(struct url *url, char **ret_why);
} sources[] = {
	{ "mysql", "MYSQL_PWD", from_my_cnf },
	{ "postgresql", "PGPASSWORD", from_pgpass },
	{ "redis", "REDISCLI_AUTH", NULL },
};

int secret_find(struct url *url, char **ret_why)
{
	const struct source *source = sources;
	const char *password;

	if (url->passfile)
		return from_passfile(url, ret_why);
	while (strcmp(source->scheme, url->scheme) != 0)
		source++;
	password = secure_getenv(source->variable);
	if (password && *password) {
		url->password = bytes_dup(bytes_str(password));
		return url->password ? 0 : -ENOMEM;
	}
	return source->from_home ? source->from_home(url, ret_why) : 0;
}
