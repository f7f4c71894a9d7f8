/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <expat.h>

#include "backend/s3/internal.h"

struct reading {
	XML_Parser parser;
	xml_fn *fn;
	void *arg;
	struct buf text; /* of the innermost element */
	int error;
};

static void reading_keep(struct reading *reading, int error)
{
	if (error && !reading->error) {
		reading->error = error;
		XML_StopParser(reading->parser, XML_FALSE);
	}
}

static void on_start(void *arg, const char *name, const char **attributes)
{
	(void)name, (void)attributes;
	buf_clear(&((struct reading *)arg)->text);
}

static void on_text(void *arg, const char *text, int size)
{
	struct reading *reading = arg;

	reading_keep(reading, buf_append(&reading->text, text, (size_t)size));
}

static void on_end(void *arg, const char *name)
{
	struct reading *reading = arg;

	if (!reading->error)
		reading_keep(reading, reading->fn(reading->arg, name, buf_bytes(&reading->text)));
	buf_clear(&reading->text);
}

static void on_entity(void *arg, const char *name, int parameter, const char *value, int size,
		      const char *base, const char *system, const char *public,
		      const char *notation)
{
	(void)name, (void)parameter, (void)value, (void)size;
	(void)base, (void)system, (void)public, (void)notation;
	reading_keep(arg, -EBADMSG);
}

int xml_read(struct bytes document, xml_fn *fn, void *arg)
{
	struct reading reading = { XML_ParserCreate(NULL), fn, arg, { 0 }, 0 };
	enum XML_Status status;

	if (!reading.parser)
		return -ENOMEM;
	XML_SetUserData(reading.parser, &reading);
	XML_SetElementHandler(reading.parser, on_start, on_end);
	XML_SetCharacterDataHandler(reading.parser, on_text);
	XML_SetEntityDeclHandler(reading.parser, on_entity);
	status = XML_Parse(reading.parser, document.data ? document.data : "", (int)document.size,
			   1);
	XML_ParserFree(reading.parser);
	buf_done(&reading.text);
	return reading.error ? reading.error : status == XML_STATUS_OK ? 0 : -EBADMSG;
}
