/* SPDX-License-Identifier: MIT */
/*
 * Requests: signed by libcurl, tried again where that helps, a failure as a sentence; and what is
 * in a bucket, which takes several.
 *
 * libcurl signs the path and the query as they are sent, so both are made here in the one spelling
 * that is signed: sorted, each byte but the unreserved ones encoded.  The XML of a server is as
 * machines write it, so it is read by the names of its elements, none of which stands in another
 * one of the same name.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>

#include "backend/base/log.h"
#include "backend/base/moment.h"
#include "backend/s3/internal.h"

enum {
	CONNECT_SECONDS = 15,
	STALL_SECONDS = 30, /* without a byte */
	PAUSE_MS = 100,	    /* before the second try, then twice as long each time, up to: */
	PAUSE_MAX_MS = 20000,
	RETRY_AFTER_MAX = 60, /* seconds that a server can ask for */
	EARLY_SECONDS = 300,  /* credentials are renewed before they end */
	SKEW_SECONDS = 900,   /* by which a server lets the clock be away */
};

int s3_encode_pairs(const struct s3_pair *pairs, const char *before, struct buf *text)
{
	for (size_t i = 0; i < S3_PAIRS && pairs[i].name; i++) {
		if (!pairs[i].value)
			continue;
		if (buf_printf(text, "%s%s=", before, pairs[i].name) < 0 ||
		    buf_append_encoded(text, pairs[i].value, "") < 0)
			return -ENOMEM;
		before = "&";
	}
	return 0;
}

/* Takes the line over; false: there was no memory for it. */
static bool header_add(struct curl_slist **headers, char *line)
{
	struct curl_slist *list = line ? curl_slist_append(*headers, line) : NULL;

	free(line);
	*headers = list ? list : *headers;
	return list;
}

/* With credentials, which libcurl copies. */
static int request_sign(struct s3 *s3, struct s3_request *request, struct curl_slist **headers)
{
	CURL *curl = s3->handles[request->lane];
	char hash[S3_HASH], **credentials = s3->credentials;
	int r = s3_sha256(request->body, hash);
	bool fits = header_add(headers, str_printf("x-amz-content-sha256: %s", hash));

	pthread_mutex_lock(&s3->lock);
	if (r == 0 &&
	    (!credentials[CREDENTIAL_ID] ||
	     (s3->expires && s3->expires - EARLY_SECONDS * INT64_C(1000000000) < time_now())))
		r = credentials_find(s3, &request->why);
	if (r == 0) {
		curl_easy_setopt(curl, CURLOPT_USERNAME, credentials[CREDENTIAL_ID]);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, credentials[CREDENTIAL_SECRET]);
		curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, s3->signing);
	}
	if (r == 0 && credentials[CREDENTIAL_TOKEN])
		fits &= header_add(headers, str_printf("x-amz-security-token: %s",
						       credentials[CREDENTIAL_TOKEN]));
	pthread_mutex_unlock(&s3->lock);
	return r < 0 || fits ? r : -ENOMEM;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct s3_request *request = arg;

	if (request->data.size + size * count > S3_LIMIT)
		return 0;
	return buf_append(&request->data, data, size * count) < 0 ? 0 : size * count;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t upload_total,
		       curl_off_t upload_now)
{
	const struct s3 *s3 = arg;

	return s3->stopped && s3->stopped();
}

static int request_make(struct s3 *s3, struct s3_request *request, struct curl_slist **headers)
{
	const char *match = request->match ? request->match : "";
	const uint64_t last = request->from + request->length - 1;
	const bool is_post = strcmp(request->method, "POST") == 0;
	const bool is_head = strcmp(request->method, "HEAD") == 0;
	CURL *curl = s3->handles[request->lane];
	_cleanup_(buf_done) struct buf url = { 0 };
	/* A body does not wait for leave to be sent. */
	bool fits = header_add(headers, strdup("Expect:"));

	if (request->is_new)
		fits &= header_add(headers, strdup("If-None-Match: *"));
	if (*match && strncmp(match, "W/", 2) != 0)
		fits &= header_add(headers, str_printf("If-Match: \"%s\"", match));
	if (request->length)
		fits &= header_add(headers, str_printf("Range: bytes=%" PRIu64 "-%" PRIu64,
						       request->from, last));
	if (request->hash)
		fits &= header_add(headers, str_printf("x-amz-meta-sha256: %s", request->hash));
	if (request->body.size && !request->url)
		fits &= header_add(headers, strdup("Content-Type: application/json"));
	if (!fits ||
	    buf_printf(&url, "%s%s", request->url ? request->url : s3->start,
		       request->key ? "/" : "") < 0 ||
	    buf_append_encoded(&url, request->key, "/") < 0 ||
	    s3_encode_pairs(request->query, "?", &url) < 0 || buf_append_byte(&url, '\0') < 0)
		return -ENOMEM;
	curl_easy_setopt(curl, CURLOPT_URL, url.data);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, (long)request->anyway);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, s3);
	curl_easy_setopt(curl, CURLOPT_FILETIME, 1L);
	curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)(is_head ? 0 : S3_LIMIT));
	if (s3->ca)
		curl_easy_setopt(curl, CURLOPT_CAINFO, s3->ca);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, request);
	/* On a connection that was used before, libcurl itself tries again, and does not say so. */
	curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, (long)(request->hash || is_post));
	curl_easy_setopt(curl, CURLOPT_NOBODY, (long)is_head);
	if (is_post || strcmp(request->method, "PUT") == 0) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS,
				 request->body.data ? request->body.data : "");
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
	return request->url ? 0 : request_sign(s3, request, headers);
}

/* ---- What came of it ---- */

static const char *answer_header(CURL *curl, const char *name)
{
	struct curl_header *header;
	const CURLHcode result = curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header);

	return result == CURLHE_OK ? header->value : "";
}

/* A streamed upload has its body in frames, "SIZE;chunk-signature=...\r\n" before each piece.  A
 * server takes them off; an emulator may store them. */
static int unframe(struct buf *body)
{
	_cleanup_(buf_done) struct buf content = { 0 };
	const char *at = body->data, *const end = at + body->size, *line;
	char *behind;

	for (size_t size = 1; size; at += 2) {
		line = at < end ? memmem(at, (size_t)(end - at), "\r\n", 2) : NULL;
		size = line ? strtoull(at, &behind, 16) : 0;
		if (!line || behind == at || (behind != line && *behind != ';') ||
		    size > (size_t)(end - line) - 2)
			return 0;
		if (buf_append(&content, line + 2, size) < 0)
			return -ENOMEM;
		at = line + 2 + size;
		/* Behind the last piece may stand trailers. */
		if (size && (end - at < 2 || memcmp(at, "\r\n", 2) != 0))
			return 0;
	}
	buf_done(body);
	*body = content;
	content = (struct buf){ 0 };
	return 0;
}

/* The next element of that name, cut off with all before it. */
static bool next_element(struct bytes *xml, const char *name, struct bytes *ret_content)
{
	const char *const limit = xml->data + xml->size, *from, *to;
	char begin[32], end[32];
	const int size = snprintf(begin, sizeof(begin), "<%s>", name);

	snprintf(end, sizeof(end), "</%s>", name);
	from = xml->size ? memmem(xml->data, xml->size, begin, (size_t)size) : NULL;
	to = from ? memmem(from, (size_t)(limit - from), end, (size_t)size + 1) : NULL;
	if (!to)
		return false;
	*ret_content = bytes_make(from + size, (size_t)(to - from - size));
	*xml = bytes_make(to, (size_t)(limit - to));
	return true;
}

char *s3_text(struct bytes xml, const char *name)
{
	static const char *const entities[] = { "&amp;", "<lt;", ">gt;", "\"quot;", "'apos;" };
	struct bytes content = { 0 };
	char *text = next_element(&xml, name, &content) ? bytes_dup(content) : NULL, *to = text;

	for (const char *at = text; at && *at; to++) {
		unsigned code = 0;
		int size = 0;

		*to = *at++;
		if (*to == '&' && sscanf(at, "#x%x;%n", &code, &size) != 1)
			sscanf(at, "#%u;%n", &code, &size);
		for (size_t i = 0; *to == '&' && !size && i < ARRAY_SIZE(entities); i++) {
			code = (unsigned char)*entities[i];
			size = (int)strlen(entities[i] + 1);
			size = strncmp(at, entities[i] + 1, (size_t)size) == 0 ? size : 0;
		}
		*to = size ? (char)code : *to;
		at += size;
	}
	if (text)
		*to = '\0';
	return text;
}

static void unquote(const char *text, char ret_etag[S3_ETAG])
{
	const char *weak = strncmp(text, "W/", 2) == 0 ? "W/" : "";

	text += strlen(weak);
	text += *text == '"';
	snprintf(ret_etag, S3_ETAG, "%s%.*s", weak, (int)strcspn(text, "\""), text);
}

/* The error of an answer, and a sentence about it; 1: another try may help. */
static int answer_explain(struct s3 *s3, struct s3_request *request)
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
		{ "AccessDenied", "these credentials have no right to do that", -EPERM },
		{ "InvalidObjectState", "it is archived", -EINVAL },
		{ "PreconditionFailed", "it is not as it was", -EEXIST },
		{ "ConditionalRequestConflict", "it is not as it was", -EEXIST },
		{ "RequestTimeout", "it has not come in time", 1 },
	};
	CURL *curl = s3->handles[request->lane];
	const long status = request->status;
	const char *region = answer_header(curl, "x-amz-bucket-region");
	const time_t there = curl_getdate(answer_header(curl, "date"), NULL);
	const long away = there > 0 ? labs((long)(time(NULL) - there)) : 0;
	_cleanup_(freep) char *code = s3_text(buf_bytes(&request->data), "Code");
	_cleanup_(freep) char *message = s3_text(buf_bytes(&request->data), "Message");
	_cleanup_(freep) char *what =
		str_printf("s3://%s%s%s: %s", s3->bucket, request->key ? "/" : "",
			   request->key ? request->key : "", request->method);

	/* That to a HEAD has no text. */
	if (!code)
		code = strdup(status != 403	  ? "" :
			      away > SKEW_SECONDS ? "RequestTimeTooSkewed" :
						    "AccessDenied");
	if (!what || !code)
		return -ENOMEM;
	if (strcmp(code, "RequestTimeTooSkewed") == 0)
		return str_explain(&request->why, -EACCES,
				   "%s: the clock of this machine is %ld minutes away from the "
				   "server's, which therefore takes no signature; set the clock",
				   what, away / 60);
	if (status == 301 || status == 307 || strcmp(code, "AuthorizationHeaderMalformed") == 0 ||
	    (status == 400 && *region && strcmp(region, s3->region) != 0))
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
			   "%s: the server answers %ld %s %s", what, status, code,
			   message ? message : "");
}

/* 1: another try may help, after so many milliseconds at least. */
static int try_once(struct s3 *s3, struct s3_request *request, long *ret_after)
{
	CURL *curl = s3->handles[request->lane];
	struct curl_slist *headers = NULL;
	_cleanup_(freep) char *late = NULL;
	curl_off_t after = 0, size = 0;
	CURLcode result = CURLE_OK;
	int r;

	s3_request_done(request);
	if (!curl)
		return -ENOMEM;
	curl_easy_reset(curl);
	r = request_make(s3, request, &headers);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	if (r == 0)
		result = curl_easy_perform(curl);
	curl_slist_free_all(headers);
	if (r < 0 || result == CURLE_ABORTED_BY_CALLBACK)
		return r < 0 ? r : -EINTR;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &request->status);
	curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size);
	curl_easy_getinfo(curl, CURLINFO_FILETIME_T, &request->modified);
	curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &after);
	request->size = request->body.size ? request->body.size :
			size < 0	   ? request->data.size :
					     (uint64_t)size;
	unquote(answer_header(curl, "etag"), request->etag);
	snprintf(request->sha256, S3_HASH, "%s", answer_header(curl, "x-amz-meta-sha256"));
	*ret_after = (long)MIN(after, RETRY_AFTER_MAX) * 1000;
	if (result == CURLE_WRITE_ERROR || result == CURLE_FILESIZE_EXCEEDED)
		return str_explain(&request->why, -EFBIG, "s3://%s/%s is larger than was said",
				   s3->bucket, request->key ? request->key : "");
	const bool hopeless = result == CURLE_PEER_FAILED_VERIFICATION ||
			      result == CURLE_SSL_CACERT_BADFILE || result == CURLE_URL_MALFORMAT;

	if (result != CURLE_OK)
		return str_explain(&request->why, hopeless ? -EIO : 1, "cannot reach %s: %s",
				   request->url ? request->url : s3->place,
				   curl_easy_strerror(result));
	/* A multipart upload may fail after its status was sent. */
	if (strcmp(request->method, "POST") == 0)
		late = s3_text(buf_bytes(&request->data), "Code");
	if (request->status / 100 != 2 || late)
		return answer_explain(s3, request);
	return strstr(answer_header(curl, "content-encoding"), "aws-chunked") ?
		       unframe(&request->data) :
		       0;
}

int s3_perform(struct s3 *s3, struct s3_request *request)
{
	const struct timespec step = { .tv_nsec = 20000000 };
	long pause = 0, after = 0;
	unsigned chance = 0;
	int r = 1;

	for (request->tries = 0; r == 1 && request->tries < s3->tries; request->tries++) {
		for (; pause > 0; pause -= 20) {
			if (!request->anyway && s3->stopped && s3->stopped())
				return -EINTR;
			nanosleep(&step, NULL);
		}
		r = try_once(s3, request, &after);
		pause = MIN(PAUSE_MS << MIN(request->tries, 12), PAUSE_MAX_MS);
		(void)!getrandom(&chance, sizeof(chance), 0);
		pause = MAX(pause / 2 + (long)chance % (pause / 2), after);
	}
	return r == 1 ? -EIO : r;
}

/* ---- What is in a bucket ---- */

static int take_object(struct bytes xml, bool encoded, s3_object_fn *fn, void *arg)
{
	_cleanup_(freep) char *name = s3_text(xml, "Key"), *etag = s3_text(xml, "ETag"),
			      *size = s3_text(xml, "Size");
	_cleanup_(buf_done) struct buf key = { 0 };
	char unquoted[S3_ETAG];
	int r;

	if (!name || !etag || !size)
		return -EBADMSG;
	/* In an encoded listing, a blank is a plus sign. */
	for (char *at = name; encoded && (at = strchr(at, '+'));)
		*at = ' ';
	r = encoded ? buf_append_decoded(&key, bytes_str(name)) : buf_append_str(&key, name);
	if (r == 0)
		r = buf_append_byte(&key, '\0');
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	unquote(etag, unquoted);
	/* No request can name a key with a NUL. */
	return strlen(key.data) + 1 < key.size ?
		       0 :
		       fn(arg, key.data, unquoted, strtoull(size, NULL, 10));
}

int s3_list(struct s3 *s3, const char *prefix, s3_object_fn *fn, void *arg)
{
	static const char list_end[] = "</ListBucketResult>"; /* else there was more */
	_cleanup_(freep) char *token = NULL;
	bool more = true;
	int r = 0;

	while (r == 0 && more) {
		_cleanup_(freep) char *encoding = NULL, *truncated = NULL;
		S3_REQUEST(request, .method = "GET",
			   .query = { { "continuation-token", token },
				      { "encoding-type", "url" },
				      { "list-type", "2" },
				      { "prefix", prefix } });
		struct bytes page, object;

		r = s3_perform(s3, &request);
		if (r < 0 && r != -EINTR)
			log_error("%s", request.why ? request.why : strerror(-r));
		if (r < 0)
			return r;
		page = buf_bytes(&request.data);
		encoding = s3_text(page, "EncodingType");
		truncated = s3_text(page, "IsTruncated");
		more = truncated && strcmp(truncated, "true") == 0;
		free(token);
		token = more ? s3_text(page, "NextContinuationToken") : NULL;
		if (!truncated || (more && !(token && *token)) ||
		    !memmem(page.data, page.size, list_end, strlen(list_end)))
			r = -EBADMSG;
		while (r == 0 && next_element(&page, "Contents", &object))
			r = take_object(object, encoding && *encoding, fn, arg);
	}
	if (r != -EBADMSG)
		return r;
	log_error("s3://%s: %s has answered with no list of objects", s3->bucket, s3->place);
	return -EIO;
}
