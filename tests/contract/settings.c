/* SPDX-License-Identifier: MIT */
/* What a store says for all its mounts. */
#include "tests/contract/contract.h"

#include <errno.h>

EveryStore(settings, are_listed_until_they_are_taken_back)
{
	cr_expect_str_eq(settings_of(backend), "");
	cr_expect_eq(COMMIT(backend, setting(BYTES("ttl"), BYTES("60")),
			    setting(BYTES("exact"), BYTES("1"))),
		     0);
	cr_expect_str_eq(settings_of(backend), "exact=1 ttl=60");
	cr_expect_eq(COMMIT(backend, setting(BYTES("ttl"), BYTES("7"))), 0);
	cr_expect_str_eq(settings_of(backend), "exact=1 ttl=7");
	cr_expect_eq(COMMIT(backend, setting(BYTES("ttl"), BYTES(""))), 0);
	cr_expect_eq(COMMIT(backend, setting(BYTES("pause"), BYTES(""))), 0, "never was one");
	cr_expect_str_eq(settings_of(backend), "exact=1");
}

EveryStore(settings, are_set_with_all_of_their_batch_or_not_at_all)
{
	COMMIT(backend, setting(BYTES("ttl"), BYTES("60")), row_insert(S, K, 0, BYTES("1")));
	cr_expect_eq(COMMIT(backend, setting(BYTES("ttl"), BYTES("7")),
			    setting(BYTES("pause"), BYTES("1")), row_insert(S, K, 0, BYTES("2"))),
		     -EEXIST);
	cr_expect_str_eq(settings_of(backend), "ttl=60");
}

EveryStore(settings, of_a_snapshot_stay_as_they_were)
{
	struct backend_snapshot *snapshot;

	COMMIT(backend, setting(BYTES("ttl"), BYTES("60")));
	snapshot = look(backend);
	cr_expect_str_eq(settings_seen(backend, snapshot), "ttl=60");
	COMMIT(backend, setting(BYTES("ttl"), BYTES("7")));
	cr_expect_str_eq(settings_seen(backend, snapshot), "ttl=60");
	unlook(backend, snapshot);
}

EveryStore(quotas, hold_from_when_they_are_set_until_they_are_taken_back)
{
	enum { MANY = 64, SIZE = 32000 };
	static char bytes[SIZE];
	int r = 0, i = 0;

	NEEDS(backend, upkeep, set_quota);
	backend_set_quota(backend, 1 << 20);
	for (; r == 0 && i < MANY; i++)
		r = COMMIT(backend, chunk_put(5, i, bytes_make(bytes, SIZE)));
	cr_expect_eq(r, -ENOSPC);
	backend_set_quota(backend, 0);
	for (r = 0; r == 0 && i < 2 * MANY; i++)
		r = COMMIT(backend, chunk_put(5, i, bytes_make(bytes, SIZE)));
	cr_expect_eq(r, 0);
}
