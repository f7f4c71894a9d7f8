-- SPDX-License-Identifier: MIT
--
-- What the server does for a store, each call at one instant.  store.h says which keys there are;
-- call.h how this is called: KEYS are ours, and what services' keys begin with, so that the server
-- refuses a user without rights to these before anything is done; ARGV begins with which store it
-- was (born), and the name of what is to be done.  Which keys of services a call is about follows from sessions and keys, and
-- from what the server finds; a cluster, which would have to know them, is refused.
--
-- This is three scripts, as making functions takes a server longer than most of what they do: one
-- that commits, one that reads, one for mounts.  A line in brackets says which have what follows.
--
-- Numbers of the store are exact up to 2^53.  Numbers in keys and nodes are eight bytes, most
-- significant first, that are only cut and compared here.
local ORDER, VALUE, META, GATE, PRINT, CHANGE, APART, LANE, MOUNT, FEED =
	KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local PREFIX, PART, PUSH = KEYS[11], 512, 7000
local call, sha, sub = redis.call, redis.sha1hex, string.sub
local at = 2

local function arg()
	at = at + 1
	return ARGV[at]
end

local function number()
	return tonumber(arg())
end

local function fail(word)
	error({ word })
end

-- The map: what it will be, over what there is.

local over = {}

local function find(key)
	local value = over[key]
	if value == nil then
		value = call('HGET', VALUE, key)
	end
	return value
end

local function put(key, value)
	over[key] = value
end

local function node_of(value)
	return sub(value, 5 + struct.unpack('>I4', value))
end

-- A number of a node as it is in a key.
local function in_key(raw)
	return string.char((string.byte(raw) + 128) % 256) .. sub(raw, 2)
end

local function key_number(key, from)
	local high, low = struct.unpack('>I4I4', key, from)
	return (high - 2147483648) * 4294967296 + low
end

local function number_key(value)
	local high = math.floor(value / 4294967296)
	return struct.pack('>I4I4', high + 2147483648, value - high * 4294967296)
end

--[ commit read ]
-- Whether another mount has told that it uses a file; this one knows better what it does.
local function is_used(keys, mount)
	for _, key in ipairs(keys) do
		if sub(key, -8) ~= number_key(tonumber(mount)) then
			return true
		end
	end
	return false
end

-- Whether a comes before b, byte by byte, wherever the server runs.
local function before(a, b)
	for i = 1, math.min(#a, #b) do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then
			return x < y
		end
	end
	return #a < #b
end

--[ commit ]
-- The keys from one on, up to another one without it.
local function between(from, to)
	local found = {}
	for _, key in ipairs(call('ZRANGEBYLEX', ORDER, '[' .. from, '(' .. to)) do
		if over[key] == nil then
			found[#found + 1] = key
		end
	end
	for key, value in pairs(over) do
		if value and not before(key, from) and before(key, to) then
			found[#found + 1] = key
		end
	end
	return found
end

--[ commit mounts ]
-- Names, files and sessions are found by their whole key alone.
local function is_ordered(key)
	local table = sub(key, 1, 1)
	return table ~= 'L' and table ~= 'F' and table ~= 'S'
end

-- A command with many words behind its key, as often as they need.
local function call_with(command, key, words)
	for i = 1, #words, PART do
		call(command, key, unpack(words, i, math.min(i + PART, #words + 1) - 1))
	end
end

local function store_map()
	local set, added, gone, taken = {}, {}, {}, {}
	local sets, adds = 0, 0
	for key, value in pairs(over) do
		if value then
			set[sets + 1], set[sets + 2], sets = key, value, sets + 2
			if is_ordered(key) then
				added[adds + 1], added[adds + 2], adds = 0, key, adds + 2
			end
		else
			gone[#gone + 1] = key
			if is_ordered(key) then
				taken[#taken + 1] = key
			end
		end
	end
	call_with('HSET', VALUE, set)
	call_with('ZADD', ORDER, added)
	call_with('HDEL', VALUE, gone)
	call_with('ZREM', ORDER, taken)
end

-- Nodes: the length of the key in an index, that key, the node (pack.h).

--[ commit ]
local function index_of(value)
	return sub(value, 5, 4 + struct.unpack('>I4', value))
end

local function forget_node(ino)
	local old = find('N' .. ino)
	if old then
		put('N' .. ino, false)
		put('O' .. ino, false)
		local index = index_of(old)
		if index ~= '' then
			put(index, false)
		end
	end
end

local function put_node(ino, value)
	forget_node(ino)
	local index = index_of(value)
	local orphan = sub(value, 49 + #index, 52 + #index) == '\0\0\0\0'
	if index ~= '' and not orphan and find(index) then
		fail('EEXIST')
	end
	if index ~= '' then
		put(index, ino)
	end
	if orphan then
		put('O' .. ino, '')
	end
	put('N' .. ino, value)
end

local highest = {}

-- Numbers as they stand in keys.
local function raise(what, raw)
	local old = highest[what] or call('HGET', META, what) or number_key(0)
	highest[what] = before(old, raw) and raw or old
end

-- Rows.  A group is a key of a session: what is there, and what it will be.

--[ all ]
-- The last commit; and which store it is, as a server may be emptied while it is mounted.
local newest, born = unpack(call('HMGET', META, 'n', 'born'))
newest = tonumber(newest or '0')
if ARGV[1] ~= '' and ARGV[1] ~= born then
	return { 'GONE' }
end

local groups = {}

local function in_name(text)
	return string.gsub(text, '%z', '\0\255') .. '\0\0'
end

-- The group of a key.  The same key of Redis may be that of another session, whose id ends at
-- another colon: its set of keys, and what this would have of it.
local function group_at(session, key)
	local place, all = PREFIX .. session .. ':', session .. ':' .. key
	local group = { name = 'R' .. in_name(session) .. in_name(key), added = {}, others = {} }
	if #key > 6 and sub(key, -6) == ':_hash' then
		group.single = place .. sub(key, 1, -7) .. ':list:_hash'
		group.listed = { place .. '_keys', sub(key, 1, -7) .. ':list' }
		return group
	end
	group.single, group.list, group.ver = place .. key, place .. key .. ':list', place .. key .. ':ver'
	group.set, group.member = place .. '_keys', key
	for colon in string.gmatch(all, '():') do
		if colon ~= #session + 1 then
			group.others[#group.others + 1] = { PREFIX .. sub(all, 1, colon - 1) .. ':_keys',
				sub(all, colon + 1) }
		end
	end
	return group
end

-- What comparing as a whole began with last; and whether any changes of others are in the log.
local remembered = {}

local function epoch()
	remembered.epoch = remembered.epoch or call('HGET', META, 'epoch') or '0'
	return remembered.epoch
end

local function is_in_log(group)
	remembered.changes = remembered.changes or call('HLEN', CHANGE)
	return remembered.changes > 0 and call('HEXISTS', CHANGE, group.name) == 1
end

-- What is remembered of the rows, or false.
local function print_of(group)
	if group.print == nil then
		local raw = call('HGET', PRINT, group.name)
		local kind, size, epoch, digest, last =
			string.match(raw or '', '^(%l) (%d+) (%d+) (%x*) ?(%x*)$')
		group.print = raw and { kind = kind, size = tonumber(size), epoch = epoch,
			digest = digest, last = last }
	end
	return group.print
end

-- Whether a set of keys has one, as a single state or as a list.
local function has(set, key)
	return call('SISMEMBER', set, key) == 1 or call('SISMEMBER', set, key .. ':list') == 1
end

-- As a set has a key of this kind.
local function member_of(group, kind)
	return group.member .. (kind == 'l' and ':list' or '')
end

-- Whether the keys are those of another session, too.
local function is_ambiguous(group)
	for _, one in ipairs(group.others) do
		if has(one[1], one[2]) then
			return true
		end
	end
	return false
end

local function look(group)
	if group.looked then
		return
	end
	group.looked = true
	local size = group.list and redis.pcall('LLEN', group.list) or 0
	group.size = type(size) == 'number' and size or 0
	group.kind = group.size > 0 and 'l' or nil
	if not group.kind and group.single and call('TYPE', group.single)['ok'] == 'string' then
		group.kind, group.size = 's', 1
	end
	group.ambiguous = is_ambiguous(group) or (group.kind and group.set and
		not print_of(group) and call('SISMEMBER', group.set, member_of(group, group.kind)) == 0)
	if group.ambiguous then
		group.kind, group.size = nil, 0
	end
end

-- Each item of a list from one on, before another, with its index.
local function each(list, from, to, fn)
	for i = from, to - 1, PART do
		for j, item in ipairs(call('LRANGE', list, i, math.min(i + PART, to) - 1)) do
			fn(item, i + j - 1)
		end
	end
end

-- The digest of the first items of a list, which each item goes on; and of those before one.
local function digest_of(list, size, mark)
	local digest, marked = '', mark == 0 and '' or nil
	each(list, 0, size, function(item, i)
		digest = sha(digest .. item)
		marked = i + 1 == mark and digest or marked
	end)
	return digest, marked
end

local function set_print(group, digest, last)
	group.print = nil
	-- No set of services has a sidecar in it, so we have a list of them.
	local key = 'K' .. sub(group.name, 2)
	if group.listed and group.kind then
		call('HSET', VALUE, key, '')
		call('ZADD', ORDER, 0, key)
	elseif group.listed then
		call('HDEL', VALUE, key)
		call('ZREM', ORDER, key)
	end
	if group.kind then
		last = group.kind == 'l' and ' ' .. sha(last or call('LINDEX', group.list, -1)) or ''
		call('HSET', PRINT, group.name, string.format('%s %d %s %s', group.kind, group.size,
			epoch(), digest) .. last)
	else
		call('HDEL', PRINT, group.name)
	end
end

-- What another program has changed since the last print: nil, or from which index on.
local function compare(group, whole)
	look(group)
	local old = print_of(group)
	if not old then
		return group.kind and { first = 0, added = true }
	elseif group.kind ~= old.kind then
		return { first = 0, deleted = 0 }
	elseif group.kind == 's' then
		return sha(call('GET', group.single)) ~= old.digest and { first = 0 } or nil
	end
	if group.size == old.size and whole == 'quick' then
		return nil
	elseif group.size == old.size then
		whole = whole or old.epoch ~= epoch()
		if not whole and sha(call('LINDEX', group.list, -1)) == old.last then
			return nil
		end
	elseif group.size < old.size then
		return { first = 0, deleted = 0 }
	end
	local digest, marked = digest_of(group.list, group.size, old.size)
	if marked ~= old.digest then
		return { first = 0, deleted = 0 }
	elseif group.size > old.size then
		return { first = old.size, added = true }
	elseif old.epoch ~= epoch() then
		set_print(group, digest)
	end
	return nil
end

local function print_now(group)
	if group.kind == 's' then
		set_print(group, sha(call('GET', group.single)))
	elseif group.kind then
		set_print(group, (digest_of(group.list, group.size)))
	else
		set_print(group)
	end
end

-- "stamp first deleted rewritten end"; deleted '-' for none.
local function log_change(group, change)
	local stamp = call('HINCRBY', META, 'n', 1)
	local old = call('HGET', CHANGE, group.name)
	local first, deleted, added = change.first, change.deleted, change.added
	if old then
		local _, f, d, rewritten = string.match(old, '^(%d+) (%d+) (%S+) (%d)')
		first = math.min(first, tonumber(f))
		deleted = d ~= '-' and math.min(deleted or tonumber(d), tonumber(d)) or deleted
		added = added and rewritten == '0'
	end
	remembered.changes = nil
	call('HDEL', APART, group.name)
	call('HSET', CHANGE, group.name, string.format('%d %d %s %s %d', stamp, first,
		deleted and string.format('%d', deleted) or '-', added and '0' or '1', group.size))
end

-- Whether nothing was changed that is not in the log; then it is.
local function settle(group, whole, known)
	if group.hidden or (known and not print_of(group)) then
		return true
	end
	local change = compare(group, whole)
	if not change then
		return true
	end
	log_change(group, change)
	print_now(group)
	return false
end

--[ commit ]
-- What a commit is about, and does later.
local ops = {}

-- All rows, by index, to be changed.
local function load(group)
	if group.map then
		return group.map
	end
	-- What is only added to may have changed unseen; what is replaced must be what is known.
	if not ops.anyway and not settle(group, true) then
		fail('ESTALE')
	end
	look(group)
	local map = {}
	if group.kind == 's' then
		map[0] = call('GET', group.single)
	else
		each(group.list, 0, group.size, function(item, i)
			map[i] = item
		end)
	end
	group.old = {}
	for i, item in pairs(map) do
		group.old[i] = item
	end
	for i, item in ipairs(group.added) do
		map[group.size + i - 1] = item
	end
	group.added = {}
	group.map = map
	return map
end

local function index_in(i)
	if i > 2 ^ 53 then
		fail('EFBIG')
	elseif i < 0 then
		fail('GAP')
	end
	return i
end

-- A single state has a version, where services have one.
local function typed(group, version)
	group.changed = true
	if version ~= '0' then
		group.wants = 's'
		group.version = version
	end
end

local function insert(group, i, data, version)
	typed(group, version)
	look(group)
	if group.list and not group.map and group.kind ~= 's' and version == '0' and
	   i == group.size + #group.added then
		group.added[#group.added + 1] = data
		return
	end
	local map = load(group)
	if map[index_in(i)] then
		fail('EEXIST')
	end
	map[i] = data
end

local function move_rows(from, to, version, replaces)
	local source, target = load(from), load(to)
	if from == to then
		return
	end
	if replaces then
		target = {}
		to.map = target
	end
	for i, item in pairs(source) do
		if target[i] then
			fail('EEXIST')
		end
		target[i] = item
	end
	from.map = {}
	from.changed = true
	typed(to, version)
	if version == '0' and next(target) then
		to.wants = 'l'
	end
end

local function shift_rows(group, from, by)
	local map, moved = load(group), {}
	for i, item in pairs(map) do
		if i >= from then
			moved[i] = item
		end
	end
	for i in pairs(moved) do
		map[i] = nil
	end
	for i, item in pairs(moved) do
		if map[i + by] then
			fail('EEXIST')
		end
		map[index_in(i + by)] = item
		group.changed = true
	end
end

-- What is to be written, before anything is.
local function plan(group)
	if not group.changed then
		return
	elseif group.ambiguous then
		fail('AMBIGUOUS')
	end
	if not group.map then
		group.target, group.final = 'l', group.size + #group.added
		return
	end
	local count, items = 0, {}
	for i in pairs(group.map) do
		count = count + 1
	end
	for i = 0, count - 1 do
		if not group.map[i] then
			fail('GAP')
		end
		items[i + 1] = group.map[i]
	end
	group.items, group.final = items, count
	group.target = count > 0 and (group.wants or (count == 1 and group.kind) or 'l') or nil
	if group.hidden or not group.single then
		group.target = count > 0 and 'l' or nil
	elseif not group.list then
		if count > 1 then
			fail('GAP')
		end
		group.target = count > 0 and 's' or nil
	elseif group.target == 's' and count > 1 then
		group.target = 'l'
	end
end

local function push(list, items, from)
	for i = from, #items, PUSH do
		call('RPUSH', list, unpack(items, i, math.min(i + PUSH - 1, #items)))
	end
end

-- Raise the number by which services compare and swap; as text, since it may be above 2^53.
local function raise_version(group)
	local version = call('GET', group.ver)
	if version or call('HGET', META, 'versions') then
		local now = call('INCR', group.ver)
		if group.version and now < tonumber(group.version) then
			call('SET', group.ver, group.version)
		end
	end
end

local function store_single(group, was)
	if was ~= 's' or group.items[1] ~= group.old[0] then
		call('SET', group.single, group.items[1])
	end
	if group.ver then
		raise_version(group)
	end
	set_print(group, sha(group.items[1]))
end

local function store_list(group)
	local same = 0
	if group.kind == 'l' then
		while same < group.final and group.items[same + 1] == group.old[same] do
			same = same + 1
		end
		if same == 0 then
			call('DEL', group.list)
		elseif same < group.size then
			call('LTRIM', group.list, 0, same - 1)
		end
	end
	push(group.list, group.items, same + 1)
end

local function store_group(group, n)
	if not group.changed then
		return
	end
	local was, items, digest = group.kind, group.items or group.added, ''
	if group.map and not group.hidden then
		call('HSET', GATE, 'r' .. group.gate, string.format('%d', n))
	end
	if not group.map then
		local old = not group.hidden and print_of(group)
		push(group.list, items, 1)
		digest = old and old.digest or ''
	else
		if was == 'l' and group.target ~= 'l' then
			call('DEL', group.list)
		elseif was == 's' and group.target ~= 's' then
			call('DEL', group.single)
			if group.ver then
				call('DEL', group.ver)
			end
		end
		if group.target == 'l' then
			store_list(group)
		end
	end
	group.kind, group.size = group.target, group.final
	if group.hidden then
		return
	elseif group.target == 's' then
		store_single(group, was)
	else
		for _, item in ipairs(items) do
			digest = sha(digest .. item)
		end
		set_print(group, digest, items[#items])
	end
	if group.member and was ~= group.kind then
		if was then
			call('SREM', group.set, member_of(group, was))
		end
		if group.kind then
			call('SADD', group.set, member_of(group, group.kind))
		end
	end
	-- A guest is another program for the mounts.
	if group.guest then
		log_change(group, { first = 0, deleted = 0 })
	end
end

--[ all ]
local numbered = {}

-- Groups: the gate of readers, session and key, or the node whose hidden rows it is; and what is
-- done with each.
local function read_groups()
	local named, strengths = {}, 'hcnpar'
	for i = 1, number() do
		local gate, session, key, touches = arg(), arg(), arg(), arg()
		local group = gate == 'h' and { list = sub(ORDER, 1, -2) .. 'h:' .. session,
			hidden = true, name = session, added = {}, others = {} } or group_at(session, key)
		local known = named[group.name]
		if not known then
			group.touches, group.gate = touches, gate
			groups[#groups + 1], named[group.name] = group, group
		elseif string.find(strengths, touches) > string.find(strengths, known.touches) then
			known.touches = touches
		end
		numbered[i] = known or group
	end
end

local function group()
	return numbered[number()]
end

-- The mounts and what they leave.

-- The newest number that another mount than this has left, of two pairs "number mount".
local function newest_of_others(one, two, mount)
	for _, pair in ipairs({ one, two }) do
		local n, m = string.match(pair or '', '^(%d+) (%d+)$')
		if n and m ~= mount then
			return tonumber(n)
		end
	end
	return 0
end

--[ commit ]
-- Put a number in front of two pairs, of which the second is of another mount.
local function push_pair(hash, one, two, first, second, n, mount)
	local _, m = string.match(first or '', '^(%d+) (%d+)$')
	if m and m ~= mount then
		call('HSET', hash, two, first)
	end
	call('HSET', hash, one, string.format('%d %s', n, mount))
end

--[ commit mounts ]
local function is_anothers_turn(mount)
	local turn = call('HGET', META, 'turn')
	if not turn then
		return false
	end
	local who, til = string.match(turn, '^(%d+) (%d+)$')
	return who ~= mount and tonumber(til) > tonumber((call('TIME'))[1])
end

--[ commit read ]
local function notes_behind(seen)
	return call('XRANGE', FEED, string.format('(%d-18446744073709551615', seen), '+', 'COUNT', 2000)
end

--[ commit ]
local function is_shared(guest)
	return (tonumber(call('HGET', META, 'mounts') or '0')) > (guest and 0 or 1)
end

-- Committing.

local moved, append_base = false, nil

-- Put marks of a file back, and pieces, at other indexes.
local function shift_file(ino, from, by, bytes)
	local moved = {}
	for _, key in ipairs(between('P' .. ino .. from, 'P' .. ino .. string.rep('\255', 17))) do
		moved[#moved + 1] = { 'P' .. ino .. number_key(key_number(key, 10) + by) .. sub(key, 18),
			find(key), key }
	end
	for _, key in ipairs(between('I' .. ino .. from, 'I' .. ino .. string.rep('\255', 17))) do
		local index, offset = key_number(key, 10) + by, key_number(key, 18) + bytes
		if offset < 0 then
			fail('EFBIG')
		end
		moved[#moved + 1] = { 'I' .. ino .. number_key(index) .. number_key(offset), '', key }
		moved[#moved + 1] = { 'M' .. ino .. number_key(offset), number_key(index),
			'M' .. ino .. sub(key, 18) }
	end
	for _, one in ipairs(moved) do
		put(one[3], false)
	end
	for _, one in ipairs(moved) do
		put(one[1], one[2])
	end
end

ops.mounts = function()
	if not ops.all then
		ops.all = {}
		local list = call('HGETALL', MOUNT)
		for i = 1, #list, 2 do
			ops.all[list[i]] = list[i + 1]
		end
	end
	return ops.all
end

local function apply(code)
	if code == 'a' then
		-- behind what there is
		local g, i, data = group(), number(), arg()
		look(g)
		insert(g, append_base and i + append_base or i, data, '0')
	-- Fields of a node: offset and bytes of each; and how many more links.
	elseif code == 'f' then
		local ino, links, count = arg(), number(), number()
		local value = find('N' .. ino)
		local start = value and 4 + struct.unpack('>I4', value)
		local function set(offset, bytes)
			value = sub(value, 1, start + offset) .. bytes .. sub(value, start + offset + #bytes + 1)
		end
		for _ = 1, count do
			local offset, bytes = number(), arg()
			if value then
				set(offset, bytes)
			end
		end
		if value then
			set(44, struct.pack('>I4', struct.unpack('>I4', sub(value, start + 45)) + links))
			put('N' .. ino, value)
		end
	elseif code == 'b' then
		-- a mark, left out where rows have come in between
		local ino, offset, index = arg(), arg(), arg()
		if not moved then
			local key = 'M' .. ino .. offset
			local old = find(key)
			if old then
				put('I' .. ino .. old .. offset, false)
			end
			put(key, index)
			put('I' .. ino .. index .. offset, '')
		end
	elseif code == 'i' then
		insert(group(), number(), arg(), arg())
	elseif code == 'p' then
		local g, i, data, version = group(), number(), arg(), arg()
		local map = load(g)
		if map[index_in(i)] ~= data then
			typed(g, version)
			map[i] = data
		end
	elseif code == 'x' then
		local g, from, to = group(), number(), number()
		local map = load(g)
		for i in pairs(map) do
			if i >= from and i <= to then
				map[i] = nil
				g.changed = true
			end
		end
	elseif code == 'P' then
		put(arg(), arg())
	elseif code == 'D' then
		put(arg(), false)
	elseif code == 'R' then
		for _, key in ipairs(between(arg(), arg())) do
			put(key, false)
		end
	elseif code == 'n' then
		local key, value = arg(), arg()
		raise('ino', sub(key, 2))
		put_node(sub(key, 2), value)
	elseif code == 'd' then
		local ino = arg()
		forget_node(ino)
		for _, table in ipairs({ 'X', 'C', 'P', 'M', 'I', 'B' }) do
			for _, key in ipairs(between(table .. ino, table .. ino .. '\255')) do
				put(key, false)
			end
		end
	-- An entry: its key, its name's key, its value.
	elseif code == 'e' then
		local key, name, value = arg(), arg(), arg()
		if find(key) or find(name) then
			fail('EEXIST')
		end
		raise('entry', sub(key, 10))
		put(key, value)
		put(name, sub(key, 10))
	elseif code == 'E' then
		local key, prefix = arg(), arg()
		local old = find(key)
		if old then
			put(prefix .. string.gsub(sub(old, 9), '%z', '\0\255') .. '\0\0', false)
			put(key, false)
		end
	elseif code == 'B' then
		local ino, from, to = arg(), arg(), arg()
		for _, key in ipairs(between('M' .. ino .. from, to)) do
			put('I' .. ino .. find(key) .. sub(key, 10), false)
			put(key, false)
		end
	elseif code == 'm' then
		move_rows(group(), group(), arg(), arg() == '1')
	elseif code == 's' then
		local g, from, by, with = group(), number(), number(), arg()
		local ino, key, bytes = arg(), arg(), number()
		shift_rows(g, from, by)
		if with ~= '0' then
			shift_file(ino, key, by, bytes)
		end
	elseif code == 'u' then
		-- a file that no other mount uses; and each has told so
		local from, to = arg(), arg()
		if is_used(between(from, to), ops.mount) then
			fail('EBUSY')
		end
		for mount, value in pairs(ops.mounts()) do
			if mount ~= ops.mount and sub(value, 1, 2) == 'm1' then
				fail('EAGAIN')
			end
		end
	elseif code == 'q' then
		-- no orphan of a key
		if #between(arg(), arg()) > 0 then
			fail('EEXIST')
		end
	elseif code == 'j' then
		if is_shared(false) then
			fail('ESTALE')
		end
	elseif code == 'l' then
		local ino, entry, new_ino, new_entry = arg(), arg(), arg(), arg()
		raise('ino', ino)
		raise('entry', entry)
		if highest.ino ~= ino or highest.entry ~= entry then
			fail('ESTALE')
		end
		highest.ino, highest.entry = new_ino, new_entry
	-- Locks: those of others must be as they were when they were judged.
	elseif code == 'k' then
		local key, value, prefix, to, expected = arg(), arg(), arg(), arg(), arg()
		if expected ~= '-' then
			local others = ''
			for _, one in ipairs(between(prefix, to)) do
				if one ~= key then
					others = others .. find(one)
				end
			end
			if others ~= sub(expected, 2) then
				fail('LOCKS')
			end
			for mount, state in pairs(ops.mounts()) do
				if mount ~= ops.mount and sub(state, 1, 1) == 'm' and sub(state, 3, 3) == '1' then
					fail('EAGAIN')
				end
			end
		end
		put(key, value ~= '' and value)
	elseif code == 't' then
		-- a setting
		local key, value = arg(), arg()
		put(key, value ~= '' and value)
		ops.settings = true
	elseif code == 'z' then
		-- a change that is digested
		local g, stamp = group(), arg()
		ops.later[#ops.later + 1] = function()
			local change = call('HGET', CHANGE, g.name)
			if change and string.match(change, '^%d+') == stamp then
				call('HDEL', CHANGE, g.name)
			end
			if stamp == '0' or (change and string.match(change, '^%d+') == stamp) then
				call('HDEL', APART, g.name)
			end
		end
	elseif code == 'Z' then
		local stamp = number()
		ops.later[#ops.later + 1] = function()
			local all = call('HGETALL', CHANGE)
			for i = 1, #all, 2 do
				if tonumber((string.match(all[i + 1], '^%d+'))) <= stamp then
					call('HDEL', CHANGE, all[i])
				end
			end
		end
	elseif code == 'y' then
		-- a key that is quarantined
		local g, stamp, first = group(), arg(), arg()
		ops.later[#ops.later + 1] = function()
			local change = call('HGET', CHANGE, g.name)
			if change and string.match(change, '^%d+') == stamp then
				call('HDEL', CHANGE, g.name)
				call('HSET', APART, g.name,
					string.format('%d %s', call('HINCRBY', META, 'n', 1), first))
			end
		end
	else
		fail('GAP')
	end
end

-- The path of what has a name in a directory; '' if it cannot be told.
local function path_of(parent, name)
	local path, root = name, struct.pack('>I4I4', 0, 1)
	for _ = 1, 64 do
		if parent == root then
			return path
		end
		local value = find('N' .. in_key(parent))
		if not value then
			return ''
		end
		local node = node_of(value)
		local entry = find('E' .. in_key(sub(node, 9, 16)) .. in_key(sub(node, 17, 24)))
		if not entry then
			return ''
		end
		path = sub(entry, 9) .. '/' .. path
		parent = sub(node, 9, 16)
	end
	return ''
end

-- What is to be told of a note, and only the state after the commit tells.
local function describe(kind, fields)
	if kind == 'r' then
		local g, index, first = group(), arg(), number()
		local ino = find(index)
		look(g)
		if append_base and first >= 0 then
			first = first + append_base
		end
		fields[#fields + 1] = string.format('%d %d ', first, g.size) .. (ino or '')
	elseif kind == 'e' then
		fields[#fields + 1] = path_of(arg(), arg())
	else
		fields[#fields + 1] = ''
	end
end

local function leave_notes(n, mount)
	local count = number()
	if count == 0 then
		if ops.settings then
			call('XADD', FEED, string.format('%d-0', n), 'm', mount)
		end
		return
	end
	local one, two = unpack(call('HMGET', META, 'last', 'other'))
	push_pair(META, 'last', 'other', one, two, n, mount)
	local time, pid = call('TIME'), arg()
	local at = time[1] .. string.format('%06d', time[2]) .. '000'
	for part = 0, count - 1, PART do
		local fields = { 'm', mount, 'p', pid, 'a', at }
		for _ = part + 1, math.min(part + PART, count) do
			local kind = arg()
			fields[#fields + 1] = kind
			fields[#fields + 1] = arg()
			fields[#fields + 1] = 'x'
			describe(kind, fields)
		end
		call('XADD', FEED, string.format('%d-%d', n, part), unpack(fields))
	end
end

-- The gates: what was changed behind each, and what was appended.  As long as nobody else is there
-- this is not noted: who comes begins with all that was done.
local function read_gates(others)
	local gates = {}
	for i = 1, number() do
		local id, uses = arg(), arg()
		local gate = { id = id, uses = uses }
		if others then
			gate.c, gate.a, gate.b = unpack(call('HMGET', GATE, 'c' .. id, 'a' .. id, 'b' .. id))
		end
		gates[i] = gate
	end
	return gates
end

local function is_unread(gates, seen, mount)
	for _, gate in ipairs(gates) do
		if newest_of_others(gate.c, nil, mount) > seen or (string.find(gate.uses, 'w') and
		   newest_of_others(gate.a, gate.b, mount) > seen) then
			return true
		end
	end
	return false
end

local function stamp_gates(gates, n, mount, others)
	local stamps, number = {}, string.format('%d', n)
	for _, gate in ipairs(gates) do
		if others and string.find(gate.uses, 'c') then
			stamps[#stamps + 1], stamps[#stamps + 2] = 'c' .. gate.id, number .. ' ' .. mount
		end
		if string.find(gate.uses, 'r') then
			stamps[#stamps + 1], stamps[#stamps + 2] = 'r' .. gate.id, number
		end
		if others and string.find(gate.uses, 'a') then
			push_pair(GATE, 'a' .. gate.id, 'b' .. gate.id, gate.a, gate.b, n, mount)
		end
	end
	call_with('HSET', GATE, stamps)
end

-- What of the rows was changed by others and is not digested.
local function guard_groups(anyway)
	for _, g in ipairs(groups) do
		local touches = g.touches
		if not anyway and not g.hidden then
			if (touches == 'r' or touches == 'a') and not settle(g, false) then
				return false
			end
			if is_in_log(g) then
				return false
			end
		end
		-- A file for rows that are there: from now on it is known what they are.
		if touches == 'p' and not print_of(g) then
			ops.later[#ops.later + 1] = function()
				if not g.changed then
					look(g)
					print_now(g)
				end
			end
		end
	end
	return true
end

local function commit()
	local mount, lane, seq = arg(), arg(), number()
	local flags, seen = arg(), number()
	local guest = string.find(flags, 'g')
	ops.mount = mount
	-- One that has heard of more than there is now joins again.
	if call('HEXISTS', MOUNT, mount) == 0 or seen > newest then
		return { 'LOST' }
	end
	local last = call('HGET', LANE, lane)
	if last then
		local done, result = string.match(last, '^(%d+) (.*)$')
		if tonumber(done) == seq then
			return { 'OK', result }
		elseif tonumber(done) > seq then
			return { 'LOST' }
		end
	end
	if is_anothers_turn(mount) then
		return { 'TURN' }
	end
	local shared = is_shared(guest)
	if shared and not string.find(flags, 's') then
		return { 'SHARED' }
	end
	local others = call('HLEN', MOUNT) > 1
	local gates = read_gates(others)
	if shared and is_unread(gates, seen, mount) then
		return { 'GATES', notes_behind(seen) }
	end
	read_groups()
	ops.later = {}
	ops.anyway = string.find(flags, 'y')
	if not guard_groups(ops.anyway) then
		return { 'ESTALE' }
	end
	local total, appended, expected, passed = number(), number(), number(), 0
	if appended > 0 then
		local g = numbered[appended]
		look(g)
		if g.kind ~= 's' and g.size ~= expected then
			if g.size < expected then
				return { 'ESTALE' }
			end
			append_base, moved = g.size - expected, true
			each(g.list, expected, g.size, function(item)
				passed = passed + #item + 1
			end)
		end
	end
	for i = 1, total do
		apply(arg())
	end
	for _, g in ipairs(groups) do
		g.guest = guest
		plan(g)
	end
	-- From here on nothing may fail.  The first command is one that a full server refuses.
	local n = tonumber(call('HGET', META, 'n') or '0') + 1
	local result = string.format('%d %d %d', n, append_base or 0, passed)
	call('HSET', LANE, lane, string.format('%d %s', seq, result))
	call('HSET', META, 'n', string.format('%d', n))
	for what, raw in pairs(highest) do
		call('HSET', META, what, raw)
	end
	if ops.settings then
		call('HINCRBY', META, 'settings', 1)
	end
	stamp_gates(gates, n, mount, others)
	store_map()
	for _, g in ipairs(groups) do
		store_group(g, n)
	end
	for _, later in ipairs(ops.later) do
		later()
	end
	over = {}
	if shared then
		leave_notes(n, mount)
	end
	return { 'OK', result }
end

-- Reading.

--[ read ]
local function tail_of(g, ino)
	look(g)
	local mark = call('ZREVRANGEBYLEX', ORDER, '(' .. 'M' .. ino .. string.rep('\255', 9),
		'[M' .. ino, 'LIMIT', 0, 1)[1]
	local index = mark and find(mark)
	local from = index and math.max(key_number(index, 1), 0) or 0
	local pieces = call('ZRANGEBYLEX', ORDER, '[P' .. ino .. (index or ''),
		'(P' .. ino .. string.rep('\255', 17), 'LIMIT', 0, 1)[1] and '1' or '0'
	local count, bytes, last = 0, 0, 0
	if g.kind == 's' then
		bytes = call('STRLEN', g.single)
		count, last = 1, bytes
	else
		each(g.list, from, g.size, function(item)
			count, bytes, last = count + 1, bytes + #item, #item
		end)
	end
	return { mark and sub(mark, 10) or '', index or '', pieces, count, bytes, last, g.size - 1 }
end

-- The same of a document, and its row.
local function document_of(g)
	look(g)
	local data = g.kind == 's' and call('GET', g.single) or
		g.kind == 'l' and call('LINDEX', g.list, 0)
	local size = data and #data or 0
	return { '', '', '0', data and 1 or 0, size, size, 0 }, data
end

-- A text of a node, and where the next one begins; false for none.
local function text_of(node, from)
	local size = struct.unpack('>i4', sub(node, from, from + 3))
	return size >= 0 and sub(node, from + 4, from + 3 + size), from + 4 + math.max(size, 0)
end

-- What a node's file is: its tail, and all of its bytes if they are few.
local function file_of(value, lenient)
	local node = node_of(value)
	local ino, kind = in_key(sub(node, 1, 8)), string.byte(node, 28)
	if kind == 0 then
		local size = struct.unpack('>I4', sub(node, 61, 64))
		local small = sub(node, 57, 60) == '\0\0\0\0' and size <= 32768 and size > 0
		return '', small and (find('C' .. ino .. number_key(0)) or '') or false
	elseif kind < 2 then
		return '', false
	end
	local session, at_key = text_of(node, 105)
	local key = session and text_of(node, at_key)
	if not key then
		return '', false
	end
	local g = group_at(session, key)
	if not settle(g, false, true) and not lenient then
		fail('ESTALE')
	end
	look(g)
	if kind == 3 then
		return tail_of(g, ino), false
	end
	local tail, data = document_of(g)
	return tail, data and #data <= 65536 and data or false
end

-- Whether no other mount has an orphan in use.
local function is_reaped(key)
	local use = 'U' .. sub(key, 2)
	return not is_used(call('ZRANGEBYLEX', ORDER, '[' .. use, '(' .. use .. '\255'), ARGV[3])
end

-- A change as the log has it (log_change()), with its name in front.
local function change_of(name, raw)
	return { name, string.match(raw, '^(%d+) (%d+) (%S+) (%d) (%d+)$') }
end

-- All, in the order of their names, those that were set apart last.
local function changes()
	local found = {}
	for n, hash in ipairs({ CHANGE, APART }) do
		local all, names, raw = call('HGETALL', hash), {}, {}
		for i = 1, #all, 2 do
			names[#names + 1] = all[i]
			raw[all[i]] = all[i + 1]
		end
		table.sort(names, before)
		for _, name in ipairs(names) do
			local stamp, first = string.match(raw[name], '^(%d+) (%S+)')
			local one = n == 1 and change_of(name, raw[name]) or
				{ name, stamp, first, first, '1', '0' }
			one[7] = n == 1 and '0' or '1'
			found[#found + 1] = one
		end
	end
	return found
end

-- What there is of a key: kind, size, and what is wrong with it.
local function stat(g)
	look(g)
	return { g.kind or '', g.size, g.ambiguous and 'a' or g.kind == 'l' and g.single and g.set and
		call('EXISTS', g.single) == 1 and 'b' or '' }
end

-- The keys that the members of a session's set may mean, behind one, each with what there is of it.
local function keys_of(session, after, most)
	local set, names, found = PREFIX .. session .. ':_keys', {}, {}
	local hashes = 'K' .. in_name(session)
	local function add(key)
		local name = in_name(key)
		if not names[name] and (after == '' or before(after, name)) then
			names[name] = key
			names[#names + 1] = name
		end
	end
	for _, member in ipairs(call('TYPE', set)['ok'] == 'set' and call('SMEMBERS', set) or {}) do
		local base = sub(member, -5) == ':list' and sub(member, 1, -6)
		if base then
			add(base)
			add(base .. ':_hash')
		end
		if sub(member, -6) ~= ':_hash' or #member == 6 then
			add(member)
		end
	end
	for _, key in ipairs(call('ZRANGEBYLEX', ORDER, '[' .. hashes, '(' .. hashes .. '\255')) do
		add((string.gsub(sub(key, #hashes + 1, -3), '%z\255', '\0')))
	end
	table.sort(names, before)
	for i = 1, math.min(#names, most) do
		found[i] = { names[names[i]], stat(group_at(session, names[names[i]])) }
	end
	return found
end

local function answer(what, lenient)
	if what == 'get' then
		return find(arg())
	-- Keys from one on, or behind one, that are before another, each with its value, or with
	-- what that leads to.
	elseif what == 'range' or what == 'through' or what == 'orphans' then
		local limit, with, from, to = number(), arg() == '1' and '[' or '(', arg(), arg()
		local found = {}
		for _, key in ipairs(call('ZRANGEBYLEX', ORDER, with .. from, '(' .. to, 'LIMIT', 0, limit)) do
			found[#found + 1] = key
			if what == 'range' then
				found[#found + 1] = find(key)
			else
				found[#found + 1] = (what == 'through' or is_reaped(key)) and
					find('N' .. sub(key, 2))
			end
		end
		return found
	-- The last one before another.
	elseif what == 'last' then
		local from, to = arg(), arg()
		local key = call('ZREVRANGEBYLEX', ORDER, '(' .. to, '[' .. from, 'LIMIT', 0, 1)[1]
		return key and { key, find(key) } or {}
	-- The first orphan of a key.
	elseif what == 'orphan' then
		local from, to = arg(), arg()
		local key = call('ZRANGEBYLEX', ORDER, '[' .. from, '(' .. to, 'LIMIT', 0, 1)[1]
		return key and find('N' .. find(key)) or false
	-- The node that an index leads to.
	elseif what == 'by' then
		local ino = find(arg())
		return ino and find('N' .. ino)
	-- Rows from an index on, or back: at most so many, and bytes; clipped to what there was.
	elseif what == 'rows' then
		local g, by, from, most, bytes, clipped = group(), number(), number(), number(), number(),
			number()
		look(g)
		if g.kind == 's' then
			return { 's', 1, from * by <= 0 and most > 0 and call('GET', g.single) or false }
		end
		local found, size, had = { 'l', g.size }, clipped >= 0 and math.min(g.size, clipped) or g.size, 0
		from = by > 0 and math.max(from, 0) or math.min(from, size - 1)
		while from >= 0 and from < size and #found - 2 < most and had < bytes do
			local count = math.min(64, by > 0 and size - from or from + 1, most - (#found - 2))
			local first = by > 0 and from or from - count + 1
			local part = call('LRANGE', g.list, first, first + count - 1)
			for i = 1, #part do
				local item = part[by > 0 and i or #part + 1 - i]
				found[#found + 1] = item
				had = had + #item
			end
			from = from + by * count
		end
		return found
	elseif what == 'stat' then
		return stat(group())
	elseif what == 'tail' then
		local g, ino, one = group(), arg(), arg() == '1'
		return one and document_of(g) or tail_of(g, ino)
	-- A name in a directory: the id, the node, and, if that is wanted, its file.
	elseif what == 'look' then
		local id, prefix, files = find(arg()), arg(), arg() == '1'
		local entry = id and find(prefix .. id)
		local value = entry and find('N' .. in_key(sub(entry, 1, 8)))
		if not value then
			return false
		end
		if not files then
			return { id, value }
		end
		local tail, whole = file_of(value, lenient)
		return { id, value, tail, whole }
	-- Entries behind one, each with its node.
	elseif what == 'list' then
		local after, to, found = arg(), arg(), {}
		local keys = call('ZRANGEBYLEX', ORDER, '(' .. after, '(' .. to, 'LIMIT', 0, number())
		for _, key in ipairs(keys) do
			local entry = find(key)
			found[#found + 1] = sub(key, 10)
			found[#found + 1] = entry
			found[#found + 1] = find('N' .. in_key(sub(entry, 1, 8)))
		end
		return found
	elseif what == 'meta' then
		return call('HMGET', META, 'ino', 'entry')
	elseif what == 'changes' then
		return changes()
	-- Of a key, or the first one of a session.
	elseif what == 'change' then
		local name, whole = arg(), arg() == '1'
		local raw = whole and call('HGET', CHANGE, name)
		for _, one in ipairs(whole and {} or changes()) do
			if sub(one[1], 1, #name) == name and one[7] == '0' then
				return one
			end
		end
		return raw and change_of(name, raw) or {}
	-- The stamps of the oldest and the newest.
	elseif what == 'waiting' then
		local oldest, newest = math.huge, 0
		for _, raw in ipairs(call('HVALS', CHANGE)) do
			local stamp = tonumber((string.match(raw, '^%d+')))
			oldest, newest = math.min(oldest, stamp), math.max(newest, stamp)
		end
		return newest > 0 and { oldest, newest } or { 0, 0 }
	elseif what == 'notes' then
		return notes_behind(number())
	elseif what == 'keys' then
		return keys_of(arg(), arg(), number())
	end
end

local function read()
	local mount, flags, n, known = arg(), arg(), number(), number()
	local anyway, past = string.find(flags, 'y'), string.find(flags, 'p')
	local now, stale = newest, false
	if n < 0 and not anyway then
		local one, two = unpack(call('HMGET', META, 'last', 'other'))
		stale = newest_of_others(one, two, mount) > known or
			(not past and call('HLEN', CHANGE) > 0)
	end
	for _ = 1, number() do
		local changed = call('HGET', GATE, 'r' .. arg())
		stale = stale or (n >= 0 and changed and tonumber(changed) > n)
	end
	read_groups()
	local found = { 'OK', now }
	if stale then
		return { 'ESTALE', now }
	end
	for _, g in ipairs(groups) do
		if not settle(g, false, true) and not anyway and not past then
			return { 'ESTALE', now }
		end
	end
	for i = 1, number() do
		found[#found + 1] = answer(arg(), anyway or past)
	end
	return found
end

-- Mounts.

--[ mounts ]
local function milliseconds()
	local time = call('TIME')
	return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- "kind untold holding seen known owner": m or g, three flags without blanks between them.
local function say_mount(mount, kind, untold, holds, known, owner)
	call('HSET', MOUNT, mount, string.format('%s%s%s %.0f %s %s', kind, untold, holds,
		milliseconds(), known, owner))
end

-- The locks (B) that a mount has told, or what is in use (U).
local function forget_told(mount, letter)
	for _, key in ipairs(call('ZRANGEBYLEX', ORDER, '[' .. letter, '(' .. letter .. '\255')) do
		if sub(key, -8) == number_key(tonumber(mount)) then
			call('ZREM', ORDER, key)
			call('HDEL', VALUE, key)
		end
	end
end

local function end_mount(mount, state)
	if call('HDEL', MOUNT, mount) == 1 and sub(state, 1, 1) == 'm' then
		call('HINCRBY', META, 'mounts', -1)
	end
	call('HINCRBY', META, 'comings', 1)
	for i = 0, 31 do
		call('HDEL', LANE, mount .. '.' .. i)
	end
	if call('HGET', META, 'duty') == mount then
		call('HDEL', META, 'duty')
	end
	local turn = call('HGET', META, 'turn')
	if turn and string.match(turn, '^%d+') == mount then
		call('HDEL', META, 'turn')
	end
	forget_told(mount, 'B')
	forget_told(mount, 'U')
end

-- Who there is: number, state and for how many milliseconds he was silent.
local function list_mounts()
	local list, now, found = call('HGETALL', MOUNT), milliseconds(), {}
	for i = 1, #list, 2 do
		local seen = string.match(list[i + 1], '^%S+ (%d+)')
		found[#found + 1] = list[i]
		found[#found + 1] = list[i + 1]
		found[#found + 1] = now - tonumber(seen)
	end
	return found
end

local function join()
	local kind, untold, alone, lease, owner, chance = arg(), arg(), arg(), number(), arg(), arg()
	if alone ~= '0' then
		local list = list_mounts()
		for i = 1, #list, 3 do
			if sub(list[i + 1], 1, 1) == 'm' then
				if list[i + 2] >= lease and alone == '2' then
					end_mount(list[i], list[i + 1])
				else
					return { list[i + 2] >= lease and 'SILENT' or 'BUSY', list[i + 1] }
				end
			end
		end
	end
	-- No mount of another store that was here has such a number.
	if not born then
		born = chance
		call('HSET', META, 'born', born, 'number', chance)
	end
	local mount, first = string.format('%d', call('HINCRBY', META, 'number', 1)), '0'
	if kind == 'm' then
		if call('HINCRBY', META, 'mounts', 1) == 1 then
			first = '1'
			call('HINCRBY', META, 'epoch', 1)
		end
	end
	call('HINCRBY', META, 'comings', 1)
	say_mount(mount, kind, (first == '1' or kind == 'g') and untold or '0', '0',
		string.format('%d', newest), owner)
	return { 'OK', mount, newest, first, born }
end

-- From the format before, which has claims of removed files.  Its mounts find another store in the
-- place of theirs.
local function forward()
	local chance, lease, list = arg(), number(), list_mounts()
	if call('HGET', META, 'format') ~= '1' then
		return { 'OK' }
	end
	for i = 1, #list, 3 do
		if sub(list[i + 1], 1, 1) == 'm' and list[i + 2] < lease then
			return { 'BUSY' }
		end
	end
	for i = 1, #list, 3 do
		end_mount(list[i], list[i + 1])
	end
	for _, key in ipairs(call('ZRANGEBYLEX', ORDER, '[A', '(A\255')) do
		call('ZREM', ORDER, key)
		call('HDEL', VALUE, key)
	end
	call('HSET', META, 'format', '2', 'born', chance)
	return { 'OK' }
end

local function leave()
	local mount = arg()
	local state = call('HGET', MOUNT, mount)
	if state then
		end_mount(mount, state)
	end
	return 'OK'
end

-- A mount lives, says what it has to, and hears of the others.
local function beat()
	local mount, untold, holds, known, lease = arg(), arg(), arg(), arg(), number()
	local state = call('HGET', MOUNT, mount)
	if not state then
		return { 'LOST' }
	end
	-- The server may have been busy: then it has heard of nobody.
	if milliseconds() - tonumber(string.match(state, '^%S+ (%d+)')) >= lease / 2 then
		lease = math.min(lease, 0)
	end
	local one, two = unpack(call('HMGET', META, 'last', 'other'))
	local noted = newest_of_others(one, two, mount)
	if noted <= tonumber(known) then
		known = string.format('%d', newest)
	end
	if lease > -2 then
		say_mount(mount, sub(state, 1, 1), untold == '-' and sub(state, 2, 2) or untold,
			holds == '-' and sub(state, 3, 3) or holds, known,
			string.match(state, '^%S+ %d+ %d+ (.*)$'))
	end
	if untold == '1' then
		forget_told(mount, 'U')
	end
	local list, least = list_mounts(), math.huge
	for i = 1, #list, 3 do
		if lease > 0 and list[i] ~= mount and list[i + 2] >= lease then
			end_mount(list[i], list[i + 1])
		elseif sub(list[i + 1], 1, 1) == 'm' then
			least = math.min(least, tonumber((string.match(list[i + 1], '^%S+ %d+ (%d+)'))))
		end
	end
	if lease >= 0 and least < math.huge then
		call('XTRIM', FEED, 'MINID', string.format('%d-0', least + 1))
	end
	return { 'OK', call('HGET', META, 'settings') or '0', call('HLEN', CHANGE), list_mounts(), noted }
end

-- Files are in use here, or no longer.
local function use()
	local mount, on, known = arg(), arg(), number()
	if call('HEXISTS', MOUNT, mount) == 0 then
		return { 'LOST' }
	end
	local one, two = unpack(call('HMGET', META, 'last', 'other'))
	if on == '1' and known >= 0 and newest_of_others(one, two, mount) > known then
		return { 'ESTALE' }
	end
	for i = at + 1, #ARGV do
		put(ARGV[i], on == '1' and '')
	end
	store_map()
	return { call('HLEN', CHANGE) > 0 and '1' or '0' }
end

local function duty()
	local mount = arg()
	local who = call('HGET', META, 'duty')
	if not who or call('HEXISTS', MOUNT, who) == 0 then
		call('HSET', META, 'duty', mount)
		who = mount
	end
	return who
end

local function turn()
	local mount, take = arg(), arg()
	if take == '1' and not is_anothers_turn(mount) then
		call('HSET', META, 'turn', string.format('%s %d', mount, tonumber((call('TIME'))[1]) + 2))
	elseif take == '0' and string.match(call('HGET', META, 'turn') or '', '^%d+') == mount then
		call('HDEL', META, 'turn')
	end
	return is_anothers_turn(mount) and '0' or '1'
end

-- Keys that may have changed: those that are a session's in any way, compared.
local function is_known(g)
	if print_of(g) then
		return true
	elseif g.listed then
		return call('SISMEMBER', g.listed[1], g.listed[2]) == 1
	end
	return has(g.set, g.member)
end

local function compare_group(g, whole)
	if g.ver and call('EXISTS', g.ver) == 1 then
		call('HSET', META, 'versions', '1')
	end
	return is_known(g) and not settle(g, whole) and 1 or 0
end

-- What is in a session's set; new: only what nothing is remembered of.
local function compare_members(session, new)
	local set, found = PREFIX .. session .. ':_keys', 0
	for _, member in ipairs(call('TYPE', set)['ok'] == 'set' and call('SMEMBERS', set) or {}) do
		local listed = sub(member, -5) == ':list' and sub(member, 1, -6)
		local name = 'R' .. in_name(session) .. in_name(listed or member)
		if not new or call('HEXISTS', PRINT, name) == 0 then
			found = found + compare_group(group_at(session, member), 'quick')
			if listed then
				found = found + compare_group(group_at(session, listed), 'quick')
			end
		end
	end
	return found
end

-- What keys of Redis may be: one key for each colon where a session's id may end.
local function check()
	local whole, found = arg() == '1', 0
	for i = at + 1, #ARGV do
		local all = sub(ARGV[i], #PREFIX + 1)
		for colon in string.gmatch(all, '():') do
			local key = sub(all, colon + 1)
			if sub(key, -11) == ':list:_hash' then
				key = sub(key, 1, -12) .. ':_hash'
			elseif key == '_keys' then
				-- It may have named one later than that was written.
				found = found + (whole and compare_members(sub(all, 1, colon - 1), true) or 0)
				key = nil
			elseif sub(key, -6) == ':_hash' then
				key = nil
			elseif sub(key, -5) == ':list' then
				key = sub(key, 1, -6)
			end
			if key then
				found = found + compare_group(group_at(sub(all, 1, colon - 1), key), whole)
			end
		end
	end
	return found
end

-- All that has a print, some at a time; the answer is where to go on.
local function prints()
	local page, found = call('HSCAN', PRINT, arg(), 'COUNT', PART), 0
	for i = 1, #page[2], 2 do
		local name = page[2][i]
		local cut = string.find(name, '\0\0', 2, true)
		local session = string.gsub(sub(name, 2, cut - 1), '%z\255', '\0')
		local key = string.gsub(sub(name, cut + 2, -3), '%z\255', '\0')
		found = found + compare_group(group_at(session, key), 'quick')
	end
	return { page[1], found }
end

-- All that is in the sets of some sessions.
local function members()
	local found = 0
	for i = at + 1, #ARGV do
		found = found + compare_members(ARGV[i])
	end
	return found
end

-- Coverage of others' changes has begun anew: each print is compared as a whole when it is needed.
local function anew()
	return call('HINCRBY', META, 'epoch', 1)
end

--[ mounts ]
local calls = { forward = forward, join = join, leave = leave, beat = beat, use = use,
	duty = duty, turn = turn, check = check, prints = prints, members = members, anew = anew }
local ok, found = pcall(calls[ARGV[2]])
--[ commit ]
local ok, found = pcall(commit)
--[ read ]
local ok, found = pcall(read)
--[ all ]
if ok then
	return found
elseif type(found) == 'table' and found[1] then
	return { found[1] }
end
return redis.error_reply(type(found) == 'table' and found.err or tostring(found))
