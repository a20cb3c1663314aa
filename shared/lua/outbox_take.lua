-- Lease due webhook events to one notifier. -> {event, job, type, url, endpoint, attempts, created_ms, body, ...} eight each
-- At most `per_endpoint` of one endpoint, counting those that the notifier is `busy` with ({endpoint: number}).
local now = now_ms()
local rows = {}

local function take(event, endpoint)
  local row = redis.call('HMGET', k_outbox_row(event), 'job', 'type', 'url', 'created_ms', 'body')
  if not row[1] then
    unschedule(event, endpoint)
    return
  end
  local attempts = redis.call('HINCRBY', k_outbox_row(event), 'attempts', 1)
  schedule(event, endpoint, text(now + a.lease_ms))
  for _, value in ipairs({event, row[1], row[2], row[3], endpoint, text(attempts), row[4], row[5] or ''}) do
    rows[#rows + 1] = value
  end
end

local left = a.most
-- Every endpoint looked at gives an event or is busy, so this many are enough.
local looked_at = a.most
for _ in pairs(a.busy) do looked_at = looked_at + 1 end
for _, endpoint in ipairs(redis.call('ZRANGEBYSCORE', k_outbox_heads(), '-inf', text(now), 'LIMIT', 0, looked_at)) do
  local room = math.min(left, a.per_endpoint - (a.busy[endpoint] or 0))
  if room > 0 then
    local due = redis.call('ZRANGEBYSCORE', k_outbox_line(endpoint), '-inf', text(now), 'LIMIT', 0, room)
    for _, event in ipairs(due) do take(event, endpoint) end
    left = left - #due
  end
end
return rows
