/* SPDX-License-Identifier: MIT */
/* The scripts, made texts of C by the makefile. */
#include "backend/redis/store.h"

static const char commit[] = {
#include <backend/redis/store-commit.h>
	, '\0'
};

static const char commit_full[] = { '#', '!', 'l', 'u', 'a', ' ', 'f', 'l', 'a', 'g', 's',
				    '=', 'a', 'l', 'l', 'o', 'w', '-', 'o', 'o', 'm', '\n',
#include <backend/redis/store-commit.h>
				    ,	 '\0' };

static const char read[] = {
#include <backend/redis/store-read.h>
	, '\0'
};

static const char mounts[] = {
#include <backend/redis/store-mounts.h>
	, '\0'
};

const char *const redis_scripts[REDIS_SCRIPTS] = {
	[REDIS_COMMIT] = commit,
	[REDIS_COMMIT_FULL] = commit_full,
	[REDIS_READ] = read,
	[REDIS_OF_MOUNTS] = mounts,
};
