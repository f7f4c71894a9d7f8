/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CONTRACT_MOUNTS_H
#define TESTS_CONTRACT_MOUNTS_H

/* What cases of several mounts have in common. */

#include "tests/contract/contract.h"

extern struct backend *one, *two;

/* See who else is there. */
void look_around(struct backend *backend);
void digest(struct backend *backend);
/* What waits for a mount, for who follows what happens, as text; it is digested then. */
const char *followed(struct backend *backend);
struct backend_node placed(struct backend_node node, uint64_t parent, uint64_t entry);
struct backend_op guard_unused(uint64_t ino);
/* On a server: a mount that wants the store for itself. */
int try_alone(struct backend **ret_backend);

#endif
