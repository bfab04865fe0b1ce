-- Tarantool with the application in its process: fibers in Lua that receive and deliver, as src/tarantool.lua's
-- procedures do, without a socket.  mkdir DIR && cd DIR && tarantool …/tarantool-in-process.lua FIBERS SECONDS
-- Each fiber waits for its own commits. wal_mode = 'fsync': a commit returns when its log record is synced; waiting
-- fibers share a write. A line for each phase: transactions a second, p50, p99 and p99.9 in milliseconds, µs of
-- processor time for each. Snapshots: PEERS_CHECKPOINT seconds apart (0, which is none).
-- With a third argument `mix` a fiber receives, reads 8 messages by their keys, the first 10 rows of a queue, and
-- delivers, in turn, as src/mix.rs has it; a line for writes, reads and scans each.
local fibers, seconds = tonumber(arg[1] or 96), tonumber(arg[2] or 10)
local fiber, clock = require('fiber'), require('clock')
box.cfg {
  wal_mode = 'fsync',
  memtx_memory = 4 * 1024 * 1024 * 1024,
  checkpoint_interval = tonumber(os.getenv('PEERS_CHECKPOINT') or 0),
  wal_max_size = 1024 * 1024 * 1024,
  log_level = 3,
}
local function space(name, format, primary)
  local made = box.schema.space.create(name, { format = format })
  made:create_index('primary', { type = primary.type, parts = primary.parts })
  return made
end
local message = space('message', {
  { 'msg_id', 'unsigned' }, { 'account', 'unsigned' }, { 'source', 'string' }, { 'dst_key', 'unsigned' },
  { 'submit_us', 'unsigned' }, { 'expire_us', 'unsigned' }, { 'rank', 'unsigned' }, { 'coding', 'unsigned' },
  { 'body', 'string' },
}, { type = 'HASH', parts = { 'msg_id' } })
local to_delivery = space('to_delivery', {
  { 'dst_key', 'unsigned' }, { 'rank', 'unsigned' }, { 'msg_id', 'unsigned' }, { 'expire_us', 'unsigned' },
}, { type = 'TREE', parts = { 'dst_key', 'rank', 'msg_id' } })
local ms_state = space('ms_state', {
  { 'dst_key', 'unsigned' }, { 'state', 'unsigned' }, { 'ready_us', 'unsigned' }, { 'last_msg', 'unsigned' },
}, { type = 'HASH', parts = { 'dst_key' } })
local begin, commit = box.begin, box.commit
-- The mean length of the bodies that src/message.rs makes.
local body = string.rep('m', 48)

local function put(id)
  message:insert { id, id % 1000, '821012345678', id % 100000, id, id + 86400000000, id % 4, 0, body }
  to_delivery:insert { id % 100000, id % 4, id, id + 86400000000 }
end

local function receive(id)
  begin()
  put(id)
  commit()
end

local function deliver(id)
  begin()
  if to_delivery:delete { id % 100000, id % 4, id } == nil then error('the queue row is gone') end
  if message:delete { id } == nil then error('the message is gone') end
  ms_state:replace { id % 100000, 1, id, id }
  commit()
end

-- Runs a transaction for messages 1, 2, … in all fibers until the time is up or all are done.
local function phase(name, transaction, last)
  local ended, times, count, next_id, failure = fiber.channel(fibers), {}, 0, 0, nil
  local began, processor = clock.monotonic(), clock.proc()
  for _ = 1, fibers do
    fiber.create(function()
      local ok, why = pcall(function()
        while clock.monotonic() - began < seconds and next_id < last do
          next_id = next_id + 1
          local start = clock.monotonic()
          transaction(next_id)
          count = count + 1
          times[count] = clock.monotonic() - start
        end
      end)
      if not ok then failure = why end
      ended:put(true)
    end)
  end
  for _ = 1, fibers do ended:get() end
  if failure ~= nil then error(failure) end
  local took = clock.monotonic() - began
  processor = clock.proc() - processor
  table.sort(times)
  local function at(share) return times[math.max(1, math.ceil(count * share))] * 1000 end
  print(string.format('%s: %d fibers, %.0f/s, p50 %.2f, p99 %.2f, p99.9 %.2f ms, %.1f µs of processor', name, fibers,
    count / took, at(0.5), at(0.99), at(0.999), processor * 1e6 / count))
  return count
end

-- Each fiber has messages of its own, 500 of them in the store.
local function mix()
  local ended, failure = fiber.channel(fibers), nil
  local times = { write = {}, read = {}, scan = {} }
  local function timed(name, f, ...)
    local start = clock.monotonic()
    local result = f(...)
    table.insert(times[name], clock.monotonic() - start)
    return result
  end
  local function head(station)
    local rows = 0
    for _ in to_delivery:pairs({ station }, { iterator = 'EQ' }) do
      rows = rows + 1
      if rows == 10 then break end
    end
    return rows
  end
  local filled, began, processor = 0, nil, nil
  local start = fiber.cond()
  for number = 1, fibers do
    fiber.create(function()
      local ok, why = pcall(function()
        local first, base = 0, number * 2 ^ 40
        local last = 0
        begin()
        for _ = 1, 500 do
          last = last + 1
          put(base + last)
        end
        commit()
        filled = filled + 1
        if filled == fibers then
          began, processor = clock.monotonic(), clock.proc()
          start:broadcast()
        else
          start:wait()
        end
        local function any() return base + first + math.random(last - first) end
        while clock.monotonic() - began < seconds do
          last = last + 1
          timed('write', receive, base + last)
          for _ = 1, 8 do
            if timed('read', message.get, message, { any() }) == nil then error('a message is gone') end
          end
          local rows = timed('scan', head, any() % 100000)
          if rows < 1 then error('a queue is empty') end
          first = first + 1
          timed('write', deliver, base + first)
        end
      end)
      if not ok then failure = why end
      ended:put(true)
    end)
  end
  for _ = 1, fibers do ended:get() end
  if failure ~= nil then error(failure) end
  local took, count = clock.monotonic() - began, 0
  for _, name in ipairs { 'write', 'read', 'scan' } do
    local list = times[name]
    table.sort(list)
    count = count + #list
    local function at(share) return list[math.max(1, math.ceil(#list * share))] * 1000 end
    print(string.format('%s: %d fibers, %.0f/s, p50 %.3f, p99 %.3f, p99.9 %.3f, greatest %.3f ms', name, fibers,
      #list / took, at(0.5), at(0.99), at(0.999), at(1)))
  end
  print(string.format('all: %.0f/s, %.1f µs of processor', count / took, (clock.proc() - processor) * 1e6 / count))
end

if arg[3] == 'mix' then
  mix()
  os.exit(0)
end
local received = phase('receive', receive, math.huge)
local delivered = phase('deliver', deliver, received)
if message:len() ~= received - delivered or to_delivery:len() ~= message:len() then error('rows are missing') end
os.exit(0)
