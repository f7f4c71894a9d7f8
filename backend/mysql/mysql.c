/* SPDX-License-Identifier: MIT */
/* The words of MySQL and MariaDB, and the tables of a store there. */
#include "backend/mysql/mysql.h"

#include <stddef.h>

#include "backend/mysql/link.h"
#include "backend/sql/sql.h"

static const struct sql_word words[] = {
	{ "now", "CURRENT_TIMESTAMP(6)" },
	/* A time as seconds since 1970, with a fraction; and back. */
	{ "seconds", "UNIX_TIMESTAMP(%s)" },
	{ "moment", "FROM_UNIXTIME(%s)" },
	/* INSERT ... {conflict key, columns} a = {new a} */
	{ "conflict", "ON DUPLICATE KEY UPDATE" },
	{ "new", "VALUES(%s)" },
	/* INSERT {unless} INTO ... {there}: without an error if it is there. */
	{ "unless", "IGNORE" },
	{ "there", "" },
	/* Bytes of no meaning that tell how long a column may become. */
	{ "wide", "CONVERT(RPAD('', 16384, ' ') USING binary)" },
	{ "bytes", "CONVERT(%s USING binary)" },
	{ "id", "CONVERT(%s USING binary)" },
	{ "text", "CONVERT(%s USING utf8mb4) COLLATE {collation}" },
	{ "lowest", "-9223372036854775808" },
	{ "path", "CONCAT(%1, '/', %2)" },
	/* Of a clock that no summer puts forward. */
	{ "heard", "UTC_TIMESTAMP(6)" },
	{ "place", "CONVERT(LOWER(DATABASE()) USING binary)" },
	{ "ago", "UTC_TIMESTAMP(6) - INTERVAL %s SECOND" },
	{ "exactly", "BINARY %s" },
	/* {point A B}: equal, and to be sought with what follows in the index. */
	{ "point", "%1 BETWEEN %2 AND %2" },
	{ "locked", "FOR UPDATE" },
	{ "fail_if", "SELECT (SELECT 1 UNION ALL SELECT 2 FROM %s)" },
	/* Of an update of gates: they are locked as they stand in the index. */
	{ "in_order", "" },
	{ "first", "@sessfs_first%s" },
	/* Nanoseconds since 1970, of the transaction. */
	{ "ns", "@sessfs_moment" },
	{ "kept_at", "FROM_UNIXTIME(@sessfs_moment DIV 1000 * 0.000001)" },
	{ "shared", "LOCK IN SHARE MODE" },
	{ "held", "LOCK IN SHARE MODE" },
	{ "at_once", "FOR UPDATE NOWAIT" },
	{ NULL, NULL },
};

#define HELLO                                                                                      \
	"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "                      \
	"innodb_lock_wait_timeout = 10, lock_wait_timeout = 10, autocommit = 1, completion_type "  \
	"= 0, "                                                                                    \
	"sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, "     \
	"/*M! max_statement_time = 0, */ /*!80000 max_execution_time = 0, */ "

/* Of backend/sql/tables.h. */
#define TABLE(name, columns) "CREATE TABLE IF NOT EXISTS " name " (" columns ") ENGINE = InnoDB"
#define KEYED(name, columns, key, of) TABLE(name, columns ", KEY " key " " of)
#define UNIQUE(name) "UNIQUE KEY " name
#define NOTE(text) " COMMENT '" text "'"
#define CHARS " DEFAULT CHARACTER SET utf8mb4"
#define ROOMY
#define ID "VARBINARY(1020)"
#define NAME "VARBINARY(1024)"
#define BYTES_OF(most) "VARBINARY(" most ")"
#define TEXT_OF(most) "VARCHAR(" most ")"
#define LETTER "CHAR(1)"
#define PATH "BLOB"
#define CHUNK_BYTES "MEDIUMBLOB"
#define LONG_BYTES "LONGBLOB"
#define LONG_TEXT "LONGTEXT"
#define TIME "DATETIME(6)"
#define TIME_HEARD TIME
#define COUNTED "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"

#define MAKING "CONCAT('sessfs', MD5(DATABASE()))"

static const char *const tables[] = {
	"SELECT GET_LOCK(" MAKING ", 20)",
	TABLE("{rows}", "session_id VARCHAR(255) NOT NULL, state_key VARCHAR(255) NOT NULL, "
			"item_index BIGINT NOT NULL DEFAULT 0, state_data LONGTEXT NOT NULL, "
			"created_at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), "
			"updated_at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) "
			"ON UPDATE CURRENT_TIMESTAMP(6), version BIGINT NOT NULL DEFAULT 0, "
			"PRIMARY KEY (session_id, state_key, item_index)") CHARS
	" COLLATE {collation}",
#include "backend/sql/tables.h"
	"SELECT RELEASE_LOCK(" MAKING ")",
	NULL,
};

/* They are silent on connections of ours, which say so. */
#define LOG(what, row)                                                                             \
	"INSERT INTO sessfs_change (session_id, state_key, item_index, what) VALUES "              \
	"(CONVERT(" row ".session_id USING utf8mb4), CONVERT(" row                                 \
	".state_key USING utf8mb4), " row ".item_index, '" what "')"
/* What is taken away is kept (backend/history.h).  SQL knows no time of a transaction: what one
 * connection does within 100 ms of what it did before, and 5 s altogether, is one change.  Our own
 * say the time; below 0 nothing is kept.  All of that is asked once a statement, which has one
 * NOW(): to ask it of each row would cost as much as to keep the row. */
#define NOW_NS "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED) * 1000"
#define KEEPING(body)                                                                              \
	"IF NOT NOW(6) <=> @sessfs_at THEN SET @sessfs_at = NOW(6), @sessfs_now = " NOW_NS         \
	", @sessfs_from = NULL; "                                                                  \
	"IF @sessfs_moment IS NOT NULL THEN SET @sessfs_past = @sessfs_moment; ELSEIF "            \
	"@sessfs_past IS NULL OR @sessfs_now - @sessfs_seen NOT BETWEEN 0 AND 100000000 OR "       \
	"@sessfs_now - @sessfs_past > 5000000000 THEN SET @sessfs_past = @sessfs_now; END IF; "    \
	"SET @sessfs_seen = @sessfs_now, @sessfs_keeps = @sessfs_past >= 0 AND COALESCE((SELECT "  \
	"value FROM sessfs_setting WHERE name = 'history'), '1') <> '0'; END IF; IF "              \
	"@sessfs_keeps THEN " body "; END IF"
#define PAST_IDS(row)                                                                              \
	"CONVERT(" row ".session_id USING utf8mb4), CONVERT(" row ".state_key USING utf8mb4), "    \
	"@sessfs_past, "
#define KEEP                                                                                       \
	"INSERT IGNORE INTO sessfs_past (session_id, state_key, until, what, item_index, "         \
	"last_index, pid, bytes, state_data, created_at, updated_at) SELECT " PAST_IDS(            \
		"OLD") "0, OLD.item_index, OLD.item_index, 0, "                                    \
		       "COALESCE(OCTET_LENGTH(OLD.state_data), 0), OLD.state_data, "
#define CAME(last)                                                                                 \
	"INSERT INTO sessfs_past (session_id, state_key, until, what, item_index, last_index, "    \
	"pid, bytes) VALUES (" PAST_IDS("NEW") "1, NEW.item_index, " last ", 0, 0)"
/* From its second row on a statement that appends to a key says so once, of this row and all behind
 * it.  Rows in front of others say it each for themselves; to look for others costs as much as four
 * rows, so statements of one row do not.  (A client that sets its clock by "timestamp", and takes
 * such a statement back, has later ones of the same time seen from their created_at on.) */
#define NO_INDEX "9223372036854775807"
#define SAME_KEY "BINARY NEW.session_id = @sessfs_session AND BINARY NEW.state_key = @sessfs_key"
#define APPENDED                                                                                   \
	"IF (NEW.item_index >= @sessfs_from AND " SAME_KEY ") IS NOT TRUE THEN "                   \
	"IF (@sessfs_from IS NOT NULL AND " SAME_KEY ") IS NOT TRUE THEN SET @sessfs_session = "   \
	"BINARY NEW.session_id, @sessfs_key = BINARY NEW.state_key, @sessfs_from = " NO_INDEX      \
	", @sessfs_first = TRUE; ELSEIF @sessfs_first THEN SET @sessfs_first = FALSE, "            \
	"@sessfs_from = IF(EXISTS(SELECT 1 FROM {rows} WHERE session_id = NEW.session_id AND "     \
	"state_key = NEW.state_key AND item_index > NEW.item_index), " NO_INDEX                    \
	", NEW.item_index); END IF; " CAME("IF(@sessfs_from = NEW.item_index, " NO_INDEX           \
					   ", NEW.item_index)") "; END IF"
#define TRIGGER(name, when, body)                                                                  \
	"CREATE TRIGGER " name " " when " ON {rows} FOR EACH ROW "                                 \
	"BEGIN IF @sessfs IS NULL THEN " body "; END IF; END"
/* Other programs may drop these columns, and add them: where one is not there, its name is that of
 * the join's other side, which matches no row.  So none of their statements fails.  The join, which
 * makes a table each time, is for then alone. */
#define OF_ROW(rows)                                                                               \
	" FROM " rows " WHERE session_id = OLD.session_id AND state_key = OLD.state_key AND "      \
	"item_index = OLD.item_index LIMIT 1 LOCK IN SHARE MODE; "
#define NO_SUCH_COLUMN "1054"
#define WITH_TIMES(statement)                                                                      \
	"BEGIN DECLARE CONTINUE HANDLER FOR " NO_SUCH_COLUMN " " statement OF_ROW(                 \
		"{rows} NATURAL LEFT JOIN (SELECT NULL AS created_at, NULL AS updated_at) none")   \
		statement OF_ROW("{rows}") "END"
#define TIMES WITH_TIMES("SELECT created_at, updated_at INTO @sessfs_created, @sessfs_updated")

#define GONE LOG("d", "OLD") "; " KEEPING(WITH_TIMES(KEEP "created_at, updated_at"))
#define KEEP_TIMES KEEP "@sessfs_created, @sessfs_updated"
#define CHANGED LOG("u", "NEW") "; " KEEPING(KEEP_TIMES)
#define MOVED                                                                                      \
	LOG("d", "OLD") "; " LOG("u", "NEW") "; " KEEPING(KEEP_TIMES "; " CAME("NEW.item_index"))

static const char *const triggers[] = {
	TRIGGER("sessfs_row_insert", "AFTER INSERT", LOG("i", "NEW") "; " KEEPING(APPENDED)),
	TRIGGER("sessfs_row_delete", "BEFORE DELETE", GONE),
	TRIGGER("sessfs_row_before", "BEFORE UPDATE", KEEPING(TIMES)),
	TRIGGER("sessfs_row_update", "AFTER UPDATE",
		"IF BINARY OLD.session_id = BINARY NEW.session_id AND BINARY OLD.state_key = "
		"BINARY NEW.state_key AND OLD.item_index = NEW.item_index THEN IF NOT BINARY "
		"OLD.state_data <=> BINARY NEW.state_data THEN " CHANGED "; END IF; ELSE " MOVED
		"; END IF"),
	NULL,
};

static const char *const rights[] = {
	"GRANT SELECT, INSERT, UPDATE, DELETE ON ?.* TO USER",
	NULL,
};

const struct sql_driver mysql_driver = {
	.name = "mysql",
	.words = words,
	/* End a connection that is silent in the middle of a transaction before others give up
	 * waiting for its locks; MySQL has no such setting. */
	.hello_writer = HELLO "/*M! idle_transaction_timeout = 5, */ @sessfs = 1; "
			      "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	.hello_reader = HELLO "@sessfs = 1; "
			      "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
	.begin_read = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	.begin_write = "BEGIN",
	.moment = "SET @sessfs_moment = " NOW_NS,
	.moment_forget = "SET @sessfs_moment = -1",
	.triggers_write_apart = true,
	.silent = "SET @sessfs = 1",
	.loud = "SET @sessfs = NULL",
	.tables = tables,
	.triggers = triggers,
	.no_triggers = "DROP TRIGGER IF EXISTS sessfs_row_insert; "
		       "DROP TRIGGER IF EXISTS sessfs_row_delete; "
		       "DROP TRIGGER IF EXISTS sessfs_row_before; "
		       "DROP TRIGGER IF EXISTS sessfs_row_update",
	.rights = rights,
	.script = { "DELIMITER //\n", "//\nDELIMITER ;\n" },
	.trigger_count = "SELECT COUNT(*) FROM information_schema.triggers WHERE "
			 "event_object_schema = DATABASE() AND event_object_table = ?1 AND "
			 "trigger_name IN ('sessfs_row_insert', 'sessfs_row_delete', "
			 "'sessfs_row_before', 'sessfs_row_update')",
	.collation = "SELECT collation_name FROM information_schema.collations WHERE "
		     "collation_name IN ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin') "
		     "ORDER BY 1 DESC LIMIT 1",
	.careless = "SELECT CONCAT_WS(', ', "
		    "IF(@@innodb_flush_log_at_trx_commit = 1, NULL, "
		    "CONCAT('innodb_flush_log_at_trx_commit=', @@innodb_flush_log_at_trx_commit)), "
		    "IF(@@innodb_flush_method <> 'nosync', NULL, 'innodb_flush_method=nosync'), "
		    "IF(NOT @@log_bin OR @@sync_binlog = 1, NULL, "
		    "CONCAT('sync_binlog=', @@sync_binlog)))",
	.size = "SELECT COALESCE(SUM(data_length + index_length), 0) FROM "
		"information_schema.tables WHERE table_schema = DATABASE()",
	.columns = "SELECT LOWER(column_name), LOWER(column_type), collation_name, "
		   "datetime_precision, character_maximum_length, "
		   "LOWER(column_type) = 'json' OR collation_name NOT LIKE 'utf8mb4%' FROM "
		   "information_schema.columns WHERE "
		   "table_schema = DATABASE() AND table_name = ?1",
	.careless_engine =
		"SELECT e.engine FROM information_schema.tables t JOIN information_schema.engines "
		"e ON e.engine = t.engine WHERE t.table_schema = DATABASE() AND t.table_name = ?1 "
		"AND e.transactions = 'NO'",
	.truncation = "SET SESSION lock_wait_timeout = 1",
	.version = "SELECT CASE WHEN extra LIKE '% GENERATED%' THEN '' ELSE LOWER(data_type) END "
		   "FROM information_schema.columns WHERE table_schema = DATABASE() AND "
		   "table_name = ?1 AND LOWER(column_name) = 'version'",
	.any_text = "LONGTEXT in utf8mb4",
	.open = mysql_link_open,
	.until = mysql_link_until,
	.close = mysql_link_close,
	.send = mysql_link_send,
	.next = mysql_link_next,
	.sentence = mysql_link_sentence,
	.row = mysql_answer_row,
	.answer_done = mysql_answer_done,
	.quote = mysql_quote,
	.schema = "",
	.name_quote = '`',
	.packet = mysql_link_packet,
};

int mysql_store_open(const struct url *url, const struct backend_options *options,
		     struct backend **ret_backend, char **ret_why)
{
	return sql_backend_open(&mysql_driver, url, options, ret_backend, ret_why);
}

int mysql_store_read_older(const struct url *url, const char *table, backend_older_fn *fn,
			   void *arg, char **ret_why)
{
	return sql_read_older(&mysql_driver, url, table, fn, arg, ret_why);
}
