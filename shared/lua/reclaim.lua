-- Return expired leases and end jobs past their deadline. Safe to run twice. -> {job, ...} that changed
-- A server that restarted could not be reached by living workers: every lease gets one more term.
local now = now_ms()
local changed = {}
local run = redis.call('GET', k_server_run())
if run ~= a.server_run then
  redis.call('SET', k_server_run(), a.server_run)
  for _, job in ipairs(redis.call('ZRANGE', k_leases(), 0, -1)) do
    redis.call('ZADD', k_leases(), text(now + a.lease_ms), job)
  end
end
for _, job in ipairs(redis.call('ZRANGEBYSCORE', k_leases(), '-inf', text(now), 'LIMIT', 0, a.most)) do
  if leased(job) then
    lose(job, now, a.max_losses, a.lost_error)
    changed[#changed + 1] = job
  end
end
for _, job in ipairs(redis.call('ZRANGEBYSCORE', k_deadlines(), '-inf', text(now), 'LIMIT', 0, a.most)) do
  local fields = redis.call('HMGET', k_job(job), 'status', 'base_model', 'group', 'stop')
  redis.call('ZREM', k_deadlines(), job)
  if fields[1] == 'queued' then
    dequeue(fields[2], fields[3], job)
    end_job(job, 'expired', now)
    changed[#changed + 1] = job
  elseif fields[1] == 'running' and (not fields[4] or fields[4] == '') then
    redis.call('HSET', k_job(job), 'stop', 'expired')
  end
end
return changed
