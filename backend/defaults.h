/* SPDX-License-Identifier: MIT */
#ifndef BACKEND_DEFAULTS_H
#define BACKEND_DEFAULTS_H

/* What backend_init() fills in for slots that a store does not have (backend.c). */

#include "backend/backend.h"

extern const struct backend_scans default_scans;   /* scans.c */
extern const struct backend_joined default_joined; /* tail.c */
extern const struct backend_changes default_changes;
extern const struct backend_shared default_shared;
extern const struct backend_snapshots default_snapshots;
extern const struct backend_upkeep default_upkeep;
extern const struct backend_history default_history; /* defaults.c */

#endif
