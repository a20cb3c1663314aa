-- After an attempt: 'delivered' forgets the event, 'retry' makes it due again later, 'dead' keeps it for retention.
-- Only the notifier that holds the row's current attempt may settle it. -> {'ok' | 'lost'}
local row = k_outbox_row(a.event)
local fields = redis.call('HMGET', row, 'attempts', 'endpoint')
if tonumber(fields[1] or '-1') ~= a.attempts then return {'lost'} end
-- A dead row keeps its attempts, so only its absence from the line tells a second settlement.
if not redis.call('ZSCORE', k_outbox(), a.event) then return {'lost'} end
local now = now_ms()
if a.outcome == 'delivered' then
  redis.call('DEL', row)
  unschedule(a.event, fields[2])
elseif a.outcome == 'retry' then
  redis.call('HSET', row, 'last_error', a.note)
  schedule(a.event, fields[2], text(now + a.delay_ms))
else
  redis.call('HSET', row, 'last_error', a.note)
  unschedule(a.event, fields[2])
  redis.call('ZADD', k_outbox_dead(), text(now), a.event)
  redis.call('ZREMRANGEBYSCORE', k_outbox_dead(), '-inf', text(now - a.retention_ms))
  redis.call('PEXPIRE', row, a.retention_ms)
  redis.call('PEXPIRE', k_outbox_dead(), a.retention_ms)
end
return {'ok'}
