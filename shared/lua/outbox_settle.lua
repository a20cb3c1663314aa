-- After an attempt: 'delivered' forgets the event, 'retry' makes it due again later, 'dead' keeps it for retention.
-- Only the notifier that holds the row's current attempt may settle it. -> {'ok' | 'lost'}
local row = k_outbox_row(a.event)
if tonumber(redis.call('HGET', row, 'attempts') or '-1') ~= a.attempts then return {'lost'} end
if a.outcome == 'delivered' then
  redis.call('DEL', row)
  redis.call('ZREM', k_outbox(), a.event)
elseif a.outcome == 'retry' then
  redis.call('HSET', row, 'last_error', a.note)
  redis.call('ZADD', k_outbox(), text(now_ms() + a.delay_ms), a.event)
else
  redis.call('HSET', row, 'last_error', a.note)
  redis.call('ZREM', k_outbox(), a.event)
  redis.call('ZADD', k_outbox_dead(), text(now_ms()), a.event)
  redis.call('PEXPIRE', row, a.retention_ms)
  redis.call('PEXPIRE', k_outbox_dead(), a.retention_ms)
end
return {'ok'}
