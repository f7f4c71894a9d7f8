/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/moment.h"
#include "backend/s3/internal.h"

static void forget(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

void credentials_done(struct credentials *credentials)
{
	forget(&credentials->id);
	forget(&credentials->secret);
	forget(&credentials->token);
}

static const char *environment(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* ---- ~/.aws ---- */

static void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

static char *trim(char *text)
{
	size_t size;

	text += strspn(text, " \t");
	size = strlen(text);
	while (size && strchr(" \t\r\n", text[size - 1]))
		size--;
	text[size] = '\0';
	return text;
}

/* The value of a setting in a section of a file, or NULL. */
static char *file_get(const char *path, const char *section, const char *setting)
{
	_cleanup_(fclosep) FILE *file = descriptor_stream(path);
	char line[4096], *value = NULL, *text, *equals;
	bool inside = false;

	while (file && !value && fgets(line, sizeof(line), file)) {
		text = trim(line);
		if (*text == '[') {
			text[strcspn(text, "]")] = '\0';
			text = trim(text + 1);
			if (strncmp(text, "profile ", 8) == 0)
				text = trim(text + 8);
			inside = strcmp(text, section) == 0;
		}
		equals = strchr(text, '=');
		if (!inside || !equals || strchr("#;", *text))
			continue;
		*equals = '\0';
		if (strcmp(trim(text), setting) == 0)
			value = strdup(trim(equals + 1));
	}
	explicit_bzero(line, sizeof(line));
	return value;
}

static char *aws_get(const char *variable, const char *file, const char *setting)
{
	const char *home = environment("HOME"), *profile = environment("AWS_PROFILE");
	const char *named = environment(variable);
	_cleanup_(freep) char *path = named ? strdup(named) :
				      home  ? str_printf("%s/.aws/%s", home, file) :
					      NULL;

	return path ? file_get(path, profile ? profile : "default", setting) : NULL;
}

char *profile_get(const char *variable, const char *setting)
{
	const char *value = environment(variable);

	return value ? strdup(value) : aws_get("AWS_CONFIG_FILE", "config", setting);
}

static char *shared_get(const char *setting)
{
	char *value = aws_get("AWS_SHARED_CREDENTIALS_FILE", "credentials", setting);

	return value ? value : aws_get("AWS_CONFIG_FILE", "config", setting);
}

/* ---- Web identity ---- */

static int append_field(struct buf *form, const char *name, const char *value)
{
	int r = buf_printf(form, "&%s=", name);

	return r < 0 ? r : s3_encode(bytes_str(value), form);
}

static int read_token(const char *path, char text[16384], char **ret_why)
{
	_cleanup_(fclosep) FILE *file = descriptor_stream(path);
	const size_t size = file ? fread(text, 1, 16383, file) : 0;

	text[size] = '\0';
	return size ? 0 : str_explain(ret_why, -EACCES, "cannot read the token in %s", path);
}

static int take_element(void *arg, const char *name, struct bytes text)
{
	struct credentials *found = arg;
	char **field = strcmp(name, "AccessKeyId") == 0	    ? &found->id :
		       strcmp(name, "SecretAccessKey") == 0 ? &found->secret :
		       strcmp(name, "SessionToken") == 0    ? &found->token :
							      NULL;
	_cleanup_(freep) char *copy = bytes_dup(text);

	if (!copy)
		return -ENOMEM;
	if (field && !*field)
		*field = steal_ptr(copy);
	else if (strcmp(name, "Expiration") == 0)
		found->expires = moment_read(copy);
	return 0;
}

/* AssumeRoleWithWebIdentity: a token that a platform has put into a file, for credentials. */
static int exchange(struct s3 *s3, struct credentials *found, const char *path, const char *role,
		    char **ret_why)
{
	const char *session = environment("AWS_ROLE_SESSION_NAME");
	_cleanup_(buf_done) struct buf form = { 0 };
	_cleanup_(freep) char *named = profile_get("AWS_ENDPOINT_URL_STS", "sts_endpoint_url");
	_cleanup_(freep) char *url =
		named ? str_printf("%s/", named) :
			str_printf("https://sts.%s.amazonaws.com/", s3->region);
	_cleanup_(s3_request_done) struct s3_request request = { .method = "POST", .url = url };
	char token[16384];
	int r = url ? read_token(path, token, ret_why) : -ENOMEM;

	if (r == 0)
		r = buf_append_str(&form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
	if (r == 0)
		r = append_field(&form, "RoleArn", role);
	if (r == 0)
		r = append_field(&form, "RoleSessionName", session ? session : "sessfs");
	if (r == 0)
		r = append_field(&form, "WebIdentityToken", trim(token));
	request.body = buf_bytes(&form);
	if (r == 0)
		r = s3_perform(s3, &request);
	if (r == 0)
		r = xml_read(buf_bytes(&request.data), take_element, found);
	explicit_bzero(token, sizeof(token));
	if (form.data)
		explicit_bzero(form.data, form.size);
	if (request.data.data)
		explicit_bzero(request.data.data, request.data.size);
	if (r == -EINTR || (r == 0 && found->id && found->secret && found->token))
		return r;
	return str_explain(ret_why, -EACCES,
			   "%s gives no credentials for the token of web identity: %s", url,
			   request.why ? request.why : "it has answered something else");
}

int credentials_find(struct s3 *s3, struct credentials *credentials, char **ret_why)
{
	const char *id = environment("AWS_ACCESS_KEY_ID");
	const char *secret = environment("AWS_SECRET_ACCESS_KEY");
	const char *token = environment("AWS_SESSION_TOKEN");
	_cleanup_(freep) char *path = NULL, *role = NULL;

	*credentials = (struct credentials){ 0 };
	if (id && secret) {
		credentials->id = strdup(id);
		credentials->secret = strdup(secret);
		credentials->token = token ? strdup(token) : NULL;
		return credentials->id && credentials->secret ? 0 : -ENOMEM;
	}
	credentials->id = shared_get("aws_access_key_id");
	credentials->secret = shared_get("aws_secret_access_key");
	credentials->token = shared_get("aws_session_token");
	if (credentials->id && credentials->secret)
		return 0;
	path = profile_get("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
	role = profile_get("AWS_ROLE_ARN", "role_arn");
	credentials_done(credentials);
	if (path && role)
		return exchange(s3, credentials, path, role, ret_why);
	return str_explain(ret_why, -EACCES,
			   "there are no credentials for S3: set AWS_ACCESS_KEY_ID and "
			   "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for one of ~/.aws/credentials");
}
