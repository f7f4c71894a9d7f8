/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/plugin.h"
#include "backend/s3/internal.h"

static int find_place(struct s3 *s3, const struct s3_options *options, char **ret_why)
{
	_cleanup_(freep) char *endpoint = options->endpoint ? strdup(options->endpoint) : NULL;
	const char *host;
	size_t size;

	if (!endpoint)
		endpoint = s3_setting("AWS_ENDPOINT_URL_S3", "s3_endpoint_url");
	if (!endpoint)
		endpoint = s3_setting("AWS_ENDPOINT_URL", "endpoint_url");
	/* A certificate for *.s3.amazonaws.com is not for a name with more dots. */
	s3->by_path = options->style == S3_STYLE_PATH ||
		      (options->style == S3_STYLE_AUTO && (endpoint || strchr(s3->bucket, '.')));
	if (!endpoint)
		endpoint = str_printf("https://s3.%s.amazonaws.com", s3->region);
	if (!endpoint)
		return -ENOMEM;
	host = strncmp(endpoint, "http://", 7) == 0  ? endpoint + 7 :
	       strncmp(endpoint, "https://", 8) == 0 ? endpoint + 8 :
						       "";
	size = strcspn(host, "/?#@");
	if (!size || strspn(host + size, "/") != strlen(host + size))
		return str_explain(ret_why, -EINVAL,
				   "an endpoint is http[s]://HOST[:PORT] and nothing more; "
				   "credentials come from the environment or ~/.aws");
	endpoint[(size_t)(host - endpoint) + size] = '\0';
	s3->host = host;
	s3->place = steal_ptr(endpoint);
	return 0;
}

static void client_close(struct s3 *s3)
{
	if (!s3)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(s3->handles); i++)
		curl_easy_cleanup(s3->handles[i]);
	pthread_mutex_destroy(&s3->lock);
	credentials_done(s3);
	free(s3->bucket);
	free(s3->region);
	free(s3->signing);
	free(s3->place);
	free(s3->ca);
	free(s3);
}

static int client_open(const struct s3_options *options, struct s3 **ret_s3, char **ret_why)
{
	struct s3 *s3 = calloc(1, sizeof(*s3));
	const char *tries = getenv("AWS_MAX_ATTEMPTS");
	int r;

	if (!s3)
		return -ENOMEM;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	pthread_mutex_init(&s3->lock, NULL);
	s3->tries = tries && atoi(tries) > 0 ? (unsigned)atoi(tries) : 8;
	s3->stopped = options->stopped;
	s3->bucket = strdup(options->bucket);
	s3->region = options->region ? strdup(options->region) : s3_setting("AWS_REGION", "region");
	if (!s3->region)
		s3->region = s3_setting("AWS_DEFAULT_REGION", "region");
	if (!s3->region)
		s3->region = strdup("us-east-1");
	s3->signing = s3->region ? str_printf("aws:amz:%s:s3", s3->region) : NULL;
	s3->ca = s3_setting("AWS_CA_BUNDLE", "ca_bundle");
	r = s3->bucket && s3->signing ? find_place(s3, options, ret_why) : -ENOMEM;
	if (r == 0)
		*ret_s3 = s3;
	else
		client_close(s3);
	return r;
}

static const char *client_place(const struct s3 *s3)
{
	return s3->place;
}

void *s3_sha256(void *digest, struct bytes data, char ret_text[S3_HASH])
{
	EVP_MD_CTX *context = digest ? digest : EVP_MD_CTX_new();
	unsigned char bytes[EVP_MAX_MD_SIZE];
	unsigned size = 0;

	if (context && (digest || EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1))
		EVP_DigestUpdate(context, data.data, data.size);
	if (!ret_text)
		return context;
	if (context)
		EVP_DigestFinal_ex(context, bytes, &size);
	*ret_text = '\0';
	for (unsigned i = 0; i < size; i++)
		snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
	EVP_MD_CTX_free(context);
	return NULL;
}

const struct s3_ops s3_ops = {
	.open = client_open,
	.close = client_close,
	.place = client_place,
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
