-- Objects that no job will ever name: recorded a while ago by an attempt that no longer runs. -> {key, ...}
-- A key is jobs/JOB/ATTEMPT/FILE. The caller deletes the objects, then forgets the keys with `forget`.
for _, key in ipairs(a.forget) do redis.call('ZREM', k_objects(), key) end
local orphans = {}
local old = text(now_ms() - a.older_than_ms)
for _, key in ipairs(redis.call('ZRANGEBYSCORE', k_objects(), '-inf', old, 'LIMIT', 0, a.most)) do
  local job, attempt = string.match(key, '^jobs/([^/]+)/(%d+)/')
  if not job or held(job, tonumber(attempt)) == 'lost' then orphans[#orphans + 1] = key end
end
return orphans
