/* SPDX-License-Identifier: MIT */
/*
 * One request: signed by libcurl, tried again where that helps, its failure as a sentence.
 *
 * libcurl signs the path and the query as they are sent, so both are made here in the one spelling
 * that is signed: sorted, each byte but the unreserved ones encoded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/s3/internal.h"

enum {
	CONNECT_SECONDS = 15,
	STALL_SECONDS = 30, /* without a byte */
	PAUSE_MS = 100,	    /* before the second try, then twice as long each time, up to: */
	PAUSE_MAX_MS = 20000,
	EARLY_SECONDS = 300, /* credentials are renewed before they end */
	ERROR_MAX = 64 << 10,
};

/* One try. */
struct attempt {
	struct s3 *s3;
	struct s3_request *request;
	struct buf url;
	struct curl_slist *headers;
	bool framed;
	bool overflows;
	long retry_after; /* seconds, or 0 */
	char region[64];  /* where the bucket is, by the answer */
	char date[64];	  /* the server's clock */
	char code[64];	  /* of its error */
	char message[256];
};

static void attempt_done(struct attempt *attempt)
{
	buf_done(&attempt->url);
	curl_slist_free_all(attempt->headers);
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct attempt *attempt = arg;
	struct s3_request *request = attempt->request;
	const uint64_t limit = request->status >= 300 ? ERROR_MAX :
			       request->limit	      ? request->limit :
							S3_OBJECT_MAX;

	if (request->data.size + size * count > limit) {
		attempt->overflows = true;
		return 0;
	}
	return buf_append(&request->data, data, size * count) == 0 ? size * count : 0;
}

/* The value of a header of that name, trimmed, or nothing. */
static bool is_header(struct bytes line, const char *name, char *value, size_t room)
{
	const size_t size = strlen(name);

	if (line.size <= size || strncasecmp(line.data, name, size) != 0 || line.data[size] != ':')
		return false;
	line = bytes_make(line.data + size + 1, line.size - size - 1);
	while (line.size && strchr(" \t\"", *line.data))
		line = bytes_make(line.data + 1, line.size - 1);
	while (line.size && strchr(" \t\r\n\"", line.data[line.size - 1]))
		line.size--;
	snprintf(value, room, "%.*s", (int)line.size, line.data);
	return true;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
	struct attempt *attempt = arg;
	struct s3_request *request = attempt->request;
	const struct bytes line = bytes_make(data, size * count);
	char value[64];

	if (bytes_starts_with(line, BYTES("HTTP/")) && line.size > 12)
		request->status = atoi(data + strcspn(data, " "));
	else if (is_header(line, "etag", request->etag, sizeof(request->etag)) ||
		 is_header(line, "x-amz-meta-sha256", request->sha256, sizeof(request->sha256)) ||
		 is_header(line, "x-amz-bucket-region", attempt->region, sizeof(attempt->region)) ||
		 is_header(line, "date", attempt->date, sizeof(attempt->date)))
		return line.size;
	else if (is_header(line, "content-length", value, sizeof(value)))
		request->size = strtoull(value, NULL, 10);
	else if (is_header(line, "content-encoding", value, sizeof(value)))
		attempt->framed = strstr(value, "aws-chunked");
	else if (is_header(line, "retry-after", value, sizeof(value)))
		attempt->retry_after = atol(value);
	return line.size;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t upload_total,
		       curl_off_t upload_now)
{
	const struct s3 *s3 = arg;

	(void)total, (void)now, (void)upload_total, (void)upload_now;
	return s3->stopped && s3->stopped();
}

/* ---- Making it ---- */

static int attempt_url(struct attempt *attempt)
{
	const struct s3 *s3 = attempt->s3;
	const struct s3_request *request = attempt->request;
	const char *key = request->key.data, *end = key + request->key.size, *slash;
	int r = request->url ? buf_printf(&attempt->url, "%s", request->url) :
		s3->by_path  ? buf_printf(&attempt->url, "%s/%s", s3->place, s3->bucket) :
			       buf_printf(&attempt->url, "%.*s%s.%s/", (int)(s3->host - s3->place),
					  s3->place, s3->bucket, s3->host);

	if (r == 0 && request->key.size && s3->by_path)
		r = buf_append_byte(&attempt->url, '/');
	for (; r == 0 && request->key.size; key = slash + 1) {
		slash = memchr(key, '/', (size_t)(end - key));
		r = s3_encode(bytes_make(key, (size_t)((slash ? slash : end) - key)),
			      &attempt->url);
		if (!slash)
			break;
		r = r < 0 ? r : buf_append_byte(&attempt->url, '/');
	}
	return r < 0 ? r :
		       buf_printf(&attempt->url, "%s%s", request->query ? "?" : "",
				  request->query ? request->query : "");
}

/* "name: value"; secrets are not left in memory that is free. */
static int attempt_header(struct attempt *attempt, const char *name, const char *value)
{
	_cleanup_(freep) char *line = str_printf("%s%s", name, value);
	struct curl_slist *list = line ? curl_slist_append(attempt->headers, line) : NULL;

	if (line)
		explicit_bzero(line, strlen(line));
	attempt->headers = list ? list : attempt->headers;
	return list ? 0 : -ENOMEM;
}

/* Under the lock: libcurl copies what it needs. */
static int attempt_credentials(struct attempt *attempt, CURL *curl)
{
	struct s3 *s3 = attempt->s3;
	struct credentials *credentials = &s3->credentials;
	int r = 0;

	pthread_mutex_lock(&s3->lock);
	if (credentials->expires &&
	    credentials->expires - time_now() < EARLY_SECONDS * INT64_C(1000000000))
		credentials_done(credentials);
	if (!credentials->id)
		r = credentials_find(s3, credentials, &attempt->request->why);
	if (r == 0 && credentials->token)
		r = attempt_header(attempt, "x-amz-security-token: ", credentials->token);
	if (r == 0) {
		curl_easy_setopt(curl, CURLOPT_USERNAME, credentials->id);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, credentials->secret);
		curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, s3->signing);
	}
	pthread_mutex_unlock(&s3->lock);
	return r;
}

static void attempt_options(struct attempt *attempt, CURL *curl)
{
	const struct s3_request *request = attempt->request;
	const bool bare = strcmp(request->method, "DELETE") == 0;

	curl_easy_setopt(curl, CURLOPT_URL, attempt->url.data);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, (long)request->anyway);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, attempt->s3);
	if (attempt->s3->ca)
		curl_easy_setopt(curl, CURLOPT_CAINFO, attempt->s3->ca);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, attempt->headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, attempt);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, attempt);
	if (strcmp(request->method, "GET") == 0)
		return;
	if (strcmp(request->method, "HEAD") == 0) {
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
		return;
	}
	if (!bare) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS,
				 request->body.data ? request->body.data : "");
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static int attempt_make(struct attempt *attempt, CURL *curl)
{
	const struct s3_request *request = attempt->request;
	char hash[S3_HASH];
	int r = attempt_url(attempt);

	s3_ops.sha256(s3_ops.sha256(NULL, request->body, NULL), BYTES(""), hash);
	if (r == 0 && !request->url)
		r = attempt_header(attempt, "x-amz-content-sha256: ", hash);
	if (r == 0 && !request->url && request->body.size)
		r = attempt_header(attempt, "Content-Type: ", "application/json");
	for (size_t i = 0; r == 0 && i < S3_HEADERS && request->headers[i]; i++)
		r = attempt_header(attempt, request->headers[i], "");
	/* Not to wait for the server's leave before the body. */
	if (r == 0)
		r = attempt_header(attempt, "Expect:", "");
	if (r == 0 && !request->url)
		r = attempt_credentials(attempt, curl);
	if (r == 0)
		attempt_options(attempt, curl);
	return r;
}

/* ---- What came of it ---- */

static int take_error(void *arg, const char *name, struct bytes text)
{
	struct attempt *attempt = arg;

	if (strcmp(name, "Code") == 0)
		snprintf(attempt->code, sizeof(attempt->code), "%.*s", (int)text.size, text.data);
	else if (strcmp(name, "Message") == 0)
		snprintf(attempt->message, sizeof(attempt->message), "%.*s", (int)text.size,
			 text.data ? text.data : "");
	return 0;
}

static int say_skewed(struct attempt *attempt, const char *what)
{
	const time_t there = curl_getdate(attempt->date, NULL);
	const long minutes = there > 0 ? labs((long)(time(NULL) - there)) / 60 : 0;

	return str_explain(&attempt->request->why, -EACCES,
			   "%s: the clock of this machine is %ld minutes away from the server's, "
			   "which therefore takes no signature; set the clock",
			   what, minutes);
}

/* The error of an answer, and a sentence about it. */
static int attempt_explain(struct attempt *attempt)
{
	static const struct {
		const char *code, *say;
		int error;
	} known[] = {
		{ "NoSuchBucket", "there is no such bucket", -ENXIO },
		{ "InvalidAccessKeyId", "the server does not know this access key", -EACCES },
		{ "SignatureDoesNotMatch", "the secret key is not that of the access key",
		  -EACCES },
		{ "ExpiredToken", "the credentials have expired", -EACCES },
		{ "InvalidToken", "the session token is not valid", -EACCES },
		{ "AccessDenied", "these credentials have no right to do that", -EACCES },
		{ "PreconditionFailed", "it is not as it was", -EEXIST },
		{ "ConditionalRequestConflict", "it is not as it was", -EEXIST },
	};
	struct s3_request *request = attempt->request;
	const int status = request->status;
	_cleanup_(freep) char *what =
		str_printf("s3://%s%s%.*s", attempt->s3->bucket, request->key.size ? "/" : "",
			   (int)request->key.size, request->key.data ? request->key.data : "");

	if (!what)
		return -ENOMEM;
	if (strcmp(attempt->code, "RequestTimeTooSkewed") == 0)
		return say_skewed(attempt, what);
	if (status == 301 || status == 307 ||
	    strcmp(attempt->code, "AuthorizationHeaderMalformed") == 0)
		return str_explain(&request->why, -EACCES,
				   "%s: the bucket is in another region%s%s; name it with "
				   "--region",
				   what, *attempt->region ? ": " : "", attempt->region);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].code, attempt->code) == 0)
			return str_explain(&request->why, known[i].error, "%s: %s: %s", what,
					   request->method, known[i].say);
	return str_explain(&request->why,
			   status == 404		  ? -ENOENT :
			   status == 412		  ? -EEXIST :
			   status == 401 || status == 403 ? -EACCES :
			   status >= 500 || status == 429 ? -EIO :
							    -EINVAL,
			   "%s: %s: the server answers %d%s%s%s%s", what, request->method, status,
			   *attempt->code ? " " : "", attempt->code, *attempt->message ? ": " : "",
			   attempt->message);
}

/* 1: another try may help. */
static int attempt_judge(struct attempt *attempt, CURLcode code)
{
	struct s3_request *request = attempt->request;
	const int status = request->status;

	if (code == CURLE_ABORTED_BY_CALLBACK)
		return -EINTR;
	if (attempt->overflows)
		return str_explain(&request->why, -EFBIG, "s3://%s/%.*s is larger than was said",
				   attempt->s3->bucket, (int)request->key.size, request->key.data);
	if (code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR)
		return -ENOMEM;
	if (code != CURLE_OK) {
		str_explain(&request->why, -EIO, "cannot reach %s: %s",
			    request->url ? request->url : attempt->s3->place,
			    curl_easy_strerror(code));
		return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
				       code == CURLE_URL_MALFORMAT ?
			       -EIO :
			       1;
	}
	/* A multipart upload may fail after its status was sent. */
	if (request->data.size && (status >= 300 || strcmp(request->method, "POST") == 0))
		xml_read(buf_bytes(&request->data), take_error, attempt);
	if (status / 100 == 2 && !*attempt->code)
		return 0;
	attempt_explain(attempt);
	return status == 429 || status >= 500 || strcmp(attempt->code, "RequestTimeout") == 0 ||
			       strcmp(attempt->code, "SlowDown") == 0 ||
			       strcmp(attempt->code, "InternalError") == 0 ?
		       1 :
		       attempt_explain(attempt);
}

static CURL *handle_take(struct s3 *s3)
{
	CURL *curl = NULL;

	pthread_mutex_lock(&s3->lock);
	if (s3->idle_count)
		curl = s3->idle[--s3->idle_count];
	pthread_mutex_unlock(&s3->lock);
	return curl ? curl : curl_easy_init();
}

static void handle_give(struct s3 *s3, CURL *curl)
{
	if (!curl)
		return;
	curl_easy_reset(curl);
	pthread_mutex_lock(&s3->lock);
	if (s3->idle_count < S3_HANDLES) {
		s3->idle[s3->idle_count++] = curl;
		curl = NULL;
	}
	pthread_mutex_unlock(&s3->lock);
	if (curl)
		curl_easy_cleanup(curl);
}

static void answer_clear(struct s3_request *request)
{
	buf_clear(&request->data);
	request->status = 0;
	request->size = 0;
	request->etag[0] = request->sha256[0] = '\0';
	freep(&request->why);
	request->why = NULL;
}

/* 1: another try may help, after so many milliseconds at least. */
static int try_once(struct s3 *s3, struct s3_request *request, long *ret_after)
{
	_cleanup_(attempt_done) struct attempt attempt = { .s3 = s3, .request = request };
	CURL *curl = handle_take(s3);
	int r;

	answer_clear(request);
	r = curl ? attempt_make(&attempt, curl) : -ENOMEM;
	if (r == 0)
		r = attempt_judge(&attempt, curl_easy_perform(curl));
	handle_give(s3, curl);
	*ret_after = MIN(attempt.retry_after, 60) * 1000;
	if (r == 0 && attempt.framed)
		r = s3_unframe(&request->data);
	return r;
}

/* False: to stop. */
static bool pause_before(struct s3 *s3, unsigned try, long least)
{
	const long most = MIN(PAUSE_MS << MIN(try, 12), PAUSE_MAX_MS);
	const struct timespec step = { .tv_nsec = 20000000 };
	long left;

	pthread_mutex_lock(&s3->lock);
	left = most / 2 + rand_r(&s3->seed) % (most / 2);
	pthread_mutex_unlock(&s3->lock);
	for (left = MAX(left, least); left > 0; left -= 20) {
		if (s3->stopped && s3->stopped())
			return false;
		nanosleep(&step, NULL);
	}
	return true;
}

int s3_perform(struct s3 *s3, struct s3_request *request)
{
	long after = 0;
	int r = 1;

	for (unsigned try = 0; r == 1 && try < s3->tries; try++) {
		if (try && (!pause_before(s3, try - 1, after) || request->anyway))
			return -EINTR;
		r = try_once(s3, request, &after);
	}
	return r == 1 ? -EIO : r;
}
