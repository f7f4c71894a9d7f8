/* SPDX-License-Identifier: MIT */
/*
 * The words of PostgreSQL, and the tables of a store there.
 *
 * All of them are in the schema agentscope, where AgentScope's services have theirs; a connection
 * of ours looks nowhere else for names.
 */
#include "backend/postgresql/postgresql.h"

#include <stddef.h>

#include "backend/postgresql/link.h"
#include "backend/sql/sql.h"
#include "backend/sql/text.h"

/* Of what a transaction keeps, since it keeps anything: it may have begun long before. */
#define SET_MOMENT                                                                                 \
	"set_config('sessfs.moment', ((EXTRACT(EPOCH FROM clock_timestamp()) * "                   \
	"1000000)::bigint * 1000)::text, true)"
#define NOW_NS                                                                                     \
	"COALESCE(NULLIF(current_setting('sessfs.moment', true), ''), " SET_MOMENT ")::bigint"

static const struct sql_word words[] = {
	{ "now", "clock_timestamp()" },
	{ "heard", "clock_timestamp()" },
	{ "place", "convert_to(current_database(), 'UTF8')" },
	{ "ago", "clock_timestamp() - make_interval(secs => %s)" },
	/* A time as seconds since 1970, with a fraction; and back. */
	{ "seconds", "EXTRACT(EPOCH FROM (%s)::timestamptz)" },
	{ "moment", "to_timestamp(%s)" },
	/* INSERT ... {conflict key, columns} a = {new a} */
	{ "conflict", "ON CONFLICT (%s) DO UPDATE SET" },
	{ "new", "EXCLUDED.%s" },
	/* INSERT {unless} INTO ... {there}: without an error if it is there. */
	{ "unless", "" },
	{ "there", "ON CONFLICT DO NOTHING" },
	{ "wide", "''::bytea" },
	{ "bytes", "convert_to(%s, 'UTF8')" },
	{ "id", "%s" },
	/* The name of the encoding without the collation of names, which would be that of the text,
	 * and keep it from being sought in an index of another one. */
	{ "text", "convert_from(%s, 'UTF8'::text::name)" },
	{ "path", "%1 || '/'::bytea || %2" },
	{ "lowest", "'-9223372036854775808'::bigint" },
	{ "exactly", "%s" },
	{ "point", "%1 = %2" },
	{ "locked", "FOR UPDATE" },
	{ "fail_if", "SELECT (SELECT 1 UNION ALL SELECT 2 FROM %s)" },
	/* Of an update of gates, which locks them in the order of the plan. */
	{ "in_order", " AND gate IN (SELECT gate FROM sessfs_gate WHERE gate IN (?1) ORDER BY gate "
		      "FOR UPDATE)" },
	/* Nanoseconds since 1970, of the transaction. */
	{ "ns", "current_setting('sessfs.moment')::bigint" },
	{ "kept_at", "to_timestamp(current_setting('sessfs.moment')::numeric / 1000000000)" },
	{ "first", "current_setting('sessfs.first%s')::bigint" },
	{ "shared", "FOR SHARE" },
	/* Not to go, and not to be asked what became of a transaction. */
	{ "held", "FOR KEY SHARE" },
	{ "at_once", "FOR UPDATE NOWAIT" },
	{ NULL, NULL },
};

static const char *const own[SQL_TEXTS] = {
	[SQL_APPEND_FIND] = "SELECT set_config('sessfs.first?4', "
			    "COALESCE(MAX(item_index) + 1, ?3)::text, true), "
			    "COALESCE(SUM(OCTET_LENGTH(state_data) + 1), 0) FROM {rows} WHERE "
			    "{is 1 2} AND item_index >= ?3",
	/* Rows move one after the other: within a statement their order would be the server's. */
	[SQL_ROWS_UP] = "SELECT sessfs_shift_rows(?1, ?2, ?3, ?4)",
	[SQL_ROWS_DOWN] = "SELECT sessfs_shift_rows(?1, ?2, ?3, ?4)",
	[SQL_PIECES_UP] = "SELECT sessfs_shift_pieces(?5, ?3, ?4)",
	[SQL_PIECES_DOWN] = "SELECT sessfs_shift_pieces(?5, ?3, ?4)",
	[SQL_MARKS_UP] = "SELECT sessfs_shift_marks(?5, ?3, ?4, ?6)",
	[SQL_MARKS_DOWN] = "SELECT sessfs_shift_marks(?5, ?3, ?4, ?6)",
};

/* Of backend/sql/tables.h. */
#define TABLE(name, columns) "CREATE TABLE IF NOT EXISTS " name " (" columns ")"
#define KEYED(name, columns, key, of)                                                              \
	TABLE(name, columns), "CREATE INDEX IF NOT EXISTS " key " ON " name " " of
#define UNIQUE(name) "UNIQUE"
#define NOTE(text)
#define CHARS
/* A row that changes with each commit stays on its page. */
#define ROOMY " WITH (fillfactor = 20)"
#define ID "BYTEA"
#define NAME "BYTEA"
#define BYTES_OF(most) "BYTEA"
#define TEXT_OF(most) "TEXT"
#define LETTER "TEXT"
#define PATH "BYTEA"
#define CHUNK_BYTES "BYTEA"
#define LONG_BYTES "BYTEA"
#define LONG_TEXT "TEXT"
#define TIME "TIMESTAMP"
#define TIME_HEARD "TIMESTAMPTZ"
#define COUNTED "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"

/* A lock for making a store, held until that is done or the connection ends. */
#define MAKING "126879360820851"

/* What is set moves by "by", those behind first. */
#define SHIFT(name, parameters, from, column, move)                                                \
	"CREATE OR REPLACE FUNCTION agentscope." name "(" parameters ") RETURNS VOID "             \
	"LANGUAGE plpgsql AS $$ DECLARE it BIGINT; BEGIN "                                         \
	"IF by > 0 THEN FOR it IN SELECT DISTINCT " column " FROM " from                           \
	" ORDER BY 1 DESC LOOP " move "; END LOOP; ELSE FOR it IN SELECT DISTINCT " column         \
	" FROM " from " ORDER BY 1 "                                                               \
	"LOOP " move "; END LOOP; END IF; END $$"

#define ROWS_OF_KEY "session_id = session AND state_key = key AND item_index"

/* The function of the triggers.  It runs with the rights of the user that has made the store, so
 * services need none for its tables.  made and gone are the rows of one statement. */
#define LOGGING(name, body)                                                                        \
	"CREATE OR REPLACE FUNCTION agentscope." name "() RETURNS TRIGGER LANGUAGE plpgsql "       \
	"SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN " body                 \
	"; RETURN NULL; END $$"
#define LOG(what, from)                                                                            \
	"INSERT INTO agentscope.sessfs_change (session_id, state_key, item_index, what) SELECT "   \
	"convert_to(r.session_id, 'UTF8'), convert_to(r.state_key, 'UTF8'), r.item_index, '" what  \
	"' FROM " from
/* What is taken away is kept (backend/history.h). */
#define PAST                                                                                       \
	"; INSERT INTO agentscope.sessfs_past (session_id, state_key, until, what, item_index, "   \
	"last_index, pid, bytes"
#define PAST_IDS "convert_to(r.session_id, 'UTF8'), convert_to(r.state_key, 'UTF8'), " NOW_NS ", "
#define KEEPS                                                                                      \
	"current_setting('sessfs.forget', true) IS DISTINCT FROM '1' AND COALESCE((SELECT value "  \
	"FROM agentscope.sessfs_setting WHERE name = 'history'::bytea), '1'::bytea) <> '0'::bytea"
/* Other programs may drop this column, and add it: a query of its own asks for it, and without it
 * takes the value of that name from the query around it.  So none of their statements fails. */
#define IF_THERE(column)                                                                           \
	"(SELECT CASE WHEN pg_typeof(" column ")::text LIKE 'timestamp%' THEN " column             \
	"::text::timestamp END FROM (SELECT r.*) x)"
#define KEEP_GONE(condition)                                                                       \
	PAST ", state_data, created_at, updated_at) SELECT " PAST_IDS                              \
	     "0, r.item_index, r.item_index, 0, COALESCE(octet_length(r.state_data), 0), "         \
	     "r.state_data, " IF_THERE("created_at") ", " IF_THERE(                                \
		     "updated_at") " FROM gone r, (SELECT NULL AS created_at, NULL AS "            \
				   "updated_at) none WHERE " KEEPS condition                       \
				   " ORDER BY r.item_index"
/* Rows that come, one after the other. */
#define CAME(condition)                                                                            \
	PAST ") SELECT " PAST_IDS "1, MIN(r.item_index), MAX(r.item_index), 0, 0 FROM (SELECT "    \
	     "r.session_id, r.state_key, r.item_index, r.item_index - ROW_NUMBER() OVER "          \
	     "(PARTITION BY "                                                                      \
	     "r.session_id, r.state_key ORDER BY r.item_index) AS row_run FROM made r" condition   \
	     ") r WHERE " KEEPS " GROUP BY r.session_id, r.state_key, r.row_run"
#define SAME_PLACE                                                                                 \
	"o.session_id = r.session_id AND o.state_key = r.state_key AND o.item_index = "            \
	"r.item_index"

static const char *const tables[] = {
	"SELECT pg_advisory_lock(" MAKING ")",
	"DO $$ BEGIN IF to_regnamespace('agentscope') IS NULL THEN CREATE SCHEMA agentscope; "
	"END IF; END $$",
	TABLE("{rows}", "session_id TEXT COLLATE {collation} NOT NULL, "
			"state_key TEXT COLLATE {collation} NOT NULL, "
			"item_index BIGINT NOT NULL DEFAULT 0, state_data TEXT NOT NULL, "
			"created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, "
			"updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, "
			"version BIGINT NOT NULL DEFAULT 0, "
			"PRIMARY KEY (session_id, state_key, item_index)"),
#include "backend/sql/tables.h"
	SHIFT("sessfs_shift_rows", "session TEXT, key TEXT, first BIGINT, by BIGINT",
	      "{rows} WHERE " ROWS_OF_KEY " >= first", "item_index",
	      "UPDATE {rows} SET item_index = it + by WHERE " ROWS_OF_KEY " = it"),
	SHIFT("sessfs_shift_pieces", "file BIGINT, first BIGINT, by BIGINT",
	      "sessfs_piece WHERE ino = file AND item_index >= first", "item_index",
	      "UPDATE sessfs_piece SET item_index = it + by WHERE ino = file AND item_index = it"),
	SHIFT("sessfs_shift_marks", "file BIGINT, first BIGINT, rows BIGINT, by BIGINT",
	      "sessfs_mark WHERE ino = file AND item_index >= first", "byte_offset",
	      "UPDATE sessfs_mark SET byte_offset = CASE WHEN it + by >= 0 THEN it + by END, "
	      "item_index = item_index + rows WHERE ino = file AND byte_offset = it"),
	LOGGING("sessfs_row_insert", LOG("i", "made r") CAME("")),
	LOGGING("sessfs_row_delete", LOG("d", "gone r") KEEP_GONE("")),
	LOGGING("sessfs_row_update",
		LOG("d", "gone r WHERE NOT EXISTS (SELECT 1 FROM made o WHERE " SAME_PLACE
			 ")") "; " LOG("u", "made r LEFT JOIN gone o ON " SAME_PLACE
					    " WHERE o.session_id IS NULL OR o.state_data "
					    "COLLATE \"C\" IS DISTINCT FROM r.state_data COLLATE "
					    "\"C\"")
			KEEP_GONE(" AND NOT EXISTS (SELECT 1 FROM made o WHERE " SAME_PLACE
				  " AND o.state_data COLLATE \"C\" = r.state_data COLLATE \"C\")")
				CAME(" WHERE NOT EXISTS (SELECT 1 FROM gone o WHERE " SAME_PLACE
				     ")")),
	LOGGING("sessfs_row_truncate",
		"INSERT INTO agentscope.sessfs_change (item_index, what) VALUES (0, '*')"),
	"SELECT pg_advisory_unlock(" MAKING ")",
	NULL,
};

/* They are silent on connections of ours, which say so.  To make one needs the right to, and to
 * take it away the table. */
#define TRIGGER(name, when, rows)                                                                  \
	"LOCK TABLE {rows} IN SHARE ROW EXCLUSIVE MODE; DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM " \
	"pg_trigger WHERE tgrelid = '{rows}'::regclass AND tgname = '" name "') THEN "             \
	"CREATE TRIGGER " name " AFTER " when " ON {rows} " rows " FOR EACH STATEMENT WHEN "       \
	"(current_setting('sessfs.own', true) IS DISTINCT FROM '1') "                              \
	"EXECUTE FUNCTION agentscope." name "(); END IF; END $$"

static const char *const triggers[] = {
	TRIGGER("sessfs_row_insert", "INSERT", "REFERENCING NEW TABLE AS made"),
	TRIGGER("sessfs_row_delete", "DELETE", "REFERENCING OLD TABLE AS gone"),
	TRIGGER("sessfs_row_update", "UPDATE", "REFERENCING OLD TABLE AS gone NEW TABLE AS made"),
	TRIGGER("sessfs_row_truncate", "TRUNCATE", ""),
	NULL,
};

#define HELLO                                                                                      \
	"SET search_path = agentscope; SET client_min_messages = error; "                          \
	"SET lock_timeout = '10s'; SET statement_timeout = 0; "                                    \
	"SET standard_conforming_strings = on; "                                                   \
	"SET bytea_output = hex; SET default_transaction_isolation = 'read committed'; "           \
	"SET jit = off; SET max_parallel_workers_per_gather = 0; SET sessfs.own = '1'"

static const char *const rights[] = {
	"GRANT USAGE ON SCHEMA agentscope TO USER",
	"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agentscope TO USER",
	NULL,
};

const struct sql_driver postgresql_driver = {
	.name = "postgresql",
	.words = words,
	.own = own,
	/* End a connection that is silent in the middle of a transaction before others give up
	 * waiting for its locks. */
	.hello_writer = HELLO "; SET idle_in_transaction_session_timeout = '5s'",
	.hello_reader = HELLO,
	.begin_read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
	.begin_write = "BEGIN",
	.moment = "SELECT " SET_MOMENT,
	.moment_forget = "SET LOCAL sessfs.forget = '1'",
	.failure_ends = true,
	.silent = "SET sessfs.own = '1'",
	.loud = "SET sessfs.own = ''",
	.tables = tables,
	.triggers = triggers,
	.no_triggers = "DROP TRIGGER IF EXISTS sessfs_row_insert ON {rows}; "
		       "DROP TRIGGER IF EXISTS sessfs_row_delete ON {rows}; "
		       "DROP TRIGGER IF EXISTS sessfs_row_update ON {rows}; "
		       "DROP TRIGGER IF EXISTS sessfs_row_truncate ON {rows}",
	.rights = rights,
	.script = { "BEGIN;\n", ";\nCOMMIT;\n" },
	.trigger_count_tells_all = true,
	.trigger_count = "SELECT COUNT(*) FROM pg_trigger WHERE "
			 "tgrelid = to_regclass('agentscope.' || quote_ident(?1)) AND tgenabled IN "
			 "('O', 'A') AND tgname IN ('sessfs_row_insert', 'sessfs_row_delete', "
			 "'sessfs_row_update', 'sessfs_row_truncate')",
	.collation = "SELECT '\"C\"'",
	.careless = "SELECT concat_ws(', ', "
		    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN "
		    "'synchronous_commit=off' END, "
		    "CASE WHEN current_setting('fsync') = 'off' THEN 'fsync=off' END, "
		    "CASE WHEN current_setting('full_page_writes') = 'off' THEN "
		    "'full_page_writes=off' END)",
	.size = "SELECT COALESCE(SUM(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN "
		"pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'agentscope' AND "
		"c.relkind = 'r'",
	.columns = "SELECT LOWER(c.column_name), LOWER(c.data_type), (SELECT collname FROM "
		   "pg_collation WHERE collname = c.collation_name AND NOT collisdeterministic "
		   "LIMIT 1), c.datetime_precision, c.character_maximum_length, "
		   "CASE WHEN LOWER(c.data_type) LIKE 'json%' THEN 1 ELSE 0 END FROM "
		   "information_schema.columns c WHERE "
		   "c.table_schema = 'agentscope' AND c.table_name = ?1",
	.version = "SELECT CASE c.is_generated WHEN 'ALWAYS' THEN '' ELSE LOWER(c.data_type) END "
		   "FROM information_schema.columns c WHERE c.table_schema = 'agentscope' AND "
		   "c.table_name = ?1 AND c.column_name = 'version'",
	.any_text = "TEXT",
	.open = pg_link_open,
	.until = pg_link_until,
	.close = pg_link_close,
	.send = pg_link_send,
	.next = pg_link_next,
	.sentence = pg_link_sentence,
	.row = pg_answer_row,
	.answer_done = pg_answer_done,
	.quote = pg_quote,
	.schema = "agentscope.",
	.name_quote = '"',
	.packet = pg_link_packet,
};

int postgresql_store_open(const struct url *url, const struct backend_options *options,
			  struct backend **ret_backend, char **ret_why)
{
	return sql_backend_open(&postgresql_driver, url, options, ret_backend, ret_why);
}

int postgresql_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
				void *arg, char **ret_why)
{
	return sql_read_older(&postgresql_driver, url, table, fn, arg, ret_why);
}
