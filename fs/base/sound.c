/* SPDX-License-Identifier: MIT */
#include "fs/base/names.h"
#include "fs/base/sound.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

bool sound_name(struct bytes name)
{
	return name.size >= 1 && name.size <= NAME_LIMIT && !memchr(name.data, '/', name.size) &&
	       !memchr(name.data, '\0', name.size) && !bytes_equal(name, BYTES(".")) &&
	       !bytes_equal(name, BYTES(".."));
}

bool sound_type(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISFIFO(mode) ||
	       S_ISSOCK(mode) || S_ISCHR(mode) || S_ISBLK(mode);
}

const char *sound_node(const struct backend_node *node)
{
	bool state = node->kind >= BACKEND_SINGLE;

	if (node->ino > SOUND_NUMBER_MAX || node->entry > SOUND_NUMBER_MAX)
		return "its number, or that of its entry, is out of range";
	if (node->kind > BACKEND_HASH)
		return "it is of an unknown kind";
	if (!sound_type(node->mode))
		return "its mode has no type of file";
	if (node->kind == BACKEND_SESSION && (!S_ISDIR(node->mode) || !node->session.data))
		return "it is a session that is not a directory or has no id";
	if (state && !S_ISREG(node->mode))
		return "it is a state that is not a regular file";
	if (state && (!node->session.data || !node->key.data))
		return "it is a state file without a session or a key";
	if (node->size > INT64_MAX)
		return "its size is negative";
	if (S_ISLNK(node->mode) && (!node->target.size || node->target.size >= PATH_MAX ||
				    memchr(node->target.data, '\0', node->target.size)))
		return "it is a symbolic link to something that cannot be a path";
	if (node->ino == BACKEND_ROOT && (!S_ISDIR(node->mode) || node->kind != BACKEND_ORDINARY))
		return "it is the root but not an ordinary directory";
	return NULL;
}

bool sound_entry(uint64_t parent, uint64_t id, const struct backend_node *node)
{
	return node->ino != BACKEND_ROOT && id >= 1 && id <= SOUND_NUMBER_MAX &&
	       (!S_ISDIR(node->mode) || (node->parent == parent && node->entry == id));
}
