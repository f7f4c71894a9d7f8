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

/* The character of an entity, behind the & of which *at stands. */
static char read_entity(const char **at)
{
	static const char *const entities[] = { "&amp", "<lt", ">gt", "\"quot", "'apos" };
	char name[8], byte = '&';
	int size = 0;

	if (sscanf(*at, "%7[^;];%n", name, &size) != 1 || !size)
		return byte;
	*at += size;
	for (size_t i = 0; i < ARRAY_SIZE(entities); i++)
		byte = strcmp(name, entities[i] + 1) == 0 ? *entities[i] : byte;
	if (*name == '#')
		byte = (char)(name[1] == 'x' ? strtol(name + 2, NULL, 16) :
					       strtol(name + 1, NULL, 10));
	return byte;
}

char *s3_text(struct bytes xml, const char *name)
{
	struct bytes content = { 0 };
	char *text = next_element(&xml, name, &content) ? bytes_dup(content) : NULL, *to = text;

	for (const char *at = text; at && *at;) {
		const char byte = *at++;

		*to++ = byte == '&' ? read_entity(&at) : byte;
	}
	if (text)
		*to = '\0';
	return text;
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
	s3_unquote(etag, unquoted);
	/* No request can name a key with a NUL. */
	return strlen(key.data) + 1 < key.size ?
		       0 :
		       fn(arg, &(struct s3_object){ key.data, unquoted, strtoull(size, NULL, 10) });
}

/* *token is where the page begins; gets the next one, or NULL. */
static int take_page(struct bytes page, s3_object_fn *fn, void *arg, char **token)
{
	_cleanup_(freep) char *encoding = s3_text(page, "EncodingType"),
			      *truncated = s3_text(page, "IsTruncated");
	const bool more = truncated && strcmp(truncated, "true") == 0;
	struct bytes object;
	int r = 0;

	free(*token);
	*token = more ? s3_text(page, "NextContinuationToken") : NULL;
	if (!truncated || (more && !(*token && **token)))
		return -EBADMSG;
	while (r == 0 && next_element(&page, "Contents", &object))
		r = take_object(object, encoding && *encoding, fn, arg);
	return r;
}

int s3_list(struct s3 *s3, const char *prefix, s3_object_fn *fn, void *arg, char **ret_why)
{
	_cleanup_(freep) char *token = NULL;
	int r;

	do {
		S3_REQUEST(request, .method = "GET",
			   .query = { { "continuation-token", token },
				      { "encoding-type", "url" },
				      { "list-type", "2" },
				      { "prefix", prefix } });

		r = s3_perform(s3, &request);
		if (r < 0)
			*ret_why = steal_ptr(request.why);
		if (r == 0)
			r = take_page(buf_bytes(&request.data), fn, arg, &token);
	} while (r == 0 && token);
	if (r == -EBADMSG)
		r = str_explain(ret_why, -EIO, "s3://%s: %s has answered with no list of objects",
				s3->bucket, s3->place);
	return r;
}
