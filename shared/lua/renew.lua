-- Renew the lease; with `step`, record progress too. -> {'ok' | 'lost' | 'cancelled' | 'expired'}
local state = held(a.job, a.attempt)
if state == 'lost' then return {state} end
redis.call('ZADD', k_leases(), text(now_ms() + a.lease_ms), a.job)
if a.step then
  redis.call('HSET', k_job(a.job), 'step', a.step)
  emit(a.job, 'progress', {step = a.step, steps = a.steps})
end
return {state}
