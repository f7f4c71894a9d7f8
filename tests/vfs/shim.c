/* SPDX-License-Identifier: MIT */
#include "tests/vfs/shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/base/cleanup.h"
#include "tests/vfs/log.h"

struct shim_file {
	sqlite3_file base; /* must be first */
	int number;	   /* in the log; -1: not in it */
	bool names_itself; /* its first sync syncs the directory */
	sqlite3_file real; /* and what the unix VFS needs behind it; must be last */
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs shim_vfs;
static sqlite3_mem_methods real_memory;

/* Held over a change of a file, so that the log has them in their true order. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_log *current;

static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_fault fault;
static pthread_t fault_thread;
static bool armed;
static uint64_t calls, failures;

static pthread_rwlock_t watch_lock = PTHREAD_RWLOCK_INITIALIZER;
static shim_step_fn *watch_fn;
static void *watch_arg;
static enum shim_threads watch_threads;
static pthread_t watch_thread;
static _Thread_local bool in_step;

/* ---- steps ---- */

void shim_watch(enum shim_threads threads, shim_step_fn *fn, void *arg)
{
	pthread_rwlock_wrlock(&watch_lock);
	watch_threads = threads;
	watch_thread = pthread_self();
	watch_fn = fn;
	watch_arg = arg;
	pthread_rwlock_unlock(&watch_lock);
}

static void step(const char *name)
{
	bool same;

	if (in_step)
		return;
	pthread_rwlock_rdlock(&watch_lock);
	same = pthread_equal(watch_thread, pthread_self());
	if (watch_fn &&
	    (watch_threads == SHIM_ALL_THREADS || same == (watch_threads == SHIM_THIS_THREAD))) {
		in_step = true;
		watch_fn(watch_arg, name);
		in_step = false;
	}
	pthread_rwlock_unlock(&watch_lock);
}

/* ---- faults ---- */

struct answer {
	int code; /* SQLITE_OK: cannot be */
	int system;
};

static const struct {
	const char *name;
	struct answer answer[SHIM_ERRORS];
} kinds[SHIM_CALLS] = {
	[SHIM_OPEN] = { "open",
			{ [SHIM_IO] = { SQLITE_CANTOPEN, EIO },
			  [SHIM_FULL] = { SQLITE_CANTOPEN, ENOSPC },
			  [SHIM_NOMEM] = { SQLITE_NOMEM, ENOMEM } } },
	[SHIM_READ] = { "read", { [SHIM_IO] = { SQLITE_IOERR_READ, EIO } } },
	[SHIM_WRITE] = { "write",
			 { [SHIM_IO] = { SQLITE_IOERR_WRITE, EIO },
			   [SHIM_FULL] = { SQLITE_FULL, ENOSPC } } },
	[SHIM_SYNC] = { "sync",
			{ [SHIM_IO] = { SQLITE_IOERR_FSYNC, EIO },
			  [SHIM_FULL] = { SQLITE_IOERR_FSYNC, ENOSPC } } },
	[SHIM_TRUNCATE] = { "truncate", { [SHIM_IO] = { SQLITE_IOERR_TRUNCATE, EIO } } },
	[SHIM_SIZE] = { "size", { [SHIM_IO] = { SQLITE_IOERR_FSTAT, EIO } } },
	[SHIM_LOCK] = { "lock",
			{ [SHIM_IO] = { SQLITE_IOERR_LOCK, EIO },
			  [SHIM_BUSY] = { SQLITE_BUSY, EAGAIN } } },
	[SHIM_SHM_MAP] = { "shm-map",
			   { [SHIM_IO] = { SQLITE_IOERR_SHMMAP, EIO },
			     [SHIM_FULL] = { SQLITE_IOERR_SHMSIZE, ENOSPC },
			     [SHIM_BUSY] = { SQLITE_BUSY, EAGAIN },
			     [SHIM_NOMEM] = { SQLITE_IOERR_NOMEM, ENOMEM } } },
	[SHIM_SHM_LOCK] = { "shm-lock",
			    { [SHIM_IO] = { SQLITE_IOERR_SHMLOCK, EIO },
			      [SHIM_BUSY] = { SQLITE_BUSY, EAGAIN } } },
	[SHIM_DELETE] = { "delete", { [SHIM_IO] = { SQLITE_IOERR_DELETE, EIO } } },
	[SHIM_ACCESS] = { "access", { [SHIM_IO] = { SQLITE_IOERR_ACCESS, EIO } } },
	[SHIM_MALLOC] = { "malloc", { [SHIM_NOMEM] = { SQLITE_NOMEM, ENOMEM } } },
};

const char *shim_call_name(enum shim_call call)
{
	return kinds[call].name;
}

bool shim_can_fail(enum shim_call call, enum shim_error error)
{
	return kinds[call].answer[error].code != SQLITE_OK;
}

int shim_errno(enum shim_error error)
{
	static const int errors[SHIM_ERRORS] = { -EIO, -ENOSPC, -EBUSY, -ENOMEM };

	return errors[error];
}

static void set_fault(const struct shim_fault *new_fault)
{
	pthread_mutex_lock(&fault_lock);
	armed = new_fault != NULL;
	if (new_fault) {
		fault = *new_fault;
		fault_thread = pthread_self();
		calls = failures = 0;
	}
	pthread_mutex_unlock(&fault_lock);
}

void shim_fail(const struct shim_fault *new_fault)
{
	set_fault(new_fault);
}

void shim_heal(void)
{
	set_fault(NULL);
}

uint64_t shim_calls(void)
{
	uint64_t count;

	pthread_mutex_lock(&fault_lock);
	count = calls;
	pthread_mutex_unlock(&fault_lock);
	return count;
}

uint64_t shim_failures(void)
{
	uint64_t count;

	pthread_mutex_lock(&fault_lock);
	count = failures;
	pthread_mutex_unlock(&fault_lock);
	return count;
}

static bool is_meant(enum shim_call call)
{
	bool same = pthread_equal(fault_thread, pthread_self());

	return armed && fault.call == call &&
	       (fault.threads == SHIM_ALL_THREADS || same == (fault.threads == SHIM_THIS_THREAD));
}

/* SQLITE_OK: go on. */
static int fails(enum shim_call call)
{
	const struct answer *answer = NULL;

	pthread_mutex_lock(&fault_lock);
	if (is_meant(call)) {
		calls++;
		if (fault.nth && (calls == fault.nth || (fault.lasting && calls > fault.nth)))
			answer = &kinds[call].answer[fault.error];
	}
	failures += answer != NULL;
	pthread_mutex_unlock(&fault_lock);
	if (!answer)
		return SQLITE_OK;
	errno = answer->system;
	return answer->code;
}

static void *memory_malloc(int size)
{
	return fails(SHIM_MALLOC) ? NULL : real_memory.xMalloc(size);
}

static void *memory_realloc(void *data, int size)
{
	return fails(SHIM_MALLOC) ? NULL : real_memory.xRealloc(data, size);
}

/* Who waits for a lock that is refused for good need not do it for ten seconds. */
static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
	bool idle;

	(void)vfs;
	/* Whom the step keeps waiting is not waited for. */
	if (in_step)
		return microseconds;
	pthread_mutex_lock(&fault_lock);
	idle = armed && fault.lasting && fault.error == SHIM_BUSY && failures;
	pthread_mutex_unlock(&fault_lock);
	return idle ? microseconds : real_vfs->xSleep(real_vfs, microseconds);
}

/* ---- the log ---- */

/* With log_lock held, as everything that follows here. */
static void add(enum shim_entry entry, int file, uint64_t offset, struct bytes data)
{
	if (current && (entry == SHIM_MARK || entry == SHIM_DIR_SYNCED || file >= 0))
		shim_log_add(current, entry, (unsigned)MAX(file, 0), offset, data);
}

/* The name of a path in the directory that is logged; NULL for others. */
static const char *name_in_dir(const char *path)
{
	size_t size;

	if (!current || !path)
		return NULL;
	size = strlen(current->dir);
	if (strncmp(path, current->dir, size) != 0 || path[size] != '/' ||
	    strchr(path + size + 1, '/'))
		return NULL;
	return path + size + 1;
}

static int find_name(const char *name)
{
	for (unsigned i = 0; i < current->files; i++)
		if (current->name[i] && strcmp(current->name[i], name) == 0)
			return (int)i;
	return -1;
}

static int add_file(const char *name)
{
	unsigned number = current->files++;

	MUST(number < SHIM_FILES);
	current->name[number] = strdup(name);
	MUST(current->name[number]);
	return (int)number;
}

/* A file that SQLite has opened. */
static int number_of(const char *path)
{
	const char *name = name_in_dir(path);
	int number;

	if (!name)
		return -1;
	number = find_name(name);
	if (number < 0) {
		number = add_file(name);
		add(SHIM_CREATED, number, 0, bytes_str(name));
	}
	return number;
}

static void read_file(const char *dir, const char *name, struct buf *bytes)
{
	_cleanup_(freep) char *path = NULL;
	_cleanup_(closep) int fd = -1;
	struct stat st;

	MUST(asprintf(&path, "%s/%s", dir, name) > 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	MUST(fd >= 0 && fstat(fd, &st) == 0);
	MUST(buf_append_zeros(bytes, (size_t)st.st_size) == 0);
	MUST(pread(fd, bytes->data, bytes->size, 0) == st.st_size);
}

void shim_record(const char *dir)
{
	struct shim_log *log = calloc(1, sizeof(*log));
	struct dirent *entry;
	DIR *stream;

	MUST(log && !current);
	log->dir = realpath(dir, NULL);
	MUST(log->dir);
	stream = opendir(dir);
	MUST(stream);
	pthread_mutex_lock(&log_lock);
	current = log;
	while ((entry = readdir(stream))) {
		size_t size = strlen(entry->d_name);
		int number;

		if (entry->d_type != DT_REG ||
		    (size > 4 && strcmp(entry->d_name + size - 4, "-shm") == 0))
			continue;
		number = add_file(entry->d_name);
		log->first_name[number] = strdup(entry->d_name);
		MUST(log->first_name[number]);
		read_file(dir, entry->d_name, &log->first_bytes[number]);
	}
	log->first_files = log->files;
	pthread_mutex_unlock(&log_lock);
	closedir(stream);
}

struct shim_log *shim_recorded(void)
{
	struct shim_log *log;

	pthread_mutex_lock(&log_lock);
	log = current;
	current = NULL;
	pthread_mutex_unlock(&log_lock);
	return log;
}

void shim_mark(uint64_t number)
{
	pthread_mutex_lock(&log_lock);
	add(SHIM_MARK, -1, number, (struct bytes){ 0 });
	pthread_mutex_unlock(&log_lock);
}

static void synced(const char *path)
{
	const char *name;

	pthread_mutex_lock(&log_lock);
	name = name_in_dir(path);
	if (name)
		add(SHIM_SYNCED, find_name(name), 0, (struct bytes){ 0 });
	else if (current && strcmp(path, current->dir) == 0)
		add(SHIM_DIR_SYNCED, -1, 0, (struct bytes){ 0 });
	pthread_mutex_unlock(&log_lock);
}

/* ---- what the code under test syncs itself ---- */

/* Names that the linker's --wrap option prescribes. */
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);

static int sync_descriptor(int fd)
{
	char link[64], path[PATH_MAX];
	ssize_t size;

	if (fails(SHIM_SYNC) != SQLITE_OK)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	size = readlink(link, path, sizeof(path) - 1);
	if (size < 0)
		return -1;
	path[size] = '\0';
	synced(path);
	return 0;
}

int __wrap_fsync(int fd)
{
	return sync_descriptor(fd);
}

int __wrap_fdatasync(int fd)
{
	return sync_descriptor(fd);
}

/* ---- methods of an open file ---- */

static struct shim_file *file_of(sqlite3_file *file)
{
	return (struct shim_file *)file;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
	return &file_of(file)->real;
}

static int file_close(sqlite3_file *file)
{
	return real_of(file)->pMethods->xClose(real_of(file));
}

static int file_read(sqlite3_file *file, void *data, int size, sqlite3_int64 offset)
{
	int code;

	step("Read");
	code = fails(SHIM_READ);
	return code ? code : real_of(file)->pMethods->xRead(real_of(file), data, size, offset);
}

static int file_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
	int code;

	step("Write");
	code = fails(SHIM_WRITE);
	if (code)
		return code;
	pthread_mutex_lock(&log_lock);
	code = real_of(file)->pMethods->xWrite(real_of(file), data, size, offset);
	if (code == SQLITE_OK)
		add(SHIM_WRITTEN, file_of(file)->number, (uint64_t)offset,
		    bytes_make(data, (size_t)size));
	pthread_mutex_unlock(&log_lock);
	return code;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int code;

	step("Truncate");
	code = fails(SHIM_TRUNCATE);
	if (code)
		return code;
	pthread_mutex_lock(&log_lock);
	code = real_of(file)->pMethods->xTruncate(real_of(file), size);
	if (code == SQLITE_OK)
		add(SHIM_TRUNCATED, file_of(file)->number, (uint64_t)size, (struct bytes){ 0 });
	pthread_mutex_unlock(&log_lock);
	return code;
}

static int file_sync(sqlite3_file *file, int flags)
{
	struct shim_file *shim = file_of(file);
	int code;

	(void)flags;
	step("Sync");
	code = fails(SHIM_SYNC);
	if (code)
		return code;
	pthread_mutex_lock(&log_lock);
	add(SHIM_SYNCED, shim->number, 0, (struct bytes){ 0 });
	if (shim->names_itself)
		add(SHIM_DIR_SYNCED, -1, 0, (struct bytes){ 0 });
	shim->names_itself = false;
	pthread_mutex_unlock(&log_lock);
	return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
	int code;

	step("FileSize");
	code = fails(SHIM_SIZE);
	return code ? code : real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int level)
{
	int code;

	step("Lock");
	code = fails(SHIM_LOCK);
	return code ? code : real_of(file)->pMethods->xLock(real_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
	step("Unlock");
	return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int file_check_lock(sqlite3_file *file, int *reserved)
{
	return real_of(file)->pMethods->xCheckReservedLock(real_of(file), reserved);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
	return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int file_sector_size(sqlite3_file *file)
{
	return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
	return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int file_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **data)
{
	int code;

	step("ShmMap");
	code = fails(SHIM_SHM_MAP);
	return code ? code :
		      real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, data);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
	char name[32];
	int code;

	snprintf(name, sizeof(name), "%s %d", flags & SQLITE_SHM_LOCK ? "ShmLock" : "ShmUnlock",
		 offset);
	step(name);
	code = flags & SQLITE_SHM_LOCK ? fails(SHIM_SHM_LOCK) : SQLITE_OK;
	return code ? code : real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
	step("ShmBarrier");
	real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int file_shm_unmap(sqlite3_file *file, int remove)
{
	return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

/* Nothing is mapped, so that every read comes here. */
static int file_fetch(sqlite3_file *file, sqlite3_int64 offset, int size, void **data)
{
	(void)file;
	(void)offset;
	(void)size;
	*data = NULL;
	return SQLITE_OK;
}

static int file_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *data)
{
	(void)file;
	(void)offset;
	(void)data;
	step("Unfetch");
	return SQLITE_OK;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 3,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_check_lock,
	.xFileControl = file_control,
	.xSectorSize = file_sector_size,
	.xDeviceCharacteristics = file_characteristics,
	.xShmMap = file_shm_map,
	.xShmLock = file_shm_lock,
	.xShmBarrier = file_shm_barrier,
	.xShmUnmap = file_shm_unmap,
	.xFetch = file_fetch,
	.xUnfetch = file_unfetch,
};

/* ---- methods of the VFS ---- */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
		    int *ret_flags)
{
	const int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
	struct shim_file *shim = file_of(file);
	int code = fails(SHIM_OPEN);

	(void)vfs;
	shim->base.pMethods = NULL;
	if (code)
		return code;
	pthread_mutex_lock(&log_lock);
	code = real_vfs->xOpen(real_vfs, path, &shim->real, flags, ret_flags);
	if (code == SQLITE_OK) {
		shim->number = flags & (journals | SQLITE_OPEN_MAIN_DB) ? number_of(path) : -1;
		shim->names_itself = (flags & SQLITE_OPEN_CREATE) && (flags & journals);
		shim->base.pMethods = &file_methods;
	}
	pthread_mutex_unlock(&log_lock);
	return code;
}

static void deleted(const char *path, bool dir_synced)
{
	const char *name = name_in_dir(path);
	int number = name ? find_name(name) : -1;

	if (number < 0)
		return;
	add(SHIM_DELETED, number, 0, bytes_str(name));
	free(current->name[number]);
	current->name[number] = NULL;
	if (dir_synced)
		add(SHIM_DIR_SYNCED, -1, 0, (struct bytes){ 0 });
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_dir)
{
	int code = fails(SHIM_DELETE);

	(void)vfs;
	if (code)
		return code;
	pthread_mutex_lock(&log_lock);
	code = real_vfs->xDelete(real_vfs, path, 0);
	if (code == SQLITE_OK)
		deleted(path, sync_dir);
	pthread_mutex_unlock(&log_lock);
	return code;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *ret_result)
{
	int code = fails(SHIM_ACCESS);

	(void)vfs;
	return code ? code : real_vfs->xAccess(real_vfs, path, flags, ret_result);
}

void shim_install(void)
{
	sqlite3_mem_methods memory;

	MUST(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) == SQLITE_OK);
	memory = real_memory;
	memory.xMalloc = memory_malloc;
	memory.xRealloc = memory_realloc;
	MUST(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) == SQLITE_OK);
	/* So that each allocation is one that can fail. */
	MUST(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
	real_vfs = sqlite3_vfs_find(NULL);
	MUST(real_vfs);
	/* What is not replaced makes no use of the VFS that it is handed. */
	shim_vfs = *real_vfs;
	shim_vfs.zName = "shim";
	shim_vfs.pNext = NULL;
	shim_vfs.szOsFile = (int)offsetof(struct shim_file, real) + real_vfs->szOsFile;
	shim_vfs.xOpen = vfs_open;
	shim_vfs.xDelete = vfs_delete;
	shim_vfs.xAccess = vfs_access;
	shim_vfs.xSleep = vfs_sleep;
	MUST(sqlite3_vfs_register(&shim_vfs, 1) == SQLITE_OK);
}
