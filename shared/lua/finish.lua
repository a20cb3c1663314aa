-- End a job. -> {'ok'} | {'lost'} | {'cancelled' | 'expired'}: it was asked to stop, so it cannot succeed.
-- Safe to send twice: the attempt that ended the job gets 'ok' again.
local fields = redis.call('HMGET', k_job(a.job), 'status', 'attempt')
if fields[1] == a.status and tonumber(fields[2]) == a.attempt then return {'ok'} end
local state = held(a.job, a.attempt)
if state == 'lost' then return {state} end
local status = a.status
if state ~= 'ok' and status ~= state then
  if status == 'succeeded' then return {state} end
  status = state
end
if a.result ~= '' and status == 'succeeded' then redis.call('HSET', k_job(a.job), 'result', a.result) end
if a.error ~= '' and status == 'failed' then redis.call('HSET', k_job(a.job), 'error', a.error) end
redis.call('HSET', k_job(a.job), 'warnings', a.warnings)
for _, key in ipairs(a.keys) do redis.call('ZREM', k_objects(), key) end
end_job(a.job, status, now_ms())
return {'ok'}
