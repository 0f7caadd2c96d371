"""What the store asks of Redis in one go each: scripts, which nothing can come between."""

from __future__ import annotations

DECIDE = """
local old = redis.call('HGET', KEYS[1], ARGV[1])
local revision = old and tonumber(string.match(old, '^(%d+):')) or 0
if revision ~= tonumber(ARGV[3]) then
  return 0
end
local new = redis.call('INCR', KEYS[2])
local record = string.format('%.0f', new) .. ':' .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], record)
redis.call('PUBLISH', ARGV[4], ARGV[1] .. ' ' .. record)
return new
"""
"""Change a record. Keys: records, the last revision. Arguments: name, value, revision, channel. The revision, or 0."""

APPEND = """
local lanes = #KEYS - 2
local tails, fences, changed, sealed, given, failed = {}, {}, {}, {}, {}, nil
for lane = 1, lanes do
  tails[lane] = tonumber(redis.call('HGET', KEYS[1], ARGV[lane]) or '0')
  fences[lane] = tonumber(redis.call('HGET', KEYS[2], ARGV[lane]) or '0')
end
for i = lanes + 1, #ARGV, 4 do
  local lane, epoch = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  local is_seal = ARGV[i + 1] == ''
  if is_seal or (tonumber(ARGV[i + 1]) == tails[lane] and epoch >= fences[lane]) then
    local id = string.format('%.0f-0', tails[lane] + 1)
    local reply = redis.pcall('XADD', KEYS[lane + 2], id, 'r', ARGV[i + 3])
    if type(reply) == 'table' and reply.err then
      failed = reply
      break
    end
    tails[lane] = tails[lane] + 1
    changed[lane] = true
    given[#given + 1] = tails[lane]
    if is_seal and epoch > fences[lane] then
      fences[lane] = epoch
      sealed[lane] = true
    end
  else
    given[#given + 1] = 0
  end
end
for lane in pairs(changed) do
  redis.call('HSET', KEYS[1], ARGV[lane], string.format('%.0f', tails[lane]))
end
for lane in pairs(sealed) do
  redis.call('HSET', KEYS[2], ARGV[lane], string.format('%.0f', fences[lane]))
end
return failed or given
"""
"""Append to lanes. Keys: the tails, the epochs of the last seals, a stream for each lane. Arguments: the lanes' names,
then for each record the number of its lane, what is expected or nothing, the epoch of its writer, and the record. What
expects nothing is a seal: it ends every lower epoch in its lane. The sequence of each record, or 0."""

READ = """
local tail = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
local at, room, first, size, count, parts = tonumber(ARGV[2]), tonumber(ARGV[3]), 0, 0, 0, {}
while room > count and size <= 4194304 do
  local some = math.min(128, room - count)
  local entries = redis.call('XRANGE', KEYS[1], string.format('%.0f-0', at + 1), '+', 'COUNT', some)
  for _, entry in ipairs(entries) do
    at = tonumber(string.match(entry[1], '^%d+'))
    if first == 0 then
      first = at
    end
    local record = entry[2][2]
    parts[#parts + 1] = struct.pack('>I4', #record)
    parts[#parts + 1] = record
    size = size + #record
    count = count + 1
  end
  if #entries < some then
    break
  end
end
return {tail, first, count, table.concat(parts)}
"""
"""Read a lane. Keys: its stream, the tails. Arguments: its name, the sequence to read behind, how many at most. The
last sequence ever, the first one read, how many, and the records, each with its length before it."""
