-- Give the head of a group to a worker, or its first job that no other worker has marked, as far as the bound allows.
-- -> {'claimed', field, value, ...} | {'empty'} | {'bound'}
-- 'bound': the oldest waiting job has been overtaken as often as allowed, so no job of later rank may be served. One of
-- the same rank may: otherwise two such jobs, and a worker that breaks the tie another way, would stop each other.
-- Safe to send twice: the same token gets the same job again, as long as it still holds it.
local function answer(job)
  local claimed = redis.call('HGETALL', k_job(job))
  table.insert(claimed, 1, 'claimed')
  return claimed
end

local now = now_ms()
local before = redis.call('GET', k_claim(a.token))
if before then
  local job, attempt = string.match(before, '^(.*):(%d+)$')
  if held(job, tonumber(attempt)) ~= 'lost' then return answer(job) end
end
-- Whoever is paused ends what it has, and gets nothing new.
if held_back(a.base_model, a.worker) then return {'empty'} end
while true do
  local oldest = redis.call('ZRANGE', k_waiting(a.base_model), 0, 0, 'WITHSCORES')
  if not oldest[1] then return {'empty'} end
  local job, rank_ms = first_free(a.base_model, a.group, a.worker, now)
  if not job then return {'empty'} end
  if overtaken(a.base_model, oldest[2]) >= a.overtake_max then
    local head = redis.call('ZRANGE', k_group(a.base_model, a.group), 0, 0, 'WITHSCORES')
    job, rank_ms = head[1], head[2]
    if tonumber(rank_ms) > tonumber(oldest[2]) then return {'bound'} end
  end
  local record = redis.call('HMGET', k_job(job), 'status', 'version')
  local deadline = redis.call('ZSCORE', k_deadlines(), job)
  if record[1] ~= 'queued' then
    -- No script leaves such a job in the line; but one would stop everybody behind it.
    dequeue(a.base_model, a.group, job)
  elseif tonumber(record[2] or '0') > a.version then
    return {'empty'}
  elseif deadline and tonumber(deadline) <= now then
    dequeue(a.base_model, a.group, job)
    end_job(job, 'expired', now)
  else
    local late = overtaken(a.base_model, rank_ms)
    local worst = tonumber(redis.call('HGET', k_stats(a.base_model), 'overtaken_max') or '0')
    if late > worst then redis.call('HSET', k_stats(a.base_model), 'overtaken_max', late) end
    redis.call('HINCRBY', k_stats(a.base_model), 'claims', 1)
    redis.call('HSET', k_residents(a.base_model), a.worker, a.group)
    redis.call('PEXPIRE', k_residents(a.base_model), 3600000)
    redis.call('HDEL', k_marks(a.base_model), a.worker)
    move(job, 'running')
    local attempt = redis.call('HINCRBY', k_job(job), 'attempt', 1)
    redis.call('SET', k_claim(a.token), job .. ':' .. attempt, 'PX', 600000)
    redis.call('ZADD', k_claims(a.base_model), rank_ms, job .. ':' .. attempt)
    dequeue(a.base_model, a.group, job)
    redis.call('HSET', k_job(job), 'worker', a.worker, 'holder', a.holder)
    redis.call('HSETNX', k_job(job), 'started_ms', text(now))
    redis.call('HSET', k_job(job), 'claimed_ms', text(now))
    redis.call('ZADD', k_leases(), text(now + a.lease_ms), job)
    emit(job, 'running', {attempt = attempt, worker = a.worker})
    return answer(job)
  end
end
