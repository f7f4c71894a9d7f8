/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/moment.h"
#include "backend/s3/internal.h"

/* Where each is found. */
static const struct {
	const char *variable, *setting, *element;
} texts[CREDENTIALS] = {
	[CREDENTIAL_ID] = { "AWS_ACCESS_KEY_ID", "aws_access_key_id", "AccessKeyId" },
	[CREDENTIAL_SECRET] = { "AWS_SECRET_ACCESS_KEY", "aws_secret_access_key",
				"SecretAccessKey" },
	[CREDENTIAL_TOKEN] = { "AWS_SESSION_TOKEN", "aws_session_token", "SessionToken" },
};

static const char *environment(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

static void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* The value of a setting in a section of a file, or NULL. */
static char *file_get(const char *path, const char *section, const char *setting)
{
	_cleanup_(fclosep) FILE *file = descriptor_stream(path);
	char line[4096], name[256], text[4096];
	bool inside = false;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " [ profile %255[^] \t]", name) == 1 ||
		    sscanf(line, " [ %255[^] \t]", name) == 1)
			inside = strcmp(name, section) == 0;
		else if (inside && sscanf(line, " %255[^#;= \t] = %4095s", name, text) == 2 &&
			 strcmp(name, setting) == 0)
			return strdup(text);
	}
	return NULL;
}

char *s3_setting(const char *variable, const char *setting)
{
	static const char *const files[][2] = {
		{ "AWS_SHARED_CREDENTIALS_FILE", "credentials" },
		{ "AWS_CONFIG_FILE", "config" },
	};
	const char *home = environment("HOME"), *profile = environment("AWS_PROFILE");
	char *value = environment(variable) ? strdup(environment(variable)) : NULL;

	for (size_t i = 0; !value && i < ARRAY_SIZE(files); i++) {
		const char *named = environment(files[i][0]);
		_cleanup_(freep) char *path =
			named ? strdup(named) :
				str_printf("%s/.aws/%s", home ? home : "", files[i][1]);

		value = path ? file_get(path, profile ? profile : "default", setting) : NULL;
	}
	return value;
}

/* AssumeRoleWithWebIdentity: a token that a platform has put into a file, for credentials. */
static int exchange(struct s3 *s3, const char *path, const char *role, char **ret_why)
{
	const char *session = environment("AWS_ROLE_SESSION_NAME");
	_cleanup_(buf_done) struct buf form = { 0 }, text = { 0 };
	_cleanup_(fclosep) FILE *file = descriptor_stream(path);
	_cleanup_(freep) char *named = s3_setting("AWS_ENDPOINT_URL_STS", "sts_endpoint_url");
	_cleanup_(freep) char *url =
		named ? str_printf("%s/", named) :
			str_printf("https://sts.%s.amazonaws.com/", s3->region);
	_cleanup_(s3_request_done) struct s3_request request = { .method = "POST",
								 .url = url,
								 .lane = S3_LANES };
	char token[16384];
	int r = file && fscanf(file, "%16383s", token) == 1 ? 0 : -EACCES;

	if (r < 0 || !url)
		return str_explain(ret_why, -EACCES, "cannot read the token in %s", path);
	r = s3_encode_pairs(
		(struct s3_pair[S3_PAIRS]){
			{ "Action", BYTES("AssumeRoleWithWebIdentity") },
			{ "RoleArn", bytes_str(role) },
			{ "RoleSessionName", bytes_str(session ? session : "sessfs") },
			{ "Version", BYTES("2011-06-15") },
			{ "WebIdentityToken", bytes_str(token) },
		},
		&form);
	request.body = buf_bytes(&form);
	if (r == 0)
		r = s3_perform(s3, &request);
	for (size_t i = 0; r == 0 && i < CREDENTIALS; i++) {
		buf_clear(&text);
		r = s3_text(buf_bytes(&request.data), texts[i].element, &text);
		s3->credentials[i] = r == 0 ? strdup(text.data) : NULL;
	}
	buf_clear(&text);
	if (r == 0 && s3_text(buf_bytes(&request.data), "Expiration", &text) == 0)
		s3->expires = moment_read(text.data);
	return r == 0 || r == -EINTR ?
		       r :
		       str_explain(ret_why, -EACCES,
				   "%s gives no credentials for the token of web identity: %s", url,
				   request.why ? request.why : "it has answered something else");
}

int credentials_find(struct s3 *s3, char **ret_why)
{
	const bool has_both = environment(texts[CREDENTIAL_ID].variable) &&
			      environment(texts[CREDENTIAL_SECRET].variable);
	_cleanup_(freep) char *path = NULL, *role = NULL;

	credentials_done(s3);
	for (size_t i = 0; i < CREDENTIALS; i++) {
		const char *value = has_both ? environment(texts[i].variable) : NULL;

		s3->credentials[i] = value    ? strdup(value) :
				     has_both ? NULL :
						s3_setting(NULL, texts[i].setting);
	}
	if (s3->credentials[CREDENTIAL_ID] && s3->credentials[CREDENTIAL_SECRET])
		return 0;
	credentials_done(s3);
	path = s3_setting("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file");
	role = s3_setting("AWS_ROLE_ARN", "role_arn");
	if (path && role)
		return exchange(s3, path, role, ret_why);
	return str_explain(ret_why, -EACCES,
			   "there are no credentials for S3: set AWS_ACCESS_KEY_ID and "
			   "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for one of ~/.aws/credentials");
}

void credentials_done(struct s3 *s3)
{
	for (size_t i = 0; i < CREDENTIALS; i++) {
		free(s3->credentials[i]);
		s3->credentials[i] = NULL;
	}
	s3->expires = 0;
}
