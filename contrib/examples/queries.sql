-- SPDX-License-Identifier: MIT
--
-- Questions about all sessions of a store, for sqlite3(1), with or without a mount:
--
--	sqlite3 -readonly -box store.db < queries.sql
--	sqlite3 -readonly -box -cmd ".parameter set @word 'decorator'" store.db < queries.sql
--
-- The views are temporary: nothing is written into the store.  They know the records of AgentScope,
-- Claude Code, Codex, Gemini CLI and Strands; for another client, add its paths.

-- Every JSON object: a row, or an element of the list "messages" of a document (Gemini CLI).  The
-- plain text of the ":_hash" rows is not JSON, so it is kept away from the JSON functions.
CREATE TEMP VIEW records AS
WITH rows AS (
	SELECT session_id, state_key, item_index,
		CASE WHEN json_valid(state_data) THEN state_data ELSE 'null' END AS data
	FROM agentscope_sessions
)
SELECT session_id, state_key, item_index, data FROM rows
WHERE json_type(data) = 'object' AND json_type(data, '$.messages') IS NOT 'array'
UNION ALL
SELECT session_id, state_key, key, value FROM rows JOIN json_each(data, '$.messages')
WHERE json_type(data, '$.messages') = 'array' AND type = 'object';

-- A message is in the record (AgentScope, Gemini CLI), below "message" (Claude Code, Strands) or
-- below "payload" (Codex).
CREATE TEMP VIEW messages AS
SELECT session_id, state_key, item_index, data,
	lower(coalesce(
		json_extract(data, '$.message.role'),
		json_extract(data, '$.payload.role'),
		json_extract(data, '$.role'),
		CASE WHEN json_type(data, '$.content') IS NOT NULL THEN
			CASE json_extract(data, '$.type')
			WHEN 'user' THEN 'user' WHEN 'gemini' THEN 'assistant' END
		END
	)) AS role,
	coalesce(
		json_extract(data, '$.message.content'),
		json_extract(data, '$.payload.content'),
		json_extract(data, '$.content')
	) AS content,
	coalesce(json_extract(data, '$.timestamp'), json_extract(data, '$.created_at')) AS at
FROM records
WHERE role IS NOT NULL;

-- The parts of a message: its text, or the blocks that it is made of.
CREATE TEMP VIEW parts AS
SELECT session_id, state_key, item_index, role, at,
	CASE type WHEN 'object' THEN value END AS block,
	CASE type WHEN 'text' THEN atom ELSE json_extract(value, '$.text') END AS text
FROM messages JOIN json_each(
	CASE WHEN json_valid(content) AND substr(content, 1, 1) = '[' THEN content
	ELSE json_array(content) END)
WHERE type IN ('object', 'text');

CREATE TEMP VIEW tool_calls AS
SELECT session_id, state_key, item_index, name FROM (
	SELECT session_id, state_key, item_index,
		CASE json_extract(block, '$.type') WHEN 'tool_use' THEN json_extract(block, '$.name')
		ELSE json_extract(block, '$.toolUse.name') END AS name
	FROM parts WHERE block IS NOT NULL
	UNION ALL
	SELECT session_id, state_key, item_index, json_extract(data, '$.payload.name')
	FROM records WHERE json_extract(data, '$.payload.type') = 'function_call'
	UNION ALL
	SELECT session_id, state_key, item_index, json_extract(value, '$.name')
	FROM records JOIN json_each(data, '$.toolCalls')
)
WHERE name IS NOT NULL;

-- Claude Code repeats the count of an answer on each of its lines, and Gemini CLI writes a message
-- again when it changes: each id counts once.
CREATE TEMP VIEW tokens AS
SELECT min(at) AS at, max(input) AS input, max(output) AS output FROM (
	SELECT coalesce(json_extract(data, '$.timestamp'), json_extract(data, '$.created_at')) AS at,
		coalesce(json_extract(data, '$.message.id'), session_id || '/' || state_key || '/' ||
			coalesce(json_extract(data, '$.id'), item_index)) AS id,
		coalesce(json_extract(data, '$.message.usage.input_tokens'),
			json_extract(data, '$.payload.info.last_token_usage.input_tokens'),
			json_extract(data, '$.tokens.input')) AS input,
		coalesce(json_extract(data, '$.message.usage.output_tokens'),
			json_extract(data, '$.payload.info.last_token_usage.output_tokens'),
			json_extract(data, '$.tokens.output')) AS output
	FROM records
)
WHERE input IS NOT NULL OR output IS NOT NULL
GROUP BY id;

.print Messages of each role
SELECT session_id, role, count(*) AS messages FROM messages GROUP BY 1, 2 ORDER BY 1, 2;

.print Tokens of each day
SELECT date(at) AS day, sum(input) AS input, sum(output) AS output FROM tokens GROUP BY 1 ORDER BY 1;

.print Tool calls by name
SELECT name, count(*) AS calls FROM tool_calls GROUP BY 1 ORDER BY 2 DESC, 1;

.print The last three items of each list
SELECT session_id, state_key, item_index, 
	replace(substr(state_data, 1, 60), char(10), ' ') AS begins FROM (
	SELECT *, row_number() OVER (
		PARTITION BY session_id, state_key ORDER BY item_index DESC) AS back
	FROM agentscope_sessions WHERE state_key NOT LIKE '%:_hash'
)
WHERE back <= 3 ORDER BY 1, 2, 3;

.print What was said with @word in it
SELECT session_id, state_key, item_index, role,
	replace(substr(text, max(1, instr(lower(text), lower(@word)) - 20), 60), char(10), ' ')
		AS around
FROM parts WHERE instr(lower(text), lower(@word)) ORDER BY 1, 2, 3;

.print Sessions, the one used last first
SELECT session_id, count(DISTINCT state_key) AS keys, count(*) AS rows, max(updated_at) AS last
FROM agentscope_sessions GROUP BY 1 ORDER BY last DESC, 1;
