/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/moment.h"
#include "backend/s3/internal.h"

/* Where each is found. */
static const struct {
	const char *variable, *setting, *element;
} texts[CREDENTIAL_TEXTS] = {
	[CREDENTIAL_ID] = { "AWS_ACCESS_KEY_ID", "aws_access_key_id", "AccessKeyId" },
	[CREDENTIAL_SECRET] = { "AWS_SECRET_ACCESS_KEY", "aws_secret_access_key",
				"SecretAccessKey" },
	[CREDENTIAL_TOKEN] = { "AWS_SESSION_TOKEN", "aws_session_token", "SessionToken" },
};

static void wipe(struct buf *secret)
{
	if (secret->data)
		explicit_bzero(secret->data, secret->room);
	buf_done(secret);
}

void credentials_done(struct credentials *credentials)
{
	for (size_t i = 0; i < CREDENTIAL_TEXTS; i++) {
		if (credentials->text[i])
			explicit_bzero(credentials->text[i], strlen(credentials->text[i]));
		free(credentials->text[i]);
	}
	*credentials = (struct credentials){ 0 };
}

static bool is_whole(const struct credentials *credentials)
{
	return credentials->text[CREDENTIAL_ID] && credentials->text[CREDENTIAL_SECRET];
}

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* ---- ~/.aws ---- */

static void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* The value of a setting in a section of a file, or NULL. */
static char *file_get(const char *path, const char *section, const char *setting)
{
	_cleanup_(fclosep) FILE *file = descriptor_stream(path);
	char line[4096], name[256], text[4096], *value = NULL;
	bool inside = false;

	while (file && !value && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " [ profile %255[^] \t]", name) == 1 ||
		    sscanf(line, " [ %255[^] \t]", name) == 1)
			inside = strcmp(name, section) == 0;
		else if (inside && sscanf(line, " %255[^#;= \t] = %4095s", name, text) == 2 &&
			 strcmp(name, setting) == 0)
			value = strdup(text);
	}
	explicit_bzero(line, sizeof(line));
	explicit_bzero(text, sizeof(text));
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

/* ---- Web identity ---- */

/* AssumeRoleWithWebIdentity: a token that a platform has put into a file, for credentials. */
static int exchange(struct s3 *s3, struct credentials *found, const char *path, const char *role,
		    char **ret_why)
{
	const char *session = environment("AWS_ROLE_SESSION_NAME");
	_cleanup_(fclosep) FILE *file = descriptor_stream(path);
	_cleanup_(wipe) struct buf form = { 0 }, text = { 0 };
	char token[16384] = "";
	_cleanup_(freep) char *named = profile_get("AWS_ENDPOINT_URL_STS", "sts_endpoint_url");
	_cleanup_(freep) char *url =
		named ? str_printf("%s/", named) :
			str_printf("https://sts.%s.amazonaws.com/", s3->region);
	_cleanup_(s3_request_done) struct s3_request request = { .method = "POST",
								 .url = url,
								 .lane = S3_LANES };
	const bool is_read = file && fscanf(file, "%16383s", token) == 1;
	const struct s3_pair pairs[S3_PAIRS] = {
		{ "Action", BYTES("AssumeRoleWithWebIdentity") },
		{ "RoleArn", bytes_str(role) },
		{ "RoleSessionName", bytes_str(session ? session : "sessfs") },
		{ "Version", BYTES("2011-06-15") },
		{ "WebIdentityToken", bytes_str(token) },
	};

	int r = url ? s3_encode_pairs(pairs, &form) : -ENOMEM;

	explicit_bzero(token, sizeof(token));
	if (!is_read)
		return str_explain(ret_why, -EACCES, "cannot read the token in %s", path);
	if (r < 0)
		return r;
	request.body = buf_bytes(&form);
	r = s3_perform(s3, &request);
	if (r == -EINTR)
		return r;
	for (size_t i = 0; r == 0 && i < CREDENTIAL_TEXTS; i++) {
		buf_clear(&text);
		r = s3_text(buf_bytes(&request.data), texts[i].element, &text);
		found->text[i] = r == 0 ? bytes_dup(buf_bytes(&text)) : NULL;
	}
	buf_clear(&text);
	if (r == 0 && s3_text(buf_bytes(&request.data), "Expiration", &text) == 0)
		found->expires = moment_read(text.data);
	wipe(&request.data);
	if (r == 0 && is_whole(found))
		return 0;
	credentials_done(found);
	return str_explain(ret_why, -EACCES,
			   "%s gives no credentials for the token of web identity: %s", url,
			   request.why ? request.why : "it has answered something else");
}

int credentials_find(struct s3 *s3, struct credentials *credentials, char **ret_why)
{
	_cleanup_(freep) char *path = NULL, *role = NULL;

	credentials_done(credentials);
	for (size_t i = 0; i < CREDENTIAL_TEXTS; i++)
		credentials->text[i] =
			environment(texts[i].variable) ? strdup(getenv(texts[i].variable)) : NULL;
	if (is_whole(credentials))
		return 0;
	credentials_done(credentials);
	for (size_t i = 0; i < CREDENTIAL_TEXTS; i++) {
		credentials->text[i] =
			aws_get("AWS_SHARED_CREDENTIALS_FILE", "credentials", texts[i].setting);
		if (!credentials->text[i])
			credentials->text[i] =
				aws_get("AWS_CONFIG_FILE", "config", texts[i].setting);
	}
	if (is_whole(credentials))
		return 0;
	credentials_done(credentials);
	path = profile_get("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
	role = profile_get("AWS_ROLE_ARN", "role_arn");
	if (path && role)
		return exchange(s3, credentials, path, role, ret_why);
	return str_explain(ret_why, -EACCES,
			   "there are no credentials for S3: set AWS_ACCESS_KEY_ID and "
			   "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for one of ~/.aws/credentials");
}
