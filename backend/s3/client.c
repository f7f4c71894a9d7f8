/* SPDX-License-Identifier: MIT */
/* A bucket: where it is, what is in it, and digests. */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/s3/internal.h"

static const struct {
	const char *variable, *setting;
} endpoints[] = {
	{ "AWS_ENDPOINT_URL_S3", "s3_endpoint_url" },
	{ "AWS_ENDPOINT_URL", "endpoint_url" },
}, regions[] = {
	{ "AWS_REGION", "region" },
	{ "AWS_DEFAULT_REGION", "region" },
};

int s3_encode(struct bytes text, struct buf *query)
{
	/* A size of 0 would be that of a string. */
	char *encoded = text.size ? curl_easy_escape(NULL, text.data, (int)text.size) : strdup("");
	int r = encoded ? buf_printf(query, "%s", encoded) : -ENOMEM;

	free(encoded);
	return r;
}

/* ---- Opening ---- */

static int client_place(struct s3 *s3, const struct s3_options *options, char **ret_why)
{
	_cleanup_(freep) char *endpoint = options->endpoint ? strdup(options->endpoint) : NULL;
	const bool dotted = strchr(options->bucket, '.');
	const char *host;
	size_t size;

	for (size_t i = 0; !endpoint && i < ARRAY_SIZE(endpoints); i++)
		endpoint = profile_get(endpoints[i].variable, endpoints[i].setting);
	/* A certificate for *.s3.amazonaws.com is not for a name with more dots. */
	s3->by_path = options->style == S3_STYLE_AUTO ? endpoint || dotted :
							options->style == S3_STYLE_PATH;
	if (!endpoint)
		endpoint = str_printf("https://s3.%s.amazonaws.com", s3->region);
	host = endpoint ? strstr(endpoint, "://") : NULL;
	if (!host ||
	    (strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0))
		return str_explain(ret_why, -EINVAL,
				   "an endpoint is http[s]://HOST[:PORT], and '%s' is none",
				   endpoint ? endpoint : "");
	host += strlen("://");
	size = strcspn(host, "/?#@");
	if (!size || strspn(host + size, "/") != strlen(host + size))
		return str_explain(ret_why, -EINVAL,
				   "an endpoint is http[s]://HOST[:PORT] and nothing more; "
				   "credentials come from the environment or ~/.aws");
	endpoint[(size_t)(host - endpoint) + size] = '\0';
	s3->host = endpoint + (host - endpoint);
	s3->place = steal_ptr(endpoint);
	return 0;
}

static void client_close(struct s3 *s3)
{
	if (!s3)
		return;
	while (s3->idle_count)
		curl_easy_cleanup(s3->idle[--s3->idle_count]);
	credentials_done(&s3->credentials);
	pthread_mutex_destroy(&s3->lock);
	free(s3->bucket);
	free(s3->region);
	free(s3->signing);
	free(s3->place);
	free(s3->ca);
	free(s3);
}

static void client_closep(struct s3 **s3)
{
	client_close(*s3);
}

static int client_open(const struct s3_options *options, struct s3 **ret_s3, char **ret_why)
{
	_cleanup_(client_closep) struct s3 *s3 = calloc(1, sizeof(*s3));
	pthread_mutexattr_t attr;
	const char *tries = getenv("AWS_MAX_ATTEMPTS");
	int r;

	if (!s3 || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return -ENOMEM;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&s3->lock, &attr);
	s3->tries = tries && atoi(tries) > 0 ? (unsigned)atoi(tries) : 8;
	s3->stopped = options->stopped;
	s3->seed = (unsigned)getpid();
	s3->bucket = strdup(options->bucket);
	s3->region = options->region ? strdup(options->region) : NULL;
	for (size_t i = 0; !s3->region && i < ARRAY_SIZE(regions); i++)
		s3->region = profile_get(regions[i].variable, regions[i].setting);
	if (!s3->region)
		s3->region = strdup("us-east-1");
	s3->signing = s3->region ? str_printf("aws:amz:%s:s3", s3->region) : NULL;
	s3->ca = profile_get("AWS_CA_BUNDLE", "ca_bundle");
	if (!s3->bucket || !s3->signing)
		return -ENOMEM;
	r = client_place(s3, options, ret_why);
	if (r == 0)
		*ret_s3 = steal_ptr(s3);
	return r;
}

static const char *client_where(const struct s3 *s3)
{
	return s3->place;
}

/* ---- Listing ---- */

struct page {
	s3_object_fn *fn;
	void *arg;
	struct s3_object object;
	struct buf key, token;
	char etag[S3_ETAG], modified[64];
	bool encoded, truncated;
};

static void page_done(struct page *page)
{
	buf_done(&page->key);
	buf_done(&page->token);
}

static void page_copy(char *text, size_t room, struct bytes from)
{
	snprintf(text, room, "%.*s", (int)from.size, from.data ? from.data : "");
}

/* EncodingType stands before the first object; a blank is a plus sign then. */
static int take_key(struct page *page, struct bytes text)
{
	_cleanup_(freep) char *copy = bytes_dup(text);
	char *decoded;
	int size = (int)text.size, r;

	if (!copy)
		return -ENOMEM;
	for (char *at = copy; page->encoded && (at = strchr(at, '+'));)
		*at = ' ';
	decoded = page->encoded ? curl_easy_unescape(NULL, copy, 0, &size) : strdup(copy);
	buf_clear(&page->key);
	r = decoded ? buf_append(&page->key, decoded, (size_t)size) : -ENOMEM;
	free(decoded);
	return r;
}

static int take_part(void *arg, const char *name, struct bytes text)
{
	struct page *page = arg;
	char number[24];
	int r = 0;

	if (strcmp(name, "EncodingType") == 0) {
		page->encoded = bytes_equal(text, BYTES("url"));
	} else if (strcmp(name, "IsTruncated") == 0) {
		page->truncated = bytes_equal(text, BYTES("true"));
	} else if (strcmp(name, "NextContinuationToken") == 0) {
		buf_clear(&page->token);
		r = buf_append_bytes(&page->token, text);
	} else if (strcmp(name, "Key") == 0) {
		r = take_key(page, text);
	} else if (strcmp(name, "ETag") == 0) {
		if (text.size > 1 && *text.data == '"')
			text = bytes_make(text.data + 1, text.size - 2);
		page_copy(page->etag, sizeof(page->etag), text);
	} else if (strcmp(name, "Size") == 0) {
		page_copy(number, sizeof(number), text);
		page->object.size = strtoull(number, NULL, 10);
	} else if (strcmp(name, "LastModified") == 0) {
		page_copy(page->modified, sizeof(page->modified), text);
	} else if (strcmp(name, "Contents") == 0) {
		page->object.key = buf_bytes(&page->key);
		page->object.etag = page->etag;
		page->object.modified = page->modified;
		r = page->fn(page->arg, &page->object);
		page->object = (struct s3_object){ 0 };
		page->etag[0] = page->modified[0] = '\0';
	}
	return r;
}

static int list_page(struct s3 *s3, struct bytes prefix, unsigned most, struct page *page,
		     char **ret_why)
{
	_cleanup_(s3_request_done) struct s3_request request = { .method = "GET",
								 .limit = 32 << 20 };
	_cleanup_(buf_done) struct buf query = { 0 };
	int r = buf_printf(&query, "%s", page->token.size ? "continuation-token=" : "");

	if (r == 0 && page->token.size)
		r = s3_encode(buf_bytes(&page->token), &query);
	if (r == 0)
		r = buf_printf(&query, "%sencoding-type=url&list-type=2&max-keys=%u&prefix=",
			       page->token.size ? "&" : "", most ? most : 1000);
	if (r == 0)
		r = s3_encode(prefix, &query);
	request.query = query.data;
	if (r == 0)
		r = s3_perform(s3, &request);
	if (r < 0) {
		*ret_why = steal_ptr(request.why);
		return r;
	}
	page->encoded = page->truncated = false;
	buf_clear(&page->token);
	r = xml_read(buf_bytes(&request.data), take_part, page);
	if (r == -EBADMSG || (r == 0 && page->truncated && !page->token.size))
		r = str_explain(ret_why, -EIO, "s3://%s: %s has answered with no list of objects",
				s3->bucket, s3->place);
	return r;
}

static int client_list(struct s3 *s3, struct bytes prefix, unsigned most, s3_object_fn *fn,
		       void *arg, char **ret_why)
{
	_cleanup_(page_done) struct page page = { .fn = fn, .arg = arg };
	int r;

	do {
		r = list_page(s3, prefix, most, &page, ret_why);
	} while (r == 0 && page.truncated && !most);
	return r;
}

/* ---- Digests ---- */

static void write_digest(const unsigned char *bytes, unsigned size, char ret_text[S3_HASH])
{
	*ret_text = '\0';
	for (unsigned i = 0; i < size && 2 * i + 2 < S3_HASH; i++)
		snprintf(ret_text + 2 * i, 3, "%02x", bytes[i]);
}

static void client_md5(struct bytes data, char ret_text[S3_HASH])
{
	unsigned char bytes[EVP_MAX_MD_SIZE];
	unsigned size = 0;

	if (EVP_Digest(data.data, data.size, bytes, &size, EVP_md5(), NULL) != 1)
		size = 0;
	write_digest(bytes, size, ret_text);
}

static void *client_sha256(void *digest, struct bytes data, char ret_text[S3_HASH])
{
	EVP_MD_CTX *context = digest ? digest : EVP_MD_CTX_new();
	unsigned char bytes[EVP_MAX_MD_SIZE];
	unsigned size = 0;

	if (context && !digest)
		EVP_DigestInit_ex(context, EVP_sha256(), NULL);
	if (context)
		EVP_DigestUpdate(context, data.data, data.size);
	if (!ret_text)
		return context;
	if (context)
		EVP_DigestFinal_ex(context, bytes, &size);
	write_digest(bytes, size, ret_text);
	EVP_MD_CTX_free(context);
	return NULL;
}

const struct s3_ops s3_ops = {
	.open = client_open,
	.close = client_close,
	.place = client_where,
	.perform = s3_perform,
	.list = client_list,
	.encode = s3_encode,
	.md5 = client_md5,
	.sha256 = client_sha256,
};
