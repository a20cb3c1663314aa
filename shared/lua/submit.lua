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

-- Start-time fair queueing, as shared/rank.py tells it.
local function next_turn_ms()
  local last_ms = tonumber(redis.call('HGET', k_stats(a.base_model), 'turn_ms') or '0')
  local oldest = redis.call('ZRANGE', k_waiting(a.base_model), 0, 0)[1]
  local turn_ms = math.max(now, last_ms + 1)
  if oldest then
    local ahead = redis.call('HMGET', k_job(oldest), 'turn_ms', 'rank_ms')
    local own_ms = redis.call('HGET', k_shares(a.base_model), a.tenant)
    turn_ms = math.max(tonumber(ahead[1] or ahead[2]) + 1, tonumber(own_ms or '0'))
  end
  local step_us = tonumber(redis.call('HGET', k_stats(a.base_model), 'step_us') or a.guessed_step_us)
  local work_ms = math.max(1, math.ceil(a.steps * step_us / 1000 / a.weight))
  redis.call('HSET', k_shares(a.base_model), a.tenant, text(turn_ms + work_ms))
  redis.call('HSET', k_stats(a.base_model), 'turn_ms', text(math.max(last_ms, turn_ms)))
  return turn_ms
end

local turn_ms = next_turn_ms()
local rank_ms = text(turn_ms - a.head_start_ms)
redis.call('HSET', k_job(a.job), 'id', a.job, 'version', a.version, 'status', 'queued', 'base_model', a.base_model,
  'group', a.group, 'spec', a.spec, 'tenant', a.tenant, 'warnings', a.warnings, 'steps', a.steps,
  'created_ms', text(now), 'turn_ms', text(turn_ms), 'rank_ms', rank_ms, 'retention_ms', a.retention_ms,
  'webhook_url', a.webhook_url, 'webhook_events', a.webhook_events)
redis.call('ZADD', k_index('queued'), text(now), a.job)
if a.deadline_ms > 0 then redis.call('ZADD', k_deadlines(), text(now + a.deadline_ms), a.job) end
enqueue(a.base_model, a.group, a.job, rank_ms)
emit(a.job, 'queued', {reason = 'submitted'})
return {'new', a.job}
