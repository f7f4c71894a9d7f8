/* SPDX-License-Identifier: MIT */
/* The script, made a text of C by the makefile. */
#include "backend/redis/store.h"

const char redis_script[] = {
#include "backend/redis/store-lua.h"
	, '\0'
};

/* A full server runs it, too: for what only takes away. */
const char redis_script_full[] = { '#', '!', 'l', 'u', 'a', ' ', 'f', 'l', 'a', 'g', 's',
				   '=', 'a', 'l', 'l', 'o', 'w', '-', 'o', 'o', 'm', '\n',
#include "backend/redis/store-lua.h"
				   ,	'\0' };
