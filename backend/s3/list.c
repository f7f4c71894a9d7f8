/* SPDX-License-Identifier: MIT */
/*
 * What is in a bucket.  The XML of a server is as machines write it, so it is read by the names of
 * its elements, none of which stands in another one of the same name.
 */
#include <errno.h>

#include "backend/base/cleanup.h"
#include "backend/s3/internal.h"

/* The next element of that name, cut off with all before it. */
static bool next_element(struct bytes *xml, const char *name, struct bytes *ret_content)
{
	char begin[32], end[32];
	const char *from, *to;

	snprintf(begin, sizeof(begin), "<%s>", name);
	snprintf(end, sizeof(end), "</%s>", name);
	from = xml->size ? memmem(xml->data, xml->size, begin, strlen(begin)) : NULL;
	if (!from)
		return false;
	from += strlen(begin);
	*xml = bytes_make(from, xml->size - (size_t)(from - xml->data));
	to = memmem(xml->data, xml->size, end, strlen(end));
	if (!to)
		return false;
	*ret_content = bytes_make(from, (size_t)(to - from));
	*xml = bytes_make(to, xml->size - (size_t)(to - from));
	return true;
}

/* The character of an entity, at which *at stands, and behind it. */
static char read_entity(const char **at)
{
	static const char *const entities[] = { "amp;&", "lt;<", "gt;>", "quot;\"", "apos;'" };
	char byte = '&', *end;

	for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
		const size_t size = strlen(entities[i]) - 1;

		if (strncmp(*at + 1, entities[i], size) == 0) {
			*at += size;
			return entities[i][size];
		}
	}
	if (strncmp(*at, "&#", 2) == 0) {
		byte = (char)((*at)[2] == 'x' ? strtoul(*at + 3, &end, 16) :
						strtoul(*at + 2, &end, 10));
		*at = end;
	}
	return byte;
}

int s3_text(struct bytes xml, const char *name, struct buf *text)
{
	struct bytes content;
	int r = next_element(&xml, name, &content) ? 0 : -ENOENT;

	for (const char *at = content.data; r == 0 && at < content.data + content.size; at++)
		r = buf_append_byte(text, *at == '&' ? read_entity(&at) : *at);
	return r < 0 ? r : buf_printf(text, "%s", "");
}

void s3_unquote(const char *text, char ret_etag[S3_ETAG])
{
	const char *weak = strncmp(text, "W/", 2) == 0 ? "W/" : "";

	text += strlen(weak);
	text += *text == '"';
	snprintf(ret_etag, S3_ETAG, "%s%.*s", weak, (int)strcspn(text, "\""), text);
}

static int take_object(struct bytes xml, bool encoded, s3_object_fn *fn, void *arg)
{
	_cleanup_(buf_done) struct buf key = { 0 }, etag = { 0 }, size = { 0 };
	char unquoted[S3_ETAG], *decoded;
	struct s3_object object = { .etag = unquoted };
	int length = 0, r = s3_text(xml, "Key", &key);

	if (r == 0)
		r = s3_text(xml, "ETag", &etag);
	if (r == 0)
		r = s3_text(xml, "Size", &size);
	if (r < 0)
		return r == -ENOENT ? -EBADMSG : r;
	/* In an encoded listing, a blank is a plus sign. */
	for (char *at = key.data; encoded && (at = strchr(at, '+'));)
		*at = ' ';
	decoded = encoded ? curl_easy_unescape(NULL, key.data, (int)key.size, &length) : NULL;
	object.key = encoded ? bytes_make(decoded, (size_t)length) : buf_bytes(&key);
	object.size = strtoull(size.data, NULL, 10);
	s3_unquote(etag.data, unquoted);
	r = encoded && !decoded ? -ENOMEM : fn(arg, &object);
	curl_free(decoded);
	return r;
}

/* token: where the page begins; gets the next one, or nothing. */
static int take_page(struct bytes page, s3_object_fn *fn, void *arg, struct buf *token)
{
	_cleanup_(buf_done) struct buf encoding = { 0 }, truncated = { 0 };
	struct bytes rest = page, object;
	int r = s3_text(page, "IsTruncated", &truncated);

	buf_clear(token);
	if (r == 0 && strcmp(truncated.data, "true") == 0)
		r = s3_text(page, "NextContinuationToken", token);
	if (r < 0)
		return r == -ENOENT ? -EBADMSG : r;
	r = s3_text(page, "EncodingType", &encoding);
	if (r == -ENOENT)
		r = 0;
	while (r == 0 && next_element(&rest, "Contents", &object))
		r = take_object(object, encoding.size, fn, arg);
	return r;
}

int s3_list(struct s3 *s3, struct bytes prefix, s3_object_fn *fn, void *arg, char **ret_why)
{
	_cleanup_(buf_done) struct buf token = { 0 };
	int r;

	do {
		_cleanup_(s3_request_done) struct s3_request request = {
			.method = "GET",
			.query = { { "continuation-token",
				     { token.size ? token.data : NULL, token.size } },
				   { "encoding-type", BYTES("url") },
				   { "list-type", BYTES("2") },
				   { "prefix", prefix } }
		};

		r = s3_perform(s3, &request);
		if (r < 0)
			*ret_why = steal_ptr(request.why);
		if (r == 0)
			r = take_page(buf_bytes(&request.data), fn, arg, &token);
	} while (r == 0 && token.size);
	if (r == -EBADMSG)
		r = str_explain(ret_why, -EIO, "s3://%s: %s has answered with no list of objects",
				s3->bucket, s3->place);
	return r;
}
