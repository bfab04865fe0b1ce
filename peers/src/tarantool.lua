-- The Tarantool peer: three memtx spaces and one stored procedure per transaction, so that a transaction is one call.
-- wal_mode = 'fsync': a commit is acknowledged when its log record is synced; Tarantool groups waiting fibers by itself.
box.cfg {
  listen = os.getenv('PEERS_SOCKET'),
  wal_mode = 'fsync',
  memtx_dir = '.', wal_dir = '.',
  memtx_memory = 2 * 1024 * 1024 * 1024,
  -- No snapshot during a run; the log alone is compared.
  checkpoint_interval = 0,
  wal_max_size = 1024 * 1024 * 1024,
  -- Deep pipelines: more requests at once, and read-ahead to match (both documented for this).
  net_msg_max = 16384,
  readahead = 1024 * 1024,
  log_level = 3,
}

local function space(name, format, primary)
  box.schema.space.create(name, { if_not_exists = true, format = format })
  box.space[name]:create_index('primary', { if_not_exists = true, type = primary.type, parts = primary.parts })
end
space('message', {
  { 'msg_id', 'unsigned' }, { 'account', 'unsigned' }, { 'source', 'string' }, { 'dst_key', 'unsigned' },
  { 'submit_us', 'unsigned' }, { 'expire_us', 'unsigned' }, { 'rank', 'unsigned' }, { 'coding', 'unsigned' },
  { 'body', 'string' },
}, { type = 'HASH', parts = { 'msg_id' } })
space('to_delivery', {
  { 'dst_key', 'unsigned' }, { 'rank', 'unsigned' }, { 'msg_id', 'unsigned' }, { 'expire_us', 'unsigned' },
}, { type = 'TREE', parts = { 'dst_key', 'rank', 'msg_id' } })
space('ms_state', {
  { 'dst_key', 'unsigned' }, { 'state', 'unsigned' }, { 'ready_us', 'unsigned' }, { 'last_msg', 'unsigned' },
}, { type = 'HASH', parts = { 'dst_key' } })

local message, to_delivery, ms_state = box.space.message, box.space.to_delivery, box.space.ms_state
local begin, commit = box.begin, box.commit

-- An error rolls the transaction back: the fiber of the call ends with it.
function receive(msg_id, account, source, dst_key, submit_us, expire_us, rank, coding, body)
  begin()
  message:insert { msg_id, account, source, dst_key, submit_us, expire_us, rank, coding, body }
  to_delivery:insert { dst_key, rank, msg_id, expire_us }
  commit()
end

function deliver(dst_key, rank, msg_id, state, ready_us)
  begin()
  if to_delivery:delete { dst_key, rank, msg_id } == nil then error('the queue row is gone') end
  if message:delete { msg_id } == nil then error('the message is gone') end
  ms_state:replace { dst_key, state, ready_us, msg_id }
  commit()
end

-- The next rows of a space after the key of the last one.
function rows(name, after)
  return box.space[name]:select(after, { iterator = #after == 0 and 'ALL' or 'GT', limit = 1000 })
end

box.schema.user.grant('guest', 'execute', 'universe', nil, { if_not_exists = true })
box.schema.user.grant('guest', 'read,write', 'universe', nil, { if_not_exists = true })
