/* SPDX-License-Identifier: MIT */
/*
 * As a tar stream in the pax format.  The size of a file stands before its bytes, and the file may
 * grow while it is read.  So it is read first, into a stage (fs/base/stage.h).
 *
 * libarchive and its libraries take more memory than all our code, and only this file uses them:
 * they are loaded when a stream is made, so a mount does without.
 */
#include "src/exchange/export.h"

#include <errno.h>

#ifdef HAVE_LIBARCHIVE
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <locale.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backend/base/cleanup.h"
#include "backend/base/log.h"
#include "fs/base/stage.h"

enum { BLOCK = 256 * 1024 };

/* The name of its interface since 3.0. */
#define LIBRARY "libarchive.so.13"

#define CALLS                                                                                      \
	CALL(archive_entry_free)                                                                   \
	CALL(archive_entry_new)                                                                    \
	CALL(archive_entry_set_gid)                                                                \
	CALL(archive_entry_set_hardlink)                                                           \
	CALL(archive_entry_set_mode)                                                               \
	CALL(archive_entry_set_mtime)                                                              \
	CALL(archive_entry_set_pathname)                                                           \
	CALL(archive_entry_set_size)                                                               \
	CALL(archive_entry_set_symlink)                                                            \
	CALL(archive_entry_set_uid)                                                                \
	CALL(archive_entry_xattr_add_entry)                                                        \
	CALL(archive_error_string)                                                                 \
	CALL(archive_write_close)                                                                  \
	CALL(archive_write_data)                                                                   \
	CALL(archive_write_free)                                                                   \
	CALL(archive_write_header)                                                                 \
	CALL(archive_write_new)                                                                    \
	CALL(archive_write_open)                                                                   \
	CALL(archive_write_set_format_pax)                                                         \
	CALL(archive_write_set_options)

/* clang-format off */
#define CALL(name) __typeof__(name) *name;
static struct {
	CALLS
} la;
#undef CALL
/* clang-format on */

static int load(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} calls[] = {
#define CALL(name) { #name, offsetof(__typeof__(la), name) },
		CALLS
#undef CALL
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *error = library ? NULL : dlerror();

	for (size_t i = 0; !error && i < ARRAY_SIZE(calls); i++) {
		void *call = dlsym(library, calls[i].name);

		if (!call)
			error = dlerror();
		memcpy((char *)&la + calls[i].offset, &call, sizeof(call));
	}
	if (!error)
		return 0;
	return log_fail(
		-ELIBACC,
		"cannot load libarchive, which writes tar streams: %s; install it, or export to "
		"a folder",
		error);
}

struct tar {
	struct archive *archive;
	int fd;
	int error; /* -errno: the stream has failed, and nothing more is written */
};

/* Writes a block of the stream. */
static la_ssize_t put_block(struct archive *archive, void *data, const void *block, size_t size)
{
	struct tar *tar = data;
	ssize_t written = -1;

	(void)archive;
	while (tar->error == 0 && written < 0) {
		written = write(tar->fd, block, size);
		if (written < 0 && errno != EINTR)
			tar->error = -errno;
	}
	return written;
}

/* A reader that has read enough gets no message. */
static int failed(struct copier *copier)
{
	struct tar *tar = copier->arg;

	if (tar->error == 0) {
		log_error("cannot create the tar stream: %s",
			  la.archive_error_string(tar->archive));
		tar->error = -EIO;
	} else if (tar->error != -EPIPE && !copier->stopped) {
		log_error("cannot write the tar stream: %s", strerror(-tar->error));
	}
	copier->stopped = true;
	return tar->error;
}

static int add_xattrs(struct copier *copier, struct copier_entry *from, struct archive_entry *entry)
{
	_cleanup_(buf_done) struct buf names = { 0 };
	int r = S_ISLNK(from->st.st_mode) ? 0 : access_list_xattr(copier->from, from->from, &names);
	const char *end = names.data + names.size;

	for (const char *name = names.data; r == 0 && name && name < end;
	     name += strlen(name) + 1) {
		_cleanup_(buf_done) struct buf value = { 0 };

		if (!copier_takes_xattr(name))
			continue;
		r = access_get_xattr(copier->from, from->from, name, &value);
		if (r == 0)
			la.archive_entry_xattr_add_entry(entry, name, value.data, value.size);
	}
	return r;
}

static int describe(struct copier *copier, struct copier_entry *from, uint64_t size,
		    struct archive_entry *entry)
{
	_cleanup_(buf_done) struct buf path = { 0 };
	int r = buf_printf(&path, "%s%s", from->path, S_ISDIR(from->st.st_mode) ? "/" : "");

	if (r < 0)
		return r;
	la.archive_entry_set_pathname(entry, path.data);
	la.archive_entry_set_mode(entry, (from->st.st_mode & S_IFMT) | copier_mode(copier, from));
	la.archive_entry_set_uid(entry, from->st.st_uid);
	la.archive_entry_set_gid(entry, from->st.st_gid);
	la.archive_entry_set_mtime(entry, from->st.st_mtim.tv_sec, from->st.st_mtim.tv_nsec);
	la.archive_entry_set_size(entry, (int64_t)size);
	if (from->target)
		la.archive_entry_set_symlink(entry, from->target);
	if (from->first)
		la.archive_entry_set_hardlink(entry, from->first);
	return from->first ? 0 : add_xattrs(copier, from, entry);
}

static int put_header(struct copier *copier, struct copier_entry *from, uint64_t size)
{
	struct tar *tar = copier->arg;
	struct archive_entry *entry = la.archive_entry_new();
	int r = entry ? describe(copier, from, size, entry) : -ENOMEM;

	if (r == 0) {
		r = la.archive_write_header(tar->archive, entry);
		/* After a fatal error, a reader could not understand the rest. */
		r = r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : (failed(copier), -EIO);
	}
	la.archive_entry_free(entry);
	return r;
}

static int tar_enter(struct copier *copier, struct copier_entry *entry)
{
	return put_header(copier, entry, 0);
}

static int tar_other(struct copier *copier, struct copier_entry *entry)
{
	int r = 0;

	/* The format knows none, and tar(1) leaves them out. */
	if (S_ISSOCK(entry->st.st_mode)) {
		log_warning("%s: %s: it is a socket, which a tar stream cannot contain",
			    copier->store, entry->path);
	} else {
		r = put_header(copier, entry, 0);
	}
	progress_add(&copier->progress, 1, 0);
	return r;
}

static int tar_file(struct copier *copier, struct copier_entry *entry)
{
	_cleanup_(stage_done) struct stage held = { 0 };
	_cleanup_(buf_done) struct buf block = { 0 };
	const struct tar *tar = copier->arg;
	int r;

	do {
		buf_clear(&block);
		r = copier_read(entry, BLOCK, &block);
		if (r < 0)
			return r;
		copier->bytes += block.size;
		progress_add(&copier->progress, 0, block.size);
		r = stage_write(&held, held.size, buf_bytes(&block));
	} while (r == 0 && block.size == BLOCK);
	if (r < 0) {
		log_error("cannot write a temporary file (TMPDIR says where): %s", strerror(-r));
		copier->stopped = true;
		return r;
	}
	r = put_header(copier, entry, held.size);
	for (uint64_t at = 0; r == 0 && at < held.size; at += block.size) {
		buf_clear(&block);
		r = stage_read(&held, at, BLOCK, &block);
		if (r == 0 && la.archive_write_data(tar->archive, block.data, block.size) !=
				      (la_ssize_t)block.size)
			r = (failed(copier), -EIO);
	}
	progress_add(&copier->progress, 1, 0);
	return r;
}

static void tar_free(struct tar *tar)
{
	if (tar)
		la.archive_write_free(tar->archive);
	free(tar);
}

int export_tar_end(struct copier *copier, int error)
{
	struct tar *tar = copier->arg;
	int r = 0;

	/* Make an incomplete stream look incomplete: write no end marker. */
	if (error < 0)
		tar->error = error;
	/* libarchive frees what belongs to an open stream only when it is closed. */
	if (la.archive_write_close(tar->archive) != ARCHIVE_OK && error == 0)
		r = failed(copier);
	copier->arg = NULL;
	tar_free(tar);
	return r;
}

static const struct copier_sink sink = {
	.enter = tar_enter,
	.file = tar_file,
	.other = tar_other,
};

int export_tar_open(struct copier *copier, int fd)
{
	struct tar *tar;
	int r = load();

	if (r < 0)
		return r;
	tar = calloc(1, sizeof(*tar));
	if (!tar)
		return -ENOMEM;
	tar->fd = fd;
	tar->archive = la.archive_write_new();
	if (!tar->archive) {
		free(tar);
		return -ENOMEM;
	}
	copier->sink = &sink;
	copier->arg = tar;
	/* Names are bytes; those that are UTF-8 are what the format wants.  Others get a header
	 * that says so, of which libarchive warns. */
	setlocale(LC_CTYPE, "C.UTF-8");
	if (la.archive_write_set_format_pax(tar->archive) == ARCHIVE_OK &&
	    la.archive_write_set_options(tar->archive, "xattrheader=SCHILY") == ARCHIVE_OK &&
	    la.archive_write_open(tar->archive, tar, NULL, put_block, NULL) == ARCHIVE_OK)
		return 0;
	failed(copier);
	copier->arg = NULL;
	tar_free(tar);
	return -EIO;
}

#else

int export_tar_open(struct copier *copier, int fd)
{
	(void)copier;
	(void)fd;
	return -EOPNOTSUPP;
}

int export_tar_end(struct copier *copier, int error)
{
	(void)copier;
	return error;
}

#endif
