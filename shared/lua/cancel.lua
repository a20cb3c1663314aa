-- Cancel a job. -> {'absent'} | {status it had}: queued ends now, running stops at its next step.
local fields = redis.call('HMGET', k_job(a.job), 'status', 'base_model', 'group', 'stop')
local status = fields[1]
if not status then return {'absent'} end
if status == 'queued' then
  dequeue(fields[2], fields[3], a.job)
  end_job(a.job, 'cancelled', now_ms())
elseif status == 'running' and (not fields[4] or fields[4] == '') then
  redis.call('HSET', k_job(a.job), 'stop', 'cancelled')
  emit(a.job, 'cancelling', {job = a.job})
end
return {status}
