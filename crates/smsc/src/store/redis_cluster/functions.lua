-- The centre's transactions on a Redis Cluster. One call is one transaction of one shard.
--
-- All rows of a shard are in two keys of one slot, which every call names: a function may touch no
-- key that it was not called with, and while a slot is being moved to another node Redis then
-- refuses a call (TRYAGAIN) rather than run it on half of the shard.
--
-- KEYS[1], a hash:  #            sequence of the shard's message numbers
--                   m ID         a message as it was written, behind a token of 12 octets and the
--                                number of the message that it is the receipt of
--                   v ID         what has changed of it since: VIEW
--                   s KEY        a station: ROW
--                   f ID         a forwarded message: peer (4), due time (8), the peer's number
--                   a ACCOUNT    an account: ACCOUNT, then the hash of its password
--                   @            in shard 0: the number of the process that came last
--                   !            in shard 0: whose store this is
-- KEYS[2], a sorted set in the order of its octets (all scores are 0):
--   q KEY rank ID expiry         the queue of a station
--   x expiry ID KEY              queued messages by the end of their validity
--   r shard time KEY             the run queue: ready stations
--   b time KEY                   busy stations, by the end of the lease
--   w time KEY                   stations that wait, by their timer
--   s time ID KEY shard rank expiry   scheduled messages
--   p KEY ID                     the same by station
--   d time ID                    final messages
--   f time ID                    forwarded messages, by when their receipt is overdue
--   g peer length number ID      the same by the peer's number
--   o process time               in shard 0: processes that use the store, and when they said so
--   !                            so that the key never goes away
--
-- ID and times are numbers of 8 octets, the greatest octet first; KEY is a station's key plus 2^63
-- in the same way. Numbers of Lua are exact up to 2^53, which ids and times are far below.
--
-- The last argument of what writes is empty; where the client does not know whether the call that
-- it repeats was carried out, it is not, and what was done already is answered again.

local ROW = '<HBdddI4I4I4Bd'
local SHARD, STATE, READY, EPOCH, CURRENT, QUEUE, ATTEMPTS, ERROR, ALERTED, OWNER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local IDLE, IS_READY, BUSY, WAIT, ABSENT = 0, 1, 2, 3, 4
local VIEW = '<BI4I4ddB'
local FORWARDED = 16
local ACCOUNT = '<I4I4I4dddI4'
-- Sequence numbers that are looked through, from the last back, for a message that may be there.
local LOOK_BACK = 20000

local function b8(number) return struct.pack('>I8', number) end
local function u8(octets) return (struct.unpack('>I8', octets)) end

local function row_of(raw, shard)
  if raw then return {struct.unpack(ROW, raw)} end
  return {shard, IDLE, 0, 0, 0, 0, 0, 0, 0, 0}
end

local function station(h, k, shard) return row_of(redis.call('HGET', h, 's' .. k), shard) end
local function text_of(st) return struct.pack(ROW, unpack(st, 1, 10)) end

-- Where a station stands by its state; nil for an idle one.
local function place(st, k)
  local state = st[STATE]
  if state == IS_READY then return 'r' .. string.char(st[SHARD]) .. b8(st[READY]) .. k end
  if state == BUSY then return 'b' .. b8(st[READY]) .. k end
  if state ~= IDLE then return 'w' .. b8(st[READY]) .. k end
end

local function add(list, member)
  if member then
    list[#list + 1] = 0
    list[#list + 1] = member
  end
end

local function first_with(z, prefix, most)
  return redis.call('ZRANGEBYLEX', z, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, most)
end

-- Members with a prefix and a time up to now.
local function due(z, prefix, now, most)
  return redis.call('ZRANGEBYLEX', z, '[' .. prefix, '(' .. prefix .. b8(now + 1), 'LIMIT', 0, most)
end

local function view(h, id8)
  local raw = redis.call('HGET', h, 'v' .. id8)
  if raw then return {struct.unpack(VIEW, raw)} end
end

-- Queues a message at a station, which the caller stores.
local function enqueue(adds, st, k, id8, rank, expire8, now)
  add(adds, 'q' .. k .. rank .. id8 .. expire8)
  add(adds, 'x' .. expire8 .. id8 .. k)
  if st[STATE] == IDLE then
    st[STATE], st[READY] = IS_READY, now
    add(adds, place(st, k))
  end
  st[QUEUE] = st[QUEUE] + 1
end

-- Adds a receipt: key of the lane, its shard, the message, its expiry. Its number.
local function report(h, sets, adds, own, own_key, r, at, now)
  local k, n, s = r[at], tonumber(r[at + 4]), tonumber(r[at + 5])
  local seq = tonumber(redis.call('HGET', h, '#')) + 1
  local id = seq * n + s
  local id8 = b8(id)
  local st = own
  if k ~= own_key then st = station(h, k, tonumber(r[at + 1])) end
  enqueue(adds, st, k, id8, '\3', r[at + 3], now)
  for _, value in ipairs({'#', seq, 'm' .. id8, r[at + 2]}) do sets[#sets + 1] = value end
  if k ~= own_key then
    sets[#sets + 1] = 's' .. k
    sets[#sets + 1] = text_of(st)
  end
  return id
end

local function write(h, z, sets, rems, adds)
  if #rems > 0 then
    local removed = redis.call('ZREM', z, unpack(rems))
    if removed ~= #rems then error('SMSC of ' .. #rems .. ' entries of the queues ' .. removed .. ' are there') end
  end
  if #adds > 0 then redis.call('ZADD', z, unpack(adds)) end
  if #sets > 0 then redis.call('HSET', h, unpack(sets)) end
end

-- 1 key, 2 queue's limit, 3 message, 4 rank, 5 expiry, 6 scheduled time or '', 7 shard, 8 now,
-- 9 shards of the store, 10 this one, 11 shard of the key, 12 sequence after which to look.
-- The number, or 0 where the queue is full.
local function receive(keys, a)
  local h, z, k = keys[1], keys[2], a[1]
  local got = redis.call('HMGET', h, '#', 's' .. k)
  local seq, n, s = tonumber(got[1]), tonumber(a[9]), tonumber(a[10])
  if a[12] ~= '' then
    local token = string.sub(a[3], 1, 12)
    for before = seq, math.max(tonumber(a[12]) + 1, seq - LOOK_BACK), -1 do
      local found = redis.call('HGET', h, 'm' .. b8(before * n + s))
      if found and string.sub(found, 1, 12) == token then return before * n + s end
    end
  end
  local st = row_of(got[2], tonumber(a[11]))
  if st[QUEUE] >= tonumber(a[2]) then return 0 end
  seq = seq + 1
  local id = seq * n + s
  local id8 = b8(id)
  if a[6] ~= '' then
    redis.call('ZADD', z, 0, 's' .. a[6] .. id8 .. k .. string.char(a[11]) .. a[4] .. a[5], 0, 'p' .. k .. id8)
    redis.call('HSET', h, '#', seq, 'm' .. id8, a[3])
    return id
  end
  -- What is queued before it has chosen already.
  if st[STATE] == IDLE then st[SHARD] = tonumber(a[7]) end
  local adds = {}
  enqueue(adds, st, k, id8, a[4], a[5], tonumber(a[8]))
  redis.call('ZADD', z, unpack(adds))
  redis.call('HSET', h, '#', seq, 'm' .. id8, a[3], 's' .. k, text_of(st))
  return id
end

local function delivery(h, k, st, id8)
  local message = redis.call('HMGET', h, 'm' .. id8, 'v' .. id8)
  if not message[1] then error('SMSC a queue names a message that does not exist') end
  return {k, st[EPOCH], st[ATTEMPTS], id8, message[1], message[2] or ''}
end

-- Ready to busy.
local function take(h, z, k, now, lease, owner)
  local raw = redis.call('HGET', h, 's' .. k)
  if not raw then return nil end
  local st = row_of(raw)
  if st[STATE] ~= IS_READY then return nil end
  local head = first_with(z, 'q' .. k, 1)[1]
  if not head then error('SMSC a station is ready, and its queue is empty') end
  local before = place(st, k)
  if u8(string.sub(head, 19, 26)) <= now then
    -- What has expired is ended by a sweep; until then its station goes to the end.
    if st[READY] < now then
      st[READY] = now
      write(h, z, {'s' .. k, text_of(st)}, {before}, {0, place(st, k)})
    end
    return nil
  end
  local id8 = string.sub(head, 11, 18)
  st[STATE], st[EPOCH], st[CURRENT], st[READY] = BUSY, st[EPOCH] + 1, u8(id8), now + lease
  st[ALERTED], st[OWNER] = 0, owner
  write(h, z, {'s' .. k, text_of(st)}, {before}, {0, place(st, k)})
  return delivery(h, k, st, id8)
end

-- What a claim has that may have been carried out.
local function claimed(h, z, owner)
  local out = {}
  for _, member in ipairs(first_with(z, 'b', -1)) do
    local k = string.sub(member, 10, 17)
    local st = station(h, k)
    if st[OWNER] == owner then out[#out + 1] = delivery(h, k, st, b8(st[CURRENT])) end
  end
  return out
end

-- 1 now, 2 lease, 3 most, 4 claim, 5 where to begin, then shards of the run queue.
local function claim(keys, a)
  local h, z = keys[1], keys[2]
  local now, lease, most, owner, spread = tonumber(a[1]), tonumber(a[2]), tonumber(a[3]), tonumber(a[4]), tonumber(a[5])
  if a[#a] ~= '' then
    local out = claimed(h, z, owner)
    if #out > 0 then return out end
  end
  local out = {}
  for at = 6, #a - 1 do
    local found = due(z, 'r' .. string.char(a[at]), now, most - #out + 6)
    for j = 0, #found - 1 do
      local k = string.sub(found[(j + spread) % #found + 1], 11, 18)
      out[#out + 1] = take(h, z, k, now, lease, owner)
      if #out == most then return out end
    end
  end
  return out
end

-- 1 now, 2 lease, 3 most, 4 claim, then keys.
local function claim_named(keys, a)
  local h, z = keys[1], keys[2]
  local now, lease, most, owner = tonumber(a[1]), tonumber(a[2]), tonumber(a[3]), tonumber(a[4])
  if a[#a] ~= '' then
    local out = claimed(h, z, owner)
    if #out > 0 then return out end
  end
  local out = {}
  for at = 5, #a - 1 do
    out[#out + 1] = take(h, z, a[at], now, lease, owner)
    if #out == most then break end
  end
  return out
end

-- Whether some station of these shards of the run queue may be claimed. 1 now, then shards.
local function peek(keys, a)
  for at = 2, #a do
    if due(keys[2], 'r' .. string.char(a[at]), tonumber(a[1]), 1)[1] then return 1 end
  end
  return 0
end

-- 1 key, 2 claim's number, 3 message, 4 final, 5 state, or whether absent, 6 error, 7 now, 8 next
-- attempt, 9 attempts before, 10 expiry, 11 rank, 12 to 17 receipt (key or '', shard, message,
-- expiry, shards of the store, this one).
-- What: 0 final and the receipt's number, 1 again and when, 2 fenced; whether it is ready again.
local function complete(keys, a)
  local h, z, k, id8 = keys[1], keys[2], a[1], a[3]
  local epoch, id, now, attempts = tonumber(a[2]), u8(a[3]), tonumber(a[7]), tonumber(a[9]) + 1
  local st = station(h, k, 0)
  if st[STATE] ~= BUSY or st[EPOCH] ~= epoch or st[CURRENT] ~= id then
    local seen = a[#a] ~= '' and view(h, id8)
    if seen and a[4] == '1' and seen[1] == tonumber(a[5]) and seen[4] == now then return {0, seen[5], 1} end
    if seen and a[4] ~= '1' and st[EPOCH] == epoch and st[CURRENT] == 0 and seen[2] == attempts then
      return {1, st[READY], 1}
    end
    return {2, 0, 0}
  end
  local sets, rems, adds = {}, {place(st, k)}, {}
  local what, value, receipt, state, done = 0, 0, 0, 1, 0
  st[CURRENT], st[ERROR] = 0, tonumber(a[6])
  if a[4] == '1' then
    rems[2], rems[3] = 'q' .. k .. a[11] .. id8 .. a[10], 'x' .. a[10] .. id8 .. k
    state, done = tonumber(a[5]), now
    st[ATTEMPTS], st[READY], st[QUEUE] = 0, now, st[QUEUE] - 1
    st[STATE] = st[QUEUE] > 0 and IS_READY or IDLE
    add(adds, 'd' .. b8(now) .. id8)
  else
    what, value = 1, tonumber(a[8])
    st[ATTEMPTS] = st[ATTEMPTS] + 1
    if st[ALERTED] == 1 then
      -- It came back while we tried: waiting for another alert would be waiting for nothing.
      st[STATE], st[ALERTED], value = IS_READY, 0, now
    else
      st[STATE] = a[5] == '1' and ABSENT or WAIT
    end
    st[READY] = value
  end
  add(adds, place(st, k))
  if a[12] ~= '' then receipt = report(h, sets, adds, st, k, a, 12, now) end
  if what == 0 then value = receipt end
  sets[#sets + 1] = 's' .. k
  sets[#sets + 1] = text_of(st)
  sets[#sets + 1] = 'v' .. id8
  sets[#sets + 1] = struct.pack(VIEW, state, attempts, st[ERROR], done, what == 0 and receipt or 0, 0)
  write(h, z, sets, rems, adds)
  return {what, value, st[STATE] == IS_READY and 1 or 0}
end

-- 1 key, 2 claim's number, 3 message, 4 now, 5 peer, 6 its number, 7 due time.
local function forward(keys, a)
  local h, z, k, id8 = keys[1], keys[2], a[1], a[3]
  local st = station(h, k, 0)
  local kept = a[5] .. a[7] .. a[6]
  if st[STATE] ~= BUSY or st[EPOCH] ~= tonumber(a[2]) or st[CURRENT] ~= u8(id8) then
    return (a[#a] ~= '' and redis.call('HGET', h, 'f' .. id8) == kept) and 1 or 0
  end
  -- It was the first when it was claimed: only what goes before may have come since.
  local queued
  for _, most in ipairs({4, -1}) do
    for _, member in ipairs(first_with(z, 'q' .. k, most)) do
      if string.sub(member, 11, 18) == id8 then queued = member end
    end
    if queued then break end
  end
  if not queued then error('SMSC a message in flight is in no queue') end
  local rems, adds = {place(st, k), queued, 'x' .. string.sub(queued, 19, 26) .. id8 .. k}, {}
  st[READY], st[CURRENT], st[ATTEMPTS], st[ERROR], st[ALERTED] = tonumber(a[4]), 0, 0, 0, 0
  st[QUEUE] = st[QUEUE] - 1
  st[STATE] = st[QUEUE] > 0 and IS_READY or IDLE
  add(adds, place(st, k))
  add(adds, 'f' .. a[7] .. id8)
  add(adds, 'g' .. a[5] .. string.char(#a[6]) .. a[6] .. id8)
  local seen = view(h, id8) or {1, 0, 0, 0, 0, 0}
  local now = struct.pack(VIEW, FORWARDED, seen[2] + 1, seen[3], 0, 0, 1)
  write(h, z, {'s' .. k, text_of(st), 'f' .. id8, kept, 'v' .. id8, now}, rems, adds)
  return 1
end

-- 1 key, 2 claim's number, 3 message, 4 shard, 5 when.
local function put_back(keys, a)
  local h, z, k = keys[1], keys[2], a[1]
  local st = station(h, k, 0)
  if st[STATE] ~= BUSY or st[EPOCH] ~= tonumber(a[2]) or st[CURRENT] ~= u8(a[3]) then
    return (a[#a] ~= '' and st[EPOCH] == tonumber(a[2]) and st[STATE] == IS_READY) and 1 or 0
  end
  local before = place(st, k)
  st[STATE], st[SHARD], st[READY], st[CURRENT], st[ALERTED] = IS_READY, tonumber(a[4]), tonumber(a[5]), 0, 0
  write(h, z, {'s' .. k, text_of(st)}, {before}, {0, place(st, k)})
  return 1
end

-- 1 key, 2 now.
local function alert(keys, a)
  local h, z, k = keys[1], keys[2], a[1]
  local st = station(h, k, 0)
  if st[STATE] == BUSY then
    st[ALERTED] = 1
    redis.call('HSET', h, 's' .. k, text_of(st))
  elseif st[STATE] == WAIT or st[STATE] == ABSENT then
    local before = place(st, k)
    st[STATE], st[READY] = IS_READY, tonumber(a[2])
    write(h, z, {'s' .. k, text_of(st)}, {before}, {0, place(st, k)})
  else
    return 0
  end
  return 1
end

-- 1 now, 2 lease's end at the latest, or '' for all, 3 most, 4 process or ''.
local function free(keys, a)
  local h, z, now, most, freed = keys[1], keys[2], tonumber(a[1]), tonumber(a[3]), 0
  local found
  if a[2] == '' then found = first_with(z, 'b', -1) else found = due(z, 'b', tonumber(a[2]), most) end
  for _, member in ipairs(found) do
    if freed == most then break end
    local k = string.sub(member, 10, 17)
    local st = station(h, k, 0)
    if a[4] == '' or math.floor(st[OWNER] / 4294967296) == tonumber(a[4]) then
      st[STATE], st[READY], st[CURRENT], st[ALERTED] = IS_READY, now, 0, 0
      write(h, z, {'s' .. k, text_of(st)}, {member}, {0, place(st, k)})
      freed = freed + 1
    end
  end
  return freed
end

-- 1 now, 2 most.
local function wake(keys, a)
  local h, z, now = keys[1], keys[2], tonumber(a[1])
  local found = due(z, 'w', now, tonumber(a[2]))
  for _, member in ipairs(found) do
    local k = string.sub(member, 10, 17)
    local st = station(h, k, 0)
    st[STATE], st[READY] = IS_READY, now
    write(h, z, {'s' .. k, text_of(st)}, {member}, {0, place(st, k)})
  end
  return #found
end

-- 1 now, 2 most.
local function release(keys, a)
  local h, z, now = keys[1], keys[2], tonumber(a[1])
  local found = due(z, 's', now, tonumber(a[2]))
  for _, member in ipairs(found) do
    local id8, k = string.sub(member, 10, 17), string.sub(member, 18, 25)
    local st = station(h, k, string.byte(member, 26))
    local adds = {}
    enqueue(adds, st, k, id8, string.sub(member, 27, 27), string.sub(member, 28, 35), now)
    local enroute = struct.pack(VIEW, 1, 0, 0, 0, 0, 0)
    write(h, z, {'s' .. k, text_of(st), 'v' .. id8, enroute}, {member, 'p' .. k .. id8}, adds)
  end
  return #found
end

local function message(h, id8)
  local found = redis.call('HMGET', h, 'm' .. id8, 'v' .. id8)
  if not found[1] then error('SMSC a list names a message that does not exist') end
  return {id8, found[1], found[2] or ''}
end

-- Messages whose validity has ended, but for those in flight. 1 now, 2 most.
local function expired(keys, a)
  local h, z, most, out = keys[1], keys[2], tonumber(a[2]), {}
  for _, member in ipairs(due(z, 'x', tonumber(a[1]), most * 4)) do
    local id8, k = string.sub(member, 10, 17), string.sub(member, 18, 25)
    local st = station(h, k, 0)
    if st[STATE] ~= BUSY or st[CURRENT] ~= u8(id8) then
      out[#out + 1] = message(h, id8)
      if #out == most then break end
    end
  end
  return out
end

-- Whether a message has changed since it was read, is in flight, or was ended by this very call:
-- 0, 2, 1; nil if it may be changed.
local function stands_in_the_way(h, st, id8, seen, again)
  if (redis.call('HGET', h, 'v' .. id8) or '') ~= seen then
    local now = view(h, id8)
    if again and now and now[1] == again[1] and now[4] == again[2] then return 1 end
    return 0
  end
  if st and st[STATE] == BUSY and st[CURRENT] == u8(id8) then return 2 end
end

-- 1 key, 2 message, 3 view as read, 4 state, 5 now, 6 rank, 7 expiry, 8 scheduled time or '',
-- 9 shard of the key, 10 to 15 receipt.
local function finish(keys, a)
  local h, z, k, id8, now = keys[1], keys[2], a[1], a[2], tonumber(a[5])
  local st = station(h, k, tonumber(a[9]))
  local stands = stands_in_the_way(h, st, id8, a[3], a[#a] ~= '' and {tonumber(a[4]), now})
  if stands then return stands end
  local seen = view(h, id8) or {1, 0, 0, 0, 0, 0}
  local sets, rems, adds, receipt = {}, {}, {}, 0
  add(adds, 'd' .. b8(now) .. id8)
  if a[8] ~= '' then
    rems = {'s' .. a[8] .. id8 .. k .. string.char(a[9]) .. a[6] .. a[7], 'p' .. k .. id8}
  else
    rems = {'q' .. k .. a[6] .. id8 .. a[7], 'x' .. a[7] .. id8 .. k}
    st[QUEUE] = st[QUEUE] - 1
    if st[QUEUE] == 0 then
      rems[3] = place(st, k)
      st[STATE], st[READY], st[ATTEMPTS] = IDLE, now, 0
    end
  end
  if a[10] ~= '' then receipt = report(h, sets, adds, st, k, a, 10, now) end
  if a[8] == '' or a[10] == k then
    sets[#sets + 1] = 's' .. k
    sets[#sets + 1] = text_of(st)
  end
  sets[#sets + 1] = 'v' .. id8
  sets[#sets + 1] = struct.pack(VIEW, tonumber(a[4]), seen[2], seen[3], now, receipt, 0)
  write(h, z, sets, rems, adds)
  return 1
end

-- 1 key, 2 message, 3 view as read, 4 message as read, 5 new message, 6 expiry, 7 new expiry,
-- 8 rank, 9 scheduled time or '', 10 shard of the key.
local function replace(keys, a)
  local h, z, k, id8 = keys[1], keys[2], a[1], a[2]
  local stands = stands_in_the_way(h, station(h, k, 0), id8, a[3])
  if stands then return stands end
  if redis.call('HGET', h, 'm' .. id8) ~= a[4] then return 0 end
  local rems, adds = {}, {}
  if a[9] ~= '' then
    local begin = 's' .. a[9] .. id8 .. k .. string.char(a[10]) .. a[8]
    rems[1] = begin .. a[6]
    add(adds, begin .. a[7])
  else
    rems[1], rems[2] = 'q' .. k .. a[8] .. id8 .. a[6], 'x' .. a[6] .. id8 .. k
    add(adds, 'q' .. k .. a[8] .. id8 .. a[7])
    add(adds, 'x' .. a[7] .. id8 .. k)
  end
  write(h, z, {'m' .. id8, a[5]}, rems, adds)
  return 1
end

-- A message, or nothing. 1 number.
local function show(keys, a)
  local found = redis.call('HMGET', keys[1], 'm' .. a[1], 'v' .. a[1])
  if not found[1] then return {} end
  return {a[1], found[1], found[2] or ''}
end

-- What is queued for a station, then what is scheduled for it. 1 key, 2 most.
local function waiting(keys, a)
  local h, z, most, out = keys[1], keys[2], tonumber(a[2]), {}
  for _, member in ipairs(first_with(z, 'q' .. a[1], most)) do out[#out + 1] = message(h, string.sub(member, 11, 18)) end
  if #out < most then
    for _, member in ipairs(first_with(z, 'p' .. a[1], most - #out)) do
      out[#out + 1] = message(h, string.sub(member, 10, 17))
    end
  end
  return out
end

-- The newest message that a peer has under its number. 1 peer, 2 number.
local function by_peer(keys, a)
  local prefix = 'g' .. a[1] .. string.char(#a[2]) .. a[2]
  local found = redis.call('ZREVRANGEBYLEX', keys[2], '[' .. prefix .. string.rep('\255', 8), '[' .. prefix, 'LIMIT', 0, 1)
  if not found[1] then return {} end
  return message(keys[1], string.sub(found[1], -8))
end

-- 1 now, 2 most.
local function overdue(keys, a)
  local out = {}
  for _, member in ipairs(due(keys[2], 'f', tonumber(a[1]), tonumber(a[2]))) do
    out[#out + 1] = message(keys[1], string.sub(member, 10, 17))
  end
  return out
end

-- What a peer told. 1 message, 2 view as read, 3 final, 4 state, 5 error, 6 now, 7 to 12 receipt.
local function settle(keys, a)
  local h, z, id8, now = keys[1], keys[2], a[1], tonumber(a[6])
  local stands = stands_in_the_way(h, nil, id8, a[2], a[#a] ~= '' and {tonumber(a[4]), now})
  if stands then return stands end
  local seen = view(h, id8)
  local sets, rems, adds, receipt = {}, {}, {}, 0
  if a[7] ~= '' then receipt = report(h, sets, adds, nil, nil, a, 7, now) end
  local after
  if a[3] == '1' then
    local kept = redis.call('HGET', h, 'f' .. id8)
    if not kept then error('SMSC a message was forwarded and is not in the list') end
    local peer, due8, number = string.sub(kept, 1, 4), string.sub(kept, 5, 12), string.sub(kept, 13)
    rems = {'f' .. due8 .. id8, 'g' .. peer .. string.char(#number) .. number .. id8}
    add(adds, 'd' .. b8(now) .. id8)
    redis.call('HDEL', h, 'f' .. id8)
    after = struct.pack(VIEW, tonumber(a[4]), seen[2], tonumber(a[5]), now, receipt, 1)
  else
    after = struct.pack(VIEW, FORWARDED, seen[2] + 1, tonumber(a[5]), 0, 0, 1)
  end
  sets[#sets + 1] = 'v' .. id8
  sets[#sets + 1] = after
  write(h, z, sets, rems, adds)
  return 1
end

-- The first of each list: kind, shard, time, key or number.
local function next_due(keys, a)
  local h, z, out = keys[1], keys[2], {}
  for shard = 0, 63 do
    local member = first_with(z, 'r' .. string.char(shard), 1)[1]
    if member then out[#out + 1] = {'r', shard, string.sub(member, 3, 10), string.sub(member, 11, 18)} end
  end
  local least
  for _, member in ipairs(first_with(z, 'b', 1000)) do
    local time, k = string.sub(member, 2, 9), string.sub(member, 10, 17)
    least = least or time
    if time ~= least then break end
    out[#out + 1] = {'b', station(h, k, 0)[SHARD], time, k}
  end
  for _, kind in ipairs({'w', 's'}) do
    local member = first_with(z, kind, 1)[1]
    if member then out[#out + 1] = {kind, 0, string.sub(member, 2, 9), string.sub(member, 10, 17)} end
  end
  return out
end

-- Stations of a shard of the run queue that have something queued. 1 shard, 2 most.
local function stations(keys, a)
  local h, z, run, most, out = keys[1], keys[2], tonumber(a[1]), tonumber(a[2]), {}
  -- Lanes of applications, whose keys are negative, have shards of their own: no row of the many
  -- mobiles is read for them, and none of theirs for mobiles.
  local of_lanes = run >= 16 and run < 32
  for _, kind in ipairs({'r' .. string.char(run), 'b', 'w'}) do
    for _, member in ipairs(first_with(z, kind, most)) do
      local k = string.sub(member, -8)
      if (string.byte(k) < 128) == of_lanes then
        local raw = redis.call('HGET', h, 's' .. k)
        if struct.unpack('<H', raw) == run then out[#out + 1] = {k, raw} end
      end
    end
  end
  return out
end

-- 1 key. The row of a station.
local function row(keys, a) return redis.call('HGET', keys[1], 's' .. a[1]) end

-- 1 key. How much is queued.
local function queued(keys, a) return station(keys[1], a[1], 0)[QUEUE] end

-- 1 account, 2 its row without counters, 3 hash of its password.
local function put_account(keys, a)
  local row = {struct.unpack(ACCOUNT, a[2])}
  local before = redis.call('HGET', keys[1], 'a' .. a[1])
  if before then
    local old = {struct.unpack(ACCOUNT, before)}
    row[5], row[6], row[7] = old[5], old[6], old[7]
  end
  redis.call('HSET', keys[1], 'a' .. a[1], struct.pack(ACCOUNT, unpack(row, 1, 7)) .. a[3])
  return 1
end

local function account(keys, a) return redis.call('HGET', keys[1], 'a' .. a[1]) end

-- Counts one message: 0, or why it may not be submitted. 1 account, 2 now.
local function charge(keys, a)
  local raw = redis.call('HGET', keys[1], 'a' .. a[1])
  if not raw then return -1 end
  local row = {struct.unpack(ACCOUNT, raw)}
  local now = tonumber(a[2])
  if row[4] > 0 and row[5] >= row[4] then return -2 end
  local second = now - now % 1000000
  if second > row[6] then row[6], row[7] = second, 0 end
  if row[3] > 0 and row[7] >= row[3] then return -3 end
  row[5], row[7] = row[5] + 1, row[7] + 1
  redis.call('HSET', keys[1], 'a' .. a[1], struct.pack(ACCOUNT, unpack(row, 1, 7)) .. string.sub(raw, row[8]))
  return 0
end

-- Takes final messages away that are older than 1; 2 most. A message and its receipt go together.
local function purge(keys, a)
  local h, z, gone = keys[1], keys[2], 0
  for _, member in ipairs(due(z, 'd', tonumber(a[1]), tonumber(a[2]))) do
    local id8 = string.sub(member, 10, 17)
    local raw, seen = redis.call('HGET', h, 'm' .. id8), view(h, id8)
    -- It may have gone with the message before.
    if raw and seen then
      local of, receipt = string.sub(raw, 13, 20), seen[5] > 0 and b8(seen[5])
      local its = receipt and view(h, receipt)
      if u8(of) > 0 and redis.call('HEXISTS', h, 'm' .. of) == 1 then
        -- Goes with that one.
        redis.call('ZREM', z, member)
      elseif receipt and not (its and its[4] > 0) then
        -- Its receipt has not arrived: looked at again later.
        redis.call('ZREM', z, member)
        redis.call('ZADD', z, 0, 'd' .. b8(tonumber(a[3])) .. id8)
      else
        redis.call('ZREM', z, member)
        redis.call('HDEL', h, 'm' .. id8, 'v' .. id8)
        gone = gone + 1
        if receipt then
          redis.call('ZREM', z, 'd' .. b8(its[4]) .. receipt)
          redis.call('HDEL', h, 'm' .. receipt, 'v' .. receipt)
          gone = gone + 1
        end
      end
    end
  end
  return gone
end

-- A number for a process.
local function enlist(keys)
  local number = redis.call('HINCRBY', keys[1], '@', 1)
  return number
end

-- A process says that it is there. 1 process; the others, and behind each when it said so.
local function beat(keys, a)
  local z, own, others = keys[2], struct.pack('>I4', tonumber(a[1])), {}
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  for _, member in ipairs(first_with(z, 'o', -1)) do
    local process = string.sub(member, 2, 5)
    if process == own then
      redis.call('ZREM', z, member)
    else
      others[#others + 1] = (struct.unpack('>I4', process))
      others[#others + 1] = u8(string.sub(member, 6, 13))
    end
  end
  redis.call('ZADD', z, 0, 'o' .. own .. b8(now))
  return others
end

-- A process is forgotten. 1 process.
local function bury(keys, a)
  for _, member in ipairs(first_with(keys[2], 'o' .. struct.pack('>I4', tonumber(a[1])), -1)) do
    redis.call('ZREM', keys[2], member)
  end
  return 1
end

-- The whole shard, of one moment.
local function dump(keys)
  return {redis.call('HGETALL', keys[1]), redis.call('ZRANGE', keys[2], 0, -1)}
end

-- While it is loaded, a library may name nothing but what it registers.
local function writer(name, callback) redis.register_function(LIBRARY .. name, callback) end
local function reader(name, callback)
  redis.register_function{function_name = LIBRARY .. name, callback = callback, flags = {'no-writes'}}
end
writer('receive', receive)
writer('claim', claim)
writer('claim_named', claim_named)
writer('complete', complete)
writer('forward', forward)
writer('put_back', put_back)
writer('alert', alert)
writer('free', free)
writer('wake', wake)
writer('release', release)
writer('finish', finish)
writer('replace', replace)
writer('settle', settle)
writer('put_account', put_account)
writer('charge', charge)
writer('purge', purge)
writer('enlist', enlist)
writer('beat', beat)
writer('bury', bury)
reader('peek', peek)
reader('expired', expired)
reader('show', show)
reader('waiting', waiting)
reader('by_peer', by_peer)
reader('overdue', overdue)
reader('next_due', next_due)
reader('stations', stations)
reader('queued', queued)
reader('station', row)
reader('account', account)
reader('dump', dump)
