/* SPDX-License-Identifier: MIT */
#ifndef S3_XML_H
#define S3_XML_H

#include "backend/base/buf.h"

/* An element that has ended, and the text in it; 0 to go on. */
typedef int xml_fn(void *arg, const char *name, struct bytes text);

/* 0, what fn returns, or -EBADMSG: it is not XML.  Declared entities are refused: an answer must
 * not grow beyond its size. */
int xml_read(struct bytes document, xml_fn *fn, void *arg);

#endif
