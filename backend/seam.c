/* SPDX-License-Identifier: MIT */
#include "backend/plugin.h"

#define TEXT_OF(number) #number
#define AS_TEXT(number) TEXT_OF(number)

const char plugin_abi[] = PACKAGE_STRING;
const char plugin_seam[] = AS_TEXT(SEAM);
