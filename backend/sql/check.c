/* SPDX-License-Identifier: MIT */
/* check(): what holds in a store that is whole. */
#include "backend/sql/cursor.h"
#include "backend/sql/slots.h"
#include "backend/base/cleanup.h"

/* What each counts is to be none. */
static const struct rule {
	enum sql_text text;
	const char *sentence;
} rules[] = {
	{ SQL_CHECK_ENTRIES, "%lld names lead to no file" },
	{ SQL_CHECK_XATTRS, "%lld attributes belong to no file" },
	{ SQL_CHECK_CHUNKS, "%lld chunks belong to no file" },
	{ SQL_CHECK_PIECES, "%lld pieces belong to no file" },
	{ SQL_CHECK_MARKS, "%lld marks belong to no file" },
	{ SQL_CHECK_HIDDEN, "%lld hidden rows belong to no file" },
	{ SQL_CHECK_ROOT, "%lld root directories are missing" },
};

static int check(struct backend_snapshot *snapshot, const struct rule *rule,
		 backend_report_fn *report, void *arg)
{
	struct sql_cursor cursor = sql_cursor_open(snapshot, rule->text, SQL_NO_VALUES);
	int64_t count = sql_cursor_only(&cursor, 0) ? sql_cursor_number(&cursor, 0) : 0;
	_cleanup_(freep) char *sentence = NULL;
	int r = sql_cursor_end(&cursor);

	if (r < 0 || !count)
		return r;
	/* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
	sentence = str_printf(rule->sentence, (long long)count);
	report(arg, sentence ? sentence : rule->sentence);
	return 1;
}

int sql_check(struct backend *backend, backend_report_fn *report, void *arg, uint64_t *ret_damage)
{
	struct backend_snapshot *snapshot;
	int r = sql_snapshot_begin(backend, BACKEND_ANYWAY, &snapshot), broken = 0;

	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(rules); i++) {
		r = check(snapshot, &rules[i], report, arg);
		broken += MAX(r, 0);
	}
	sql_snapshot_end(backend, snapshot);
	*ret_damage = (uint64_t)broken;
	return r < 0 ? r : broken;
}
