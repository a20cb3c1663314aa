-- Lease due webhook events to one notifier. -> {event, job, type, url, attempts, created_ms, body, ...} seven each
local now = now_ms()
local rows = {}
for _, event in ipairs(redis.call('ZRANGEBYSCORE', k_outbox(), '-inf', text(now), 'LIMIT', 0, a.most)) do
  local row = redis.call('HMGET', k_outbox_row(event), 'job', 'type', 'url', 'created_ms', 'body')
  if row[1] then
    local attempts = redis.call('HINCRBY', k_outbox_row(event), 'attempts', 1)
    redis.call('ZADD', k_outbox(), text(now + a.lease_ms), event)
    for _, value in ipairs({event, row[1], row[2], row[3], text(attempts), row[4], row[5] or ''}) do
      rows[#rows + 1] = value
    end
  else
    redis.call('ZREM', k_outbox(), event)
  end
end
return rows
