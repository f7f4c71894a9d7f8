/* SPDX-License-Identifier: MIT */
/*
 * One request: signed by libcurl, tried again where that helps, its failure as a sentence.
 *
 * libcurl signs the path and the query as they are sent, so both are made here in the one spelling
 * that is signed: sorted, each byte but the unreserved ones encoded.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>

#include "backend/base/cleanup.h"
#include "backend/base/moment.h"
#include "backend/s3/internal.h"

enum {
	CONNECT_SECONDS = 15,
	STALL_SECONDS = 30, /* without a byte */
	PAUSE_MS = 100,	    /* before the second try, then twice as long each time, up to: */
	PAUSE_MAX_MS = 20000,
	RETRY_AFTER_MAX = 60, /* seconds that a server can ask for */
	EARLY_SECONDS = 300,  /* credentials are renewed before they end */
};

/* One try. */
struct attempt {
	struct s3 *s3;
	struct s3_request *request;
	CURL *curl;
	struct curl_slist *headers;
	bool lacks_memory; /* for one of them */
};

static void attempt_done(struct attempt *attempt)
{
	curl_slist_free_all(attempt->headers);
}

/* ---- Making it ---- */

int s3_encode_pairs(const struct s3_pair *pairs, const char *before, struct buf *text)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < S3_PAIRS && pairs[i].name; i++) {
		if (!pairs[i].value)
			continue;
		r = buf_printf(text, "%s%s=", before, pairs[i].name);
		before = "&";
		if (r == 0)
			r = buf_append_encoded(text, pairs[i].value, "");
	}
	return r;
}

static int attempt_url(struct attempt *attempt)
{
	const struct s3_request *request = attempt->request;
	_cleanup_(buf_done) struct buf url = { 0 };
	int r = buf_printf(&url, "%s%s", request->url ? request->url : attempt->s3->start,
			   request->key ? "/" : "");

	if (r == 0)
		r = buf_append_encoded(&url, request->key, "/");
	if (r == 0)
		r = s3_encode_pairs(request->query, "?", &url);
	if (r == 0)
		r = buf_append_byte(&url, '\0');
	if (r == 0)
		curl_easy_setopt(attempt->curl, CURLOPT_URL, url.data);
	return r;
}

/* Takes the line over; NULL: there was no memory for it. */
static void attempt_header(struct attempt *attempt, char *line)
{
	struct curl_slist *list = line ? curl_slist_append(attempt->headers, line) : NULL;

	free(line);
	attempt->headers = list ? list : attempt->headers;
	attempt->lacks_memory |= !list;
}

/* What the caller wants, and not to wait for leave to send a body. */
static void attempt_headers(struct attempt *attempt)
{
	const struct s3_request *request = attempt->request;
	const char *match = request->match ? request->match : "";

	attempt_header(attempt, strdup("Expect:"));
	if (request->is_new)
		attempt_header(attempt, strdup("If-None-Match: *"));
	if (*match && strncmp(match, "W/", 2) != 0)
		attempt_header(attempt, str_printf("If-Match: \"%s\"", match));
	if (request->length)
		attempt_header(attempt,
			       str_printf("Range: bytes=%" PRIu64 "-%" PRIu64, request->from,
					  request->from + request->length - 1));
	if (request->hash)
		attempt_header(attempt, str_printf("x-amz-meta-sha256: %s", request->hash));
}

/* With credentials, which libcurl copies. */
static int attempt_sign(struct attempt *attempt)
{
	struct s3 *s3 = attempt->s3;
	char hash[S3_HASH], **credentials = s3->credentials;
	int r = s3_sha256(attempt->request->body, -1, hash);

	attempt_header(attempt, str_printf("x-amz-content-sha256: %s", hash));
	if (attempt->request->body.size)
		attempt_header(attempt, strdup("Content-Type: application/json"));
	pthread_mutex_lock(&s3->lock);
	if (r == 0 &&
	    (!credentials[CREDENTIAL_ID] ||
	     (s3->expires && s3->expires - EARLY_SECONDS * INT64_C(1000000000) < time_now())))
		r = credentials_find(s3, &attempt->request->why);
	if (r == 0) {
		curl_easy_setopt(attempt->curl, CURLOPT_USERNAME, credentials[CREDENTIAL_ID]);
		curl_easy_setopt(attempt->curl, CURLOPT_PASSWORD, credentials[CREDENTIAL_SECRET]);
		curl_easy_setopt(attempt->curl, CURLOPT_AWS_SIGV4, s3->signing);
	}
	if (r == 0 && credentials[CREDENTIAL_TOKEN])
		attempt_header(attempt, str_printf("x-amz-security-token: %s",
						   credentials[CREDENTIAL_TOKEN]));
	pthread_mutex_unlock(&s3->lock);
	return r;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct s3_request *request = arg;

	return request->data.size + size * count <= S3_LIMIT &&
			       buf_append(&request->data, data, size * count) == 0 ?
		       size * count :
		       0;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t upload_total,
		       curl_off_t upload_now)
{
	const struct s3 *s3 = arg;

	(void)total, (void)now, (void)upload_total, (void)upload_now;
	return s3->stopped && s3->stopped();
}

static void attempt_options(struct attempt *attempt)
{
	const struct s3_request *request = attempt->request;
	const bool sends = *request->method == 'P'; /* PUT or POST */
	CURL *curl = attempt->curl;

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
	curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
	if (attempt->s3->ca)
		curl_easy_setopt(curl, CURLOPT_CAINFO, attempt->s3->ca);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, attempt->headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, request);
	/* On a connection that was used before, libcurl itself tries again, and does not say so. */
	curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT,
			 (long)(request->hash || strcmp(request->method, "POST") == 0));
	curl_easy_setopt(curl, CURLOPT_NOBODY, (long)(strcmp(request->method, "HEAD") == 0));
	if (sends) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS,
				 request->body.data ? request->body.data : "");
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

/* ---- What came of it ---- */

static const char *answer_header(const struct attempt *attempt, const char *name)
{
	struct curl_header *header;

	return curl_easy_header(attempt->curl, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ?
		       header->value :
		       "";
}

/* A streamed upload has its body in frames, "SIZE;chunk-signature=...\r\n" before each piece.  A
 * server takes them off; an emulator may store them. */
static int unframe(struct buf *body)
{
	_cleanup_(buf_done) struct buf content = { 0 };
	const char *at = body->data, *end = at + body->size, *line;
	char *behind;
	size_t size = 1;

	for (int r = 0; r == 0 && size; at += size ? size + 2 : 0) {
		line = at < end ? memmem(at, (size_t)(end - at), "\r\n", 2) : NULL;
		if (!line)
			return 0;
		size = strtoull(at, &behind, 16);
		at = line + 2;
		if (behind == at || (behind != line && *behind != ';') || size > (size_t)(end - at))
			return 0;
		r = buf_append(&content, at, size);
		/* Behind the last piece may stand trailers. */
		if (r < 0 ||
		    (size && (end - at < (ptrdiff_t)size + 2 || memcmp(at + size, "\r\n", 2) != 0)))
			return r;
	}
	buf_done(body);
	*body = content;
	content = (struct buf){ 0 };
	return 0;
}

/* The error of an answer, and a sentence about it; 1: another try may help. */
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
		{ "InvalidObjectState", "it is archived", -EINVAL },
		{ "PreconditionFailed", "it is not as it was", -EEXIST },
		{ "ConditionalRequestConflict", "it is not as it was", -EEXIST },
		{ "RequestTimeout", "it has not come in time", 1 },
	};
	struct s3_request *request = attempt->request;
	const int status = request->status;
	const char *region = answer_header(attempt, "x-amz-bucket-region");
	const time_t there = curl_getdate(answer_header(attempt, "date"), NULL);
	_cleanup_(freep) char *code = s3_text(buf_bytes(&request->data), "Code");
	_cleanup_(freep) char *message = s3_text(buf_bytes(&request->data), "Message");
	_cleanup_(freep) char *what =
		str_printf("s3://%s%s%s: %s", attempt->s3->bucket, request->key ? "/" : "",
			   request->key ? request->key : "", request->method);

	code = code ? code : strdup("");
	if (!what || !code)
		return -ENOMEM;
	if (strcmp(code, "RequestTimeTooSkewed") == 0)
		return str_explain(&request->why, -EACCES,
				   "%s: the clock of this machine is %ld minutes away from the "
				   "server's, which therefore takes no signature; set the clock",
				   what, there > 0 ? labs((long)(time(NULL) - there)) / 60 : 0);
	if (status == 301 || status == 307 || strcmp(code, "AuthorizationHeaderMalformed") == 0)
		return str_explain(&request->why, -EACCES,
				   "%s: the bucket is in another region%s%s; name it with "
				   "--region",
				   what, *region ? ": " : "", region);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].code, code) == 0)
			return str_explain(&request->why, known[i].error, "%s: %s", what,
					   known[i].say);
	return str_explain(&request->why,
			   status == 404				  ? -ENOENT :
			   status == 412				  ? -EEXIST :
			   status == 401 || status == 403		  ? -EACCES :
			   status >= 500 || status == 429 || status < 300 ? 1 :
									    -EINVAL,
			   "%s: the server answers %d %s %s", what, status, code,
			   message ? message : "");
}

/* 1: another try may help. */
static int attempt_judge(struct attempt *attempt, CURLcode result)
{
	struct s3_request *request = attempt->request;
	const bool hopeless = result == CURLE_PEER_FAILED_VERIFICATION ||
			      result == CURLE_SSL_CACERT_BADFILE || result == CURLE_URL_MALFORMAT;
	/* A multipart upload may fail after its status was sent. */
	_cleanup_(freep) char *late = strcmp(request->method, "POST") == 0 ?
					      s3_text(buf_bytes(&request->data), "Code") :
					      NULL;

	if (result == CURLE_ABORTED_BY_CALLBACK)
		return -EINTR;
	if (result == CURLE_WRITE_ERROR)
		return str_explain(&request->why, -EFBIG, "s3://%s/%s is larger than was said",
				   attempt->s3->bucket, request->key ? request->key : "");
	if (result != CURLE_OK)
		return str_explain(&request->why, hopeless ? -EIO : 1, "cannot reach %s: %s",
				   request->url ? request->url : attempt->s3->place,
				   curl_easy_strerror(result));
	if (request->status / 100 != 2 || late)
		return attempt_explain(attempt);
	return strstr(answer_header(attempt, "content-encoding"), "aws-chunked") ?
		       unframe(&request->data) :
		       0;
}

/* 1: another try may help, after so many milliseconds at least. */
static int try_once(struct s3 *s3, struct s3_request *request, long *ret_after)
{
	_cleanup_(attempt_done) struct attempt attempt = { .s3 = s3, .request = request };
	curl_off_t after = 0, size = 0, modified = -1;
	CURL **curl = &s3->handles[request->lane];
	CURLcode result;
	long status = 0;
	int r;

	s3_request_done(request);
	request->why = NULL;
	if (!*curl)
		*curl = curl_easy_init();
	if (!*curl)
		return -ENOMEM;
	curl_easy_reset(*curl);
	attempt.curl = *curl;
	attempt_headers(&attempt);
	r = attempt_url(&attempt);
	if (r == 0 && !request->url)
		r = attempt_sign(&attempt);
	if (r < 0 || attempt.lacks_memory)
		return r < 0 ? r : -ENOMEM;
	attempt_options(&attempt);
	result = curl_easy_perform(*curl);
	curl_easy_getinfo(*curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(*curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size);
	curl_easy_getinfo(*curl, CURLINFO_FILETIME_T, &modified);
	curl_easy_getinfo(*curl, CURLINFO_RETRY_AFTER, &after);
	request->status = (int)status;
	request->size = request->body.size ? request->body.size :
			size < 0	   ? request->data.size :
					     (uint64_t)size;
	request->modified = modified;
	s3_unquote(answer_header(&attempt, "etag"), request->etag);
	snprintf(request->sha256, S3_HASH, "%s", answer_header(&attempt, "x-amz-meta-sha256"));
	*ret_after = (long)MIN(after, RETRY_AFTER_MAX) * 1000;
	return attempt_judge(&attempt, result);
}

/* False: to stop. */
static bool pause_before(const struct s3 *s3, const struct s3_request *request, unsigned try,
			 long least)
{
	const long most = MIN(PAUSE_MS << MIN(try, 12), PAUSE_MAX_MS);
	const struct timespec step = { .tv_nsec = 20000000 };
	unsigned chance = 0;
	long left;

	(void)!getrandom(&chance, sizeof(chance), 0);
	for (left = MAX(most / 2 + (long)chance % (most / 2), least); left > 0; left -= 20) {
		if (!request->anyway && s3->stopped && s3->stopped())
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
		if (try && !pause_before(s3, request, try - 1, after))
			return -EINTR;
		request->tries = try + 1;
		r = try_once(s3, request, &after);
	}
	return r == 1 ? -EIO : r;
}
