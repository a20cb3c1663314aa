-- Store a job and put it into its queue. -> {'new' | 'known' | 'conflict', job}
-- Safe to send twice: the same job id, or the same Idempotency-Key with the same body, stores one job.
if redis.call('EXISTS', k_job(a.job)) == 1 then return {'new', a.job} end
if a.idempotency_key ~= '' then
  local key = k_idempotency(a.tenant, a.idempotency_key)
  local known = redis.call('HMGET', key, 'job', 'body_sha256')
  if known[1] then
    return {known[2] == a.body_sha256 and 'known' or 'conflict', known[1]}
  end
  redis.call('HSET', key, 'job', a.job, 'body_sha256', a.body_sha256)
  redis.call('PEXPIRE', key, a.idempotency_ms)
end
local now = now_ms()
local rank_ms = text(now - a.head_start_ms)
redis.call('HSET', k_job(a.job), 'id', a.job, 'version', a.version, 'status', 'queued', 'base_model', a.base_model,
  'group', a.group, 'spec', a.spec, 'tenant', a.tenant, 'warnings', a.warnings, 'steps', a.steps,
  'created_ms', text(now), 'rank_ms', rank_ms, 'retention_ms', a.retention_ms,
  'webhook_url', a.webhook_url, 'webhook_events', a.webhook_events)
redis.call('ZADD', k_index('queued'), text(now), a.job)
if a.deadline_ms > 0 then redis.call('ZADD', k_deadlines(), text(now + a.deadline_ms), a.job) end
enqueue(a.base_model, a.group, a.job, rank_ms)
emit(a.job, 'queued', {reason = 'submitted'})
return {'new', a.job}
