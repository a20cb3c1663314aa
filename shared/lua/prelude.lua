-- Shared by every script; LEGAL (the table of state changes) and the k_* key functions stand above it.
-- Every script takes one JSON object and returns a list of strings. All times are the server's own, in ms.

local a = cjson.decode(ARGV[1])

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function text(number) return string.format('%.0f', number) end

local function emit(job, kind, data)
  redis.call('XADD', k_events(job), 'MAXLEN', '~', 256, '*', 'type', kind, 'data', cjson.encode(data))
end

-- The only place where a job's status changes.
local function move(job, to)
  local fields = redis.call('HMGET', k_job(job), 'status', 'created_ms')
  local from = fields[1]
  if not from or not LEGAL[from][to] then
    error('illegal change of job ' .. job .. ' from ' .. tostring(from) .. ' to ' .. to)
  end
  redis.call('HSET', k_job(job), 'status', to)
  redis.call('ZREM', k_index(from), job)
  redis.call('ZADD', k_index(to), fields[2], job)
end

-- Keep an index of lines by their first member's score.
local function refresh(heads, name, line)
  local head = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  if head[1] then
    redis.call('ZADD', heads, head[2], name)
  else
    redis.call('ZREM', heads, name)
  end
end

local function refresh_head(base, group)
  refresh(k_heads(base), group, k_group(base, group))
end

local function enqueue(base, group, job, rank_ms)
  redis.call('ZADD', k_queues(), 0, base)
  redis.call('ZADD', k_waiting(base), rank_ms, job)
  redis.call('ZADD', k_group(base, group), rank_ms, job)
  refresh_head(base, group)
end

-- Claims that rank no later than the oldest waiting job can no longer count as overtaking anyone. When nothing waits,
-- nobody is ahead of anybody either.
local function prune_claims(base)
  local oldest = redis.call('ZRANGE', k_waiting(base), 0, 0, 'WITHSCORES')
  if oldest[1] then
    redis.call('ZREMRANGEBYSCORE', k_claims(base), '-inf', oldest[2])
  else
    redis.call('DEL', k_claims(base), k_shares(base))
    redis.call('ZREM', k_queues(), base)
  end
end

local function dequeue(base, group, job)
  redis.call('ZREM', k_waiting(base), job)
  redis.call('ZREM', k_group(base, group), job)
  refresh_head(base, group)
  prune_claims(base)
end

-- How many jobs of later rank were claimed while a job of this rank waited.
local function overtaken(base, rank_ms)
  return redis.call('ZCOUNT', k_claims(base), '(' .. rank_ms, '+inf')
end

-- Whether a worker gets nothing new: its queue is paused, or it is drained.
local function held_back(base, worker)
  return redis.call('EXISTS', k_paused(base), k_drained(worker)) > 0
end

-- The waiting jobs that other workers are about to come for: {job = true, ...}, and how many.
local function marked_by_others(base, worker, now)
  local marked, count = {}, 0
  local marks = redis.call('HGETALL', k_marks(base))
  for i = 1, #marks, 2 do
    local until_ms, job = string.match(marks[i + 1], '^(%d+):(.*)$')
    if tonumber(until_ms) <= now then
      redis.call('HDEL', k_marks(base), marks[i])
    elseif marks[i] ~= worker and redis.call('ZSCORE', k_waiting(base), job) then
      if not marked[job] then count = count + 1 end
      marked[job] = true
    end
  end
  return marked, count
end

-- The first job of a group that nobody else is about to come for, or its head if there is none. -> job, rank_ms
local function first_free(base, group, worker, now)
  local marked, count = marked_by_others(base, worker, now)
  local line = redis.call('ZRANGE', k_group(base, group), 0, count, 'WITHSCORES')
  for i = 1, #line, 2 do
    if not marked[line[i]] then return line[i], line[i + 1] end
  end
  return line[1], line[2]
end

-- 'ok', 'lost' (another attempt owns the job, or it has ended), or how the job was asked to stop.
local function held(job, attempt)
  local fields = redis.call('HMGET', k_job(job), 'status', 'attempt', 'stop')
  if fields[1] ~= 'running' or tonumber(fields[2]) ~= attempt then return 'lost' end
  if fields[3] and fields[3] ~= '' then return fields[3] end
  return 'ok'
end

-- Events wait in one line per endpoint (scheme, host and port), so that a slow endpoint delays only its own.
local function endpoint_of(url)
  return string.lower(string.match(url, '^%a+://[^/?#]+') or url)
end

local function schedule(event, endpoint, due_ms)
  redis.call('ZADD', k_outbox(), due_ms, event)
  redis.call('ZADD', k_outbox_line(endpoint), due_ms, event)
  refresh(k_outbox_heads(), endpoint, k_outbox_line(endpoint))
end

local function unschedule(event, endpoint)
  redis.call('ZREM', k_outbox(), event)
  redis.call('ZREM', k_outbox_line(endpoint), event)
  refresh(k_outbox_heads(), endpoint, k_outbox_line(endpoint))
end

-- The terminal state and its webhook event are one write (transactional outbox).
local function end_job(job, status, now)
  move(job, status)
  redis.call('HSET', k_job(job), 'finished_ms', text(now))
  redis.call('ZREM', k_leases(), job)
  redis.call('ZREM', k_deadlines(), job)
  emit(job, status, {job = job})
  local fields = redis.call('HMGET', k_job(job), 'retention_ms', 'webhook_url', 'webhook_events')
  local kind = 'job.' .. status
  if fields[2] and fields[2] ~= '' and string.find(',' .. fields[3] .. ',', ',' .. kind .. ',', 1, true) then
    local event, endpoint = 'evt_' .. job, endpoint_of(fields[2])
    redis.call('HSET', k_outbox_row(event), 'event', event, 'job', job, 'type', kind, 'url', fields[2],
      'endpoint', endpoint, 'created_ms', text(now), 'attempts', 0)
    schedule(event, endpoint, text(now))
  end
  redis.call('PEXPIRE', k_job(job), fields[1])
  redis.call('PEXPIRE', k_events(job), fields[1])
  redis.call('PEXPIRE', k_index(status), 2 * fields[1])
  redis.call('ZREMRANGEBYSCORE', k_index(status), '-inf', text(now - 2 * fields[1]))
end

local function requeue(job, why)
  local fields = redis.call('HMGET', k_job(job), 'base_model', 'group', 'rank_ms')
  move(job, 'queued')
  redis.call('ZREM', k_leases(), job)
  redis.call('HSET', k_job(job), 'step', 0, 'worker', '', 'holder', '')
  enqueue(fields[1], fields[2], job, fields[3])
  emit(job, 'queued', {reason = why})
end

-- Whether a lease is of a running job. No script leaves another one behind; but one would stop, by an illegal change,
-- everybody who comes upon it, so it goes.
local function leased(job)
  if redis.call('HGET', k_job(job), 'status') == 'running' then return true end
  redis.call('ZREM', k_leases(), job)
  return false
end

-- The worker died with the job: back to the queue, unless it was to stop anyway or has had its attempts.
local function lose(job, now, max_losses, lost_error)
  local stop = redis.call('HGET', k_job(job), 'stop')
  if stop and stop ~= '' then
    end_job(job, stop, now)
    return
  end
  local losses = redis.call('HINCRBY', k_job(job), 'losses', 1)
  if losses >= max_losses then
    redis.call('HSET', k_job(job), 'error', lost_error)
    end_job(job, 'failed', now)
  else
    requeue(job, 'worker_lost')
  end
end
