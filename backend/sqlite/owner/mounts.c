/* SPDX-License-Identifier: MIT */
/*
 * Which mounts have the store.
 *
 * STORE-mounts is a file beside it that SQLite never opens: a sentence that says what it is, how
 * many mounts there are, a slot for each with its number and how far it has digested what others
 * have left, and which owner each has named.  Each mount holds a lock of its open file description
 * on the byte of its slot: the kernel drops it with the process, so there is no heartbeat and no
 * clock, and one that is stopped keeps what it has.  A slot whose byte nobody has locked is free,
 * whatever is written in it.  Slots change under the lock of byte REGISTRY.
 *
 * Who joins is counted before it takes the write lock of the store for the first time, and who
 * writes asks how many there are while it holds that lock.  So what is written behind the joining
 * of a mount is told to it, and what was written before it reads itself.
 *
 * Some work is for one mount at a time: expiry, orphans, giving room back.  It is done by the one
 * that is on duty, which has the lock of byte DUTY; whoever asks first when it is free gets it.
 * One that is stopped keeps it, and its work waits.
 *
 * Where a sync has failed, no mount's may succeed until the last of them has ended.  Who knows of
 * it has a shared lock of byte FAILED, so that others come to know.
 *
 * Nothing in the file is needed when no mount is there.  The last one that leaves removes it,
 * unless it was killed.  It is read with pread(2), not mapped: whoever may write to the store may
 * cut it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/sqlite/disk/beside.h"
#include "backend/sqlite/owner/mounts.h"
#include "backend/sqlite/store/slots.h"
#include "backend/sqlite/store/store.h"
#include "backend/base/cleanup.h"
#include "backend/base/descriptor.h"
#include "backend/base/log.h"
#include "backend/base/tick.h"
#include "backend/base/thread.h"

enum {
	COUNT_AT = 512,	 /* how many mounts there are */
	ASKED_AT = 520,	 /* how often one has asked the others for their snapshots */
	SLOTS_AT = 1024, /* up to OWNERS_AT */
	OWNERS_AT = 8192,
	OWNER_SIZE = 256, /* zeros behind it */
	/* Bytes that are locked. */
	REGISTRY = 0,
	TURN = 1,
	DUTY = 2,
	FAILED = 3,
	FIRST_SLOT = 16,
	TRIES = 100,	 /* to find the file that is there */
	SWEEP_MS = 1000, /* between two looks for mounts that have ended */
	/* Looks whether it is our turn: at first for what others take for a commit each, so that
	 * each of some that write all the time comes to it. */
	TURN_YIELDS = 20,
	TURN_OFTEN = 60,
	TURN_LESS = 80,
	TURN_LONG_MS = 100, /* that one mount has the turn, whichever of its threads */
	WAIT_MS = 10,
};

struct slot {
	uint64_t number; /* of the mount; 0: the slot is free */
	uint64_t cursor;
	uint64_t untold; /* 1: it holds locks that are not in the store */
	int64_t seen;	 /* stamp up to which it knows what other programs have changed */
};

static off_t slot_at(unsigned slot)
{
	return SLOTS_AT + (off_t)(slot * sizeof(struct slot));
}

/* What is behind the end of the file is 0. */
static void read_slots(const struct sqlite *store, struct slot slots[SQLITE_MOUNTS])
{
	const size_t size = SQLITE_MOUNTS * sizeof(*slots);

	memset(slots, 0, size);
	if (pread(store->mounts.fd, slots, size, SLOTS_AT) < 0)
		log_warning("cannot read %s-mounts: %s", store->place.path, strerror(errno));
}

static int write_at(const struct sqlite *store, const void *data, size_t size, off_t at)
{
	ssize_t written = pwrite(store->mounts.fd, data, size, at);

	return written < 0 ? -errno : written == (ssize_t)size ? 0 : -EIO;
}

static bool is_alive(const struct sqlite *store, const struct slot *slots, unsigned slot)
{
	return slots[slot].number &&
	       (slot == store->mounts.slot ||
		descriptor_is_locked(store->mounts.fd, FIRST_SLOT + (off_t)slot, 1));
}

/* Under the registry's lock: free the slots of those that have ended, and count the others. */
static int count_mounts(struct sqlite *store, struct slot *slots)
{
	uint64_t count = 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < SQLITE_MOUNTS; i++) {
		if (is_alive(store, slots, i)) {
			count++;
		} else if (slots[i].number) {
			slots[i] = (struct slot){ 0 };
			r = write_at(store, &slots[i], sizeof(slots[i]), slot_at(i));
		}
	}
	return r < 0 ? r : write_at(store, &count, sizeof(count), COUNT_AT);
}

static void registry_unlock(struct sqlite *store)
{
	descriptor_lock(store->mounts.fd, F_UNLCK, REGISTRY, 1, false);
}

/* Open the file and lock the registry; between the two the last mount may have removed it. */
static int open_registry(struct sqlite *store)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = sqlite_beside_open(store->place.path, sqlite_mounts_ending,
					    sqlite_mounts_sentence, O_CREAT);
		struct stat st;
		int r;

		if (fd < 0)
			return fd;
		r = descriptor_lock(fd, F_WRLCK, REGISTRY, 1, true);
		if (r == 0 && fstat(fd, &st) < 0)
			r = -errno;
		if (r == 0 && st.st_nlink) {
			store->mounts.fd = fd;
			return 0;
		}
		close(fd);
		if (r < 0)
			return r;
	}
	return -EAGAIN;
}

static off_t owner_at(unsigned slot)
{
	return OWNERS_AT + (off_t)slot * OWNER_SIZE;
}

static int take_slot(struct sqlite *store, const char *name)
{
	const struct slot own = { .number = store->mounts.number };
	char owner[OWNER_SIZE] = "";
	struct slot slots[SQLITE_MOUNTS];
	unsigned slot = 0;
	int r;

	read_slots(store, slots);
	/* Whatever is written in a slot: who has its byte has it. */
	while (slot < SQLITE_MOUNTS &&
	       descriptor_lock(store->mounts.fd, F_WRLCK, FIRST_SLOT + (off_t)slot, 1, false) < 0)
		slot++;
	if (slot == SQLITE_MOUNTS)
		return -EUSERS;
	store->mounts.slot = slot;
	slots[slot] = own;
	r = write_at(store, sqlite_mounts_sentence, strlen(sqlite_mounts_sentence), 0);
	if (r == 0)
		r = write_at(store, &own, sizeof(own), slot_at(slot));
	snprintf(owner, sizeof(owner), "%s", name);
	if (r == 0)
		r = write_at(store, owner, sizeof(owner), owner_at(slot));
	return r < 0 ? r : count_mounts(store, slots);
}

/* Whoever has the store and is not here is about to come; or is in a file that was removed. */
static int wait_for_others(struct sqlite *store)
{
	int64_t deadline = tick_ms() + SQLITE_BUSY_MS;

	while (!sqlite_mounts_shared(store) && sqlite_file_owned_elsewhere(store->place.file)) {
		if (tick_ms() > deadline)
			return -EBUSY;
		usleep(WAIT_MS * 1000);
	}
	return 0;
}

int sqlite_mounts_join(struct sqlite *store, const char *owner)
{
	int r = open_registry(store);

	store->mounts.slot = SQLITE_MOUNTS;
	if (r < 0)
		return r;
	r = take_slot(store, owner);
	registry_unlock(store);
	if (r == 0)
		r = wait_for_others(store);
	if (r == -EBUSY) {
		sqlite_mounts_leave(store);
	} else if (r < 0) {
		close(store->mounts.fd);
		store->mounts.fd = -1;
	}
	return r;
}

void sqlite_mounts_leave(struct sqlite *store)
{
	const struct slot none = { 0 };
	struct slot slots[SQLITE_MOUNTS];
	uint64_t count = 1;

	if (store->mounts.fd < 0)
		return;
	descriptor_lock(store->mounts.fd, F_WRLCK, REGISTRY, 1, true);
	write_at(store, &none, sizeof(none), slot_at(store->mounts.slot));
	read_slots(store, slots);
	store->mounts.slot = SQLITE_MOUNTS;
	if (count_mounts(store, slots) == 0 &&
	    pread(store->mounts.fd, &count, sizeof(count), COUNT_AT) == sizeof(count) &&
	    count == 0 && sqlite_place_stands(&store->place))
		unlink(BESIDE(store->place.path, sqlite_mounts_ending));
	close(store->mounts.fd);
	store->mounts.fd = -1;
	feed_notes_done(&store->mounts.waiting);
}

char *sqlite_mounts_owners(const struct sqlite *store)
{
	_cleanup_(closep) int fd = sqlite_beside_open(store->place.path, sqlite_mounts_ending,
						      sqlite_mounts_sentence, 0);
	_cleanup_(buf_done) struct buf words = { 0 };
	char owner[OWNER_SIZE];
	int r = 0;

	for (unsigned i = 0; r == 0 && fd >= 0 && i < SQLITE_MOUNTS; i++) {
		ssize_t size = descriptor_is_locked(fd, FIRST_SLOT + (off_t)i, 1) ?
				       pread(fd, owner, sizeof(owner), owner_at(i)) :
				       0;

		if (size > 0)
			r = buf_printf(&words, "%s%.*s", words.size ? " and " : "", (int)size,
				       owner);
	}
	return r < 0 ? NULL : steal_ptr(words.data);
}

bool sqlite_mounts_shared(const struct sqlite *store)
{
	uint64_t count = 0;

	if (store->mounts.fd < 0)
		return false;
	return pread(store->mounts.fd, &count, sizeof(count), COUNT_AT) != sizeof(count) ||
	       count != 1;
}

void sqlite_mounts_sweep(struct sqlite *store)
{
	struct slot slots[SQLITE_MOUNTS];
	int64_t now = tick_ms();

	if (!sqlite_mounts_shared(store) || now < store->mounts.sweep_at)
		return;
	store->mounts.sweep_at = now + SWEEP_MS;
	if (descriptor_lock(store->mounts.fd, F_WRLCK, REGISTRY, 1, false) < 0)
		return;
	read_slots(store, slots);
	count_mounts(store, slots);
	registry_unlock(store);
}

void sqlite_mounts_tell(struct sqlite *store, uint64_t cursor)
{
	const off_t at = slot_at(store->mounts.slot) + (off_t)offsetof(struct slot, cursor);

	if (store->mounts.fd >= 0)
		write_at(store, &cursor, sizeof(cursor), at);
}

void sqlite_mounts_see(struct sqlite *store, int64_t stamp)
{
	const off_t at = slot_at(store->mounts.slot) + (off_t)offsetof(struct slot, seen);

	write_at(store, &stamp, sizeof(stamp), at);
}

int64_t sqlite_mounts_seen(const struct sqlite *store)
{
	_cleanup_(closep) int fd = sqlite_beside_open(store->place.path, sqlite_mounts_ending,
						      sqlite_mounts_sentence, 0);
	struct slot slot;
	int64_t seen = 0;

	for (unsigned i = 0; fd >= 0 && i < SQLITE_MOUNTS; i++)
		if (descriptor_is_locked(fd, FIRST_SLOT + (off_t)i, 1) &&
		    pread(fd, &slot, sizeof(slot), slot_at(i)) == sizeof(slot))
			seen = MAX(seen, slot.seen);
	return seen;
}

void sqlite_mounts_hold(struct sqlite *store, bool untold)
{
	const off_t at = slot_at(store->mounts.slot) + (off_t)offsetof(struct slot, untold);
	const uint64_t word = untold;

	write_at(store, &word, sizeof(word), at);
}

bool sqlite_mounts_untold(const struct sqlite *store)
{
	struct slot slots[SQLITE_MOUNTS];

	if (store->mounts.fd < 0)
		return false;
	read_slots(store, slots);
	for (unsigned i = 0; i < SQLITE_MOUNTS; i++)
		if (i != store->mounts.slot && slots[i].untold && is_alive(store, slots, i))
			return true;
	return false;
}

bool sqlite_mounts_duty(const struct sqlite *store)
{
	return store->mounts.fd < 0 ||
	       descriptor_lock(store->mounts.fd, F_WRLCK, DUTY, 1, false) == 0;
}

bool sqlite_on_duty(struct backend *backend)
{
	return sqlite_mounts_duty(sqlite_of(backend));
}

void sqlite_mounts_fail(const struct sqlite *store)
{
	if (store->mounts.fd >= 0)
		descriptor_lock(store->mounts.fd, F_RDLCK, FAILED, 1, false);
}

bool sqlite_mounts_failed(const struct sqlite *store)
{
	return store->mounts.fd >= 0 && descriptor_is_locked(store->mounts.fd, FAILED, 1);
}

static uint64_t times_asked(const struct sqlite *store)
{
	uint64_t times = 0;

	return pread(store->mounts.fd, &times, sizeof(times), ASKED_AT) == sizeof(times) ? times :
											   0;
}

void sqlite_mounts_ask(const struct sqlite *store)
{
	const uint64_t times = times_asked(store) + 1;

	write_at(store, &times, sizeof(times), ASKED_AT);
}

bool sqlite_mounts_asked(struct sqlite *store)
{
	uint64_t before = store->mounts.asked;

	if (store->mounts.fd < 0)
		return false;
	store->mounts.asked = times_asked(store);
	return store->mounts.asked != before;
}

uint64_t sqlite_mounts_least(const struct sqlite *store)
{
	struct slot slots[SQLITE_MOUNTS];
	uint64_t least = UINT64_MAX;

	read_slots(store, slots);
	for (unsigned i = 0; i < SQLITE_MOUNTS; i++)
		if (slots[i].number)
			least = MIN(least, slots[i].cursor);
	return least;
}

bool sqlite_mounts_lives(const struct sqlite *store, uint64_t number)
{
	struct slot slots[SQLITE_MOUNTS];

	if (store->mounts.fd < 0)
		return number == store->mounts.number;
	read_slots(store, slots);
	for (unsigned i = 0; i < SQLITE_MOUNTS; i++)
		if (slots[i].number == number && is_alive(store, slots, i))
			return true;
	return false;
}

static void pause_before(unsigned look)
{
	if (look < TURN_YIELDS)
		sched_yield();
	else
		usleep(look < TURN_OFTEN ? 50 : look < TURN_LESS ? 200 : 1000);
}

/* The kernel's own queue for locks would wait for a mount that is stopped. */
void sqlite_mounts_turn(struct sqlite *store)
{
	int64_t deadline = tick_ms() + SQLITE_BUSY_MS;
	unsigned looks = 0;
	WITH_MUTEX(&store->mounts.lock);

	while (!store->mounts.turns &&
	       descriptor_lock(store->mounts.fd, F_WRLCK, TURN, 1, false) < 0 &&
	       tick_ms() < deadline)
		pause_before(looks++);
	if (!store->mounts.turns++)
		store->mounts.turn_at = tick_ms();
}

static bool has_turn_for_long(struct sqlite *store)
{
	WITH_MUTEX(&store->mounts.lock);

	return store->mounts.turns && tick_ms() - store->mounts.turn_at > TURN_LONG_MS;
}

void sqlite_mounts_turn_begin(struct sqlite *store)
{
	int64_t deadline = tick_ms() + SQLITE_BUSY_MS;
	unsigned looks = 0;

	while (has_turn_for_long(store) && tick_ms() < deadline)
		pause_before(looks++);
	sqlite_mounts_turn(store);
}

void sqlite_mounts_turn_end(struct sqlite *store)
{
	WITH_MUTEX(&store->mounts.lock);

	if (--store->mounts.turns == 0)
		descriptor_lock(store->mounts.fd, F_UNLCK, TURN, 1, false);
}
