/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "backend/base/descriptor.h"
#include "backend/base/moment.h"
#include "backend/plugin.h"
#include "backend/s3/internal.h"

/* Where each is found, in the environment and in an answer. */
static const struct {
	const char *variable, *element;
} texts[CREDENTIALS] = {
	[CREDENTIAL_ID] = { "AWS_ACCESS_KEY_ID", "AccessKeyId" },
	[CREDENTIAL_SECRET] = { "AWS_SECRET_ACCESS_KEY", "SecretAccessKey" },
	[CREDENTIAL_TOKEN] = { "AWS_SESSION_TOKEN", "SessionToken" },
};

/* Copied, or NULL. */
static char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? strdup(value) : NULL;
}

enum source { SHARED, CONFIG, ENVIRONMENT };

/* What the profile's section in ~/.aws/credentials or ~/.aws/config has under the name of the
 * variable, in small letters, with its AWS_ or without. */
static char *in_file(enum source source, const char *variable)
{
	static const char *const files[][2] = {
		[SHARED] = { "AWS_SHARED_CREDENTIALS_FILE", "credentials" },
		[CONFIG] = { "AWS_CONFIG_FILE", "config" },
	};
	const char *home = getenv("HOME"), *profile = getenv("AWS_PROFILE");
	const char *section = profile && *profile ? profile : "default";
	_cleanup_(freep) char *path = environment(files[source][0]);
	_cleanup_(fclosep) FILE *file = NULL;
	char line[4096], name[256], text[4096], *value = NULL;
	size_t margin = 0; /* what is nested stands further to the right */
	bool inside = false;

	if (!path)
		path = str_printf("%s/.aws/%s", home ? home : "", files[source][1]);
	file = path ? descriptor_stream(path) : NULL;
	while (!value && file && fgets(line, sizeof(line), file)) {
		const size_t indent = strspn(line, " \t");
		const bool named = source == CONFIG &&
				   sscanf(line, " [ profile%*[ \t\"]%255[^] \t\"]", name) == 1;

		if (named || sscanf(line, " [ %255[^] \t]", name) == 1) {
			inside = strcmp(name, section) == 0 &&
				 (named || source == SHARED || strcmp(name, "default") == 0);
			margin = SIZE_MAX;
			continue;
		}
		*text = '\0';
		if (!inside || sscanf(line, " %255[^#;= \t\r\n] = %4095s", name, text) < 1)
			continue;
		margin = MIN(margin, indent);
		if (indent == margin && *text &&
		    (strcasecmp(name, variable) == 0 ||
		     strcasecmp(name, variable + strlen("AWS_")) == 0))
			value = strdup(text);
	}
	return value;
}

static char *setting(const char *variable)
{
	char *value = environment(variable);

	value = value ? value : in_file(SHARED, variable);
	return value ? value : in_file(CONFIG, variable);
}

/* Where AWS has a service. */
static char *service_url(const char *service, const char *region)
{
	/* By what the region begins with. */
	static const char *const domains[][2] = {
		{ "cn-", "amazonaws.com.cn" },	  { "eusc-", "amazonaws.eu" },
		{ "us-iso-", "c2s.ic.gov" },	  { "us-isob-", "sc2s.sgov.gov" },
		{ "us-isof-", "csp.hci.ic.gov" }, { "eu-isoe-", "cloud.adc-e.uk" },
		{ "", "amazonaws.com" },
	};
	size_t i = 0;

	while (strncmp(region, domains[i][0], strlen(domains[i][0])) != 0)
		i++;
	return str_printf("https://%s.%s.%s", service, region, domains[i][1]);
}

static void credentials_done(struct s3 *s3)
{
	for (size_t i = 0; i < CREDENTIALS; i++)
		free(steal_ptr(s3->credentials[i]));
	s3->expires = 0;
}

/* All from one place, or none: 1, 0 or -EACCES. */
static int credentials_take(struct s3 *s3, enum source source, char **ret_why)
{
	credentials_done(s3);
	for (size_t i = 0; i < CREDENTIALS; i++)
		s3->credentials[i] = source == ENVIRONMENT ? environment(texts[i].variable) :
							     in_file(source, texts[i].variable);
	if (!s3->credentials[CREDENTIAL_ID])
		return 0;
	if (s3->credentials[CREDENTIAL_SECRET])
		return 1;
	return str_explain(ret_why, -EACCES, "there is an %s, but no %s beside it",
			   texts[CREDENTIAL_ID].variable, texts[CREDENTIAL_SECRET].variable);
}

int credentials_find(struct s3 *s3, char **ret_why)
{
	_cleanup_(freep) char *path = setting("AWS_WEB_IDENTITY_TOKEN_FILE");
	_cleanup_(freep) char *role = setting("AWS_ROLE_ARN");
	_cleanup_(freep) char *name = setting("AWS_ROLE_SESSION_NAME");
	_cleanup_(freep) char *url = environment("AWS_ENDPOINT_URL_STS"), *expires = NULL;
	_cleanup_(fclosep) FILE *file = path && role ? descriptor_stream(path) : NULL;
	_cleanup_(buf_done) struct buf form = { 0 };
	char token[16384];
	const struct s3_pair pairs[S3_PAIRS] = { { "Action", "AssumeRoleWithWebIdentity" },
						 { "RoleArn", role },
						 { "RoleSessionName", name ? name : "sessfs" },
						 { "Version", "2011-06-15" },
						 { "WebIdentityToken", token } };
	S3_REQUEST(request, .method = "POST", .lane = S3_LANES);
	int r;

	r = credentials_take(s3, ENVIRONMENT, ret_why);
	for (unsigned i = SHARED; r == 0 && !(path && role) && i <= CONFIG; i++)
		r = credentials_take(s3, i, ret_why);
	if (r == 0 && !(path && role))
		r = str_explain(ret_why, -EACCES,
				"there are no credentials for S3: set AWS_ACCESS_KEY_ID and "
				"AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for one of "
				"~/.aws/credentials");
	if (r <= 0)
		credentials_done(s3);
	if (r != 0)
		return MIN(r, 0);
	/* A token that a platform has put into a file is exchanged for credentials. */
	if (!url)
		url = setting("AWS_ENDPOINT_URL");
	if (!url)
		url = service_url("sts", s3->region);
	if (!url || !file || fscanf(file, "%16383s", token) != 1)
		return str_explain(ret_why, -EACCES, "cannot read the token in %s", path);
	r = s3_encode_pairs(pairs, "", &form);
	request.url = url;
	request.body = buf_bytes(&form);
	if (r == 0)
		r = s3_perform(s3, &request);
	for (size_t i = 0; r == 0 && i < CREDENTIALS; i++) {
		s3->credentials[i] = s3_text(buf_bytes(&request.data), texts[i].element);
		r = s3->credentials[i] ? 0 : -EACCES;
	}
	if (r == 0)
		expires = s3_text(buf_bytes(&request.data), "Expiration");
	s3->expires = expires ? moment_read(expires) : 0;
	if (r == 0 || r == -EINTR)
		return r;
	credentials_done(s3);
	return str_explain(ret_why, -EACCES,
			   "%s gives no credentials for the token of web identity: %s", url,
			   request.why ? request.why : "it has answered something else");
}

/* ---- Opening ---- */

static void client_close(struct s3 **at)
{
	struct s3 *s3 = *at;

	if (!s3)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(s3->handles); i++)
		curl_easy_cleanup(s3->handles[i]);
	pthread_mutex_destroy(&s3->lock);
	credentials_done(s3);
	free(s3->region);
	free(s3->signing);
	free(s3->place);
	free(s3->start);
	free(s3->ca);
	free(s3);
}

static int client_open(const struct s3_options *options, struct s3 **ret_s3, const char **ret_place,
		       char **ret_why)
{
	_cleanup_(client_close) struct s3 *s3 = calloc(1, sizeof(*s3));
	_cleanup_(freep) char *endpoint =
		options->endpoint ? strdup(options->endpoint) : environment("AWS_ENDPOINT_URL_S3");
	const char *tries = getenv("AWS_MAX_ATTEMPTS");
	char scheme[6], host[300];
	int size = 0;

	if (!s3)
		return -ENOMEM;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	for (size_t i = 0; i < ARRAY_SIZE(s3->handles); i++)
		s3->handles[i] = curl_easy_init();
	pthread_mutex_init(&s3->lock, NULL);
	s3->tries = tries && atoi(tries) > 0 ? (unsigned)atoi(tries) : 8;
	s3->stopped = options->stopped;
	s3->ca = setting("AWS_CA_BUNDLE");
	s3->bucket = options->bucket;
	s3->region = options->region && *options->region ? strdup(options->region) :
							   environment("AWS_REGION");
	if (!s3->region)
		s3->region = environment("AWS_DEFAULT_REGION");
	if (!s3->region)
		s3->region = setting("AWS_REGION");
	if (!s3->region)
		s3->region = strdup("us-east-1");
	s3->signing = s3->region ? str_printf("aws:amz:%s:s3", s3->region) : NULL;
	if (!endpoint)
		endpoint = setting("AWS_ENDPOINT_URL");
	if (!s3->signing)
		return -ENOMEM;
	/* A certificate for *.s3.amazonaws.com is not for a name with more dots. */
	const bool by_path = options->style ? strcmp(options->style, "path") == 0 :
					      endpoint || strchr(s3->bucket, '.');

	if (!endpoint)
		endpoint = service_url("s3", s3->region);
	if (endpoint && (sscanf(endpoint, "%5[htps]://%299[^/?#@]%n", scheme, host, &size) != 2 ||
			 (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
			 endpoint[size + strspn(endpoint + size, "/")]))
		return str_explain(ret_why, -EINVAL,
				   "an endpoint is http[s]://HOST[:PORT] and nothing more; "
				   "credentials come from the environment or ~/.aws");
	s3->place = endpoint ? str_printf("%s://%s", scheme, host) : NULL;
	s3->start = !s3->place ? NULL :
		    by_path    ? str_printf("%s/%s", s3->place, s3->bucket) :
				 str_printf("%s://%s.%s", scheme, s3->bucket, host);
	if (!s3->start)
		return -ENOMEM;
	*ret_place = s3->place;
	*ret_s3 = steal_ptr(s3);
	return 0;
}

int s3_sha256(struct bytes data, char ret_text[S3_HASH])
{
	unsigned char digest[S3_HASH / 2];
	const bool done = EVP_Digest(data.data, data.size, digest, NULL, EVP_sha256(), NULL) == 1;

	bytes_hex(bytes_make(digest, done ? sizeof(digest) : 0), ret_text);
	return done ? 0 : -EOPNOTSUPP;
}

const struct s3_ops s3_ops = {
	.open = client_open,
	.close = client_close,
	.perform = s3_perform,
	.list = s3_list,
	.text = s3_text,
	.sha256 = s3_sha256,
};

const struct plugin sessfs_plugin = {
	.abi = plugin_abi,
	.seam = plugin_seam,
	.set_log_sink = log_set_sink,
	.set_log_level = log_set_level,
	.s3 = &s3_ops,
};
