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
local now = now_ms()
if status == 'succeeded' then
  -- What a step takes here, uploading and all: the average of about the last eight jobs.
  local measured = redis.call('HMGET', k_job(a.job), 'base_model', 'steps', 'claimed_ms')
  local step_us = (now - measured[3]) * 1000 / math.max(1, measured[2])
  local before_us = tonumber(redis.call('HGET', k_stats(measured[1]), 'step_us') or step_us)
  redis.call('HSET', k_stats(measured[1]), 'step_us', text(before_us + (step_us - before_us) / 8))
end
end_job(a.job, status, now)
return {'ok'}
