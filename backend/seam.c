/* SPDX-License-Identifier: MIT */
/* Includes what the checksum is of, so that it is compiled again when that changes. */
#include "backend/plugin.h"
#include "backend/setup.h"
#include "backend/url/url.h"
#include "src/base/buf.h"

#define TEXT_OF(number) #number
#define AS_TEXT(number) TEXT_OF(number)

const char plugin_seam[] = AS_TEXT(SEAM);
