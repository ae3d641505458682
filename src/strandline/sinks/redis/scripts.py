"""What is done inside Redis: scripts, each of them one atomic act.

The marker of a prefix is the HASH `strandline:marker:<prefix>`:

    flow, sink                                 whose entries they are
    incarnation, tick, digest                  the last delivery that was written whole
    epoch                                      a number that grows whenever another incarnation begins to write
    writing, writing_tick, writing_digest      which incarnation writes, or wrote last, and the tick that is under way

Every batch of rows is written by a script that first looks at the marker, and does nothing unless its own tick is the one
under way. A tick is begun only when the one before it is finished, and the last batch of a tick finishes it in the same
act. So a batch that comes late (a driver that was paused, a command that the network kept) finds its tick finished, and a
deleted entry cannot come back: **no tombstones are needed, for the marker holds the version of all that was deleted**. The
batches of one tick may come twice and in any order, since each key stands in a tick once.

An entry also keeps its version, (epoch, tick) as text that sorts as it grows, and is never overwritten by an older one,
even where the marker was lost. An epoch is not less than the seconds since 1970 by the server's clock, so that epochs grow
over a lost marker too.
"""

from __future__ import annotations

from typing import Final

MARKER: Final = "strandline:marker:"

BEGIN: Final = """
local marker = KEYS[1]
local flow, sink, incarnation, tick, digest, acknowledged = unpack(ARGV, 1, 6)
local seen = {unpack(ARGV, 7, 9)}
local now = redis.call('HMGET', marker, 'incarnation', 'tick', 'digest')
for i = 1, 3 do
  if (now[i] or '') ~= seen[i] then return {'moved'} end
end
local under_way = redis.call('HMGET', marker, 'writing', 'writing_tick', 'writing_digest', 'epoch')
local epoch = tonumber(under_way[4] or '0')
if under_way[1] == incarnation then
  if under_way[2] and tonumber(under_way[2]) > tonumber(tick) then return {'ahead', under_way[2]} end
  if under_way[2] == tick and under_way[3] ~= digest then return {'other', under_way[3]} end
else
  if under_way[1] and acknowledged == '' then return {'taken', under_way[1]} end
  epoch = math.max(epoch + 1, tonumber(redis.call('TIME')[1]))
end
epoch = string.format('%.0f', epoch)
redis.call('HSET', marker, 'flow', flow, 'sink', sink, 'epoch', epoch, 'writing', incarnation,
  'writing_tick', tick, 'writing_digest', digest)
return {'begun', epoch}
"""
"""Begin a tick, if the marker is as it was seen: `begun` with the epoch; else why not."""

WRITE: Final = """
local marker = KEYS[1]
local epoch, incarnation, tick, version, expires, digest = unpack(ARGV, 1, 6)
local now = redis.call('HMGET', marker, 'epoch', 'writing', 'writing_tick')
if now[1] ~= epoch or now[2] ~= incarnation or now[3] ~= tick then return 'stale' end
redis.call('HSET', marker, 'writing_tick', tick)  -- a full memory refuses this, before an entry is touched
local columns, first = tonumber(ARGV[7]), 7
local at = first + columns + 1
local function put(entry)
  redis.call('DEL', entry)
  local fields = {'_version', version}
  for c = 1, columns do
    local value = ARGV[at + c]
    if string.byte(value) == 61 then
      fields[#fields + 1] = ARGV[first + c]
      fields[#fields + 1] = string.sub(value, 2)
    end
    if #fields >= 1000 or c == columns then
      if #fields > 0 then redis.call('HSET', entry, unpack(fields)) end
      fields = {}
    end
  end
  if expires ~= '' then redis.call('PEXPIREAT', entry, expires) end
end
for i = 2, #KEYS do
  local old = redis.call('HGET', KEYS[i], '_version')
  local deletes = ARGV[at] == 'd'
  if not (old and old > version) then
    if deletes then redis.call('DEL', KEYS[i]) else put(KEYS[i]) end
  end
  at = at + 1
  if not deletes then at = at + columns end
end
if digest ~= '' then
  redis.call('HSET', marker, 'incarnation', incarnation, 'tick', tick, 'digest', digest)
  redis.call('HDEL', marker, 'writing_tick', 'writing_digest')
end
return 'written'
"""
"""Write a batch of the tick under way, and with its digest finish the tick: `written`, or `stale` if it is not under way."""


def version_text(epoch: int, tick: int) -> str:
    """A version as text. It sorts as (epoch, tick) does.

    >>> version_text(1_800_000_000, 7)
    '001800000000-000000000007'
    """
    return f"{epoch:012}-{tick:012}"
