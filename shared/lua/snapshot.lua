-- What waits for a base model, oldest heads first, and the resident group if it waits too.
-- -> {group, head, head_rank_ms, overtaken, waiting, tenant, left_ms or '', elsewhere, marked, ...} nine each
-- Heads that a newer version stored are left out: whoever looks would not know all that was asked for.
local now = now_ms()
local found = {}

-- How many other living workers have a group's adapters in their slots, by their last claims.
local elsewhere = {}
local alive = {}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', k_workers(), text(now - a.alive_ms), '+inf')) do
  alive[worker] = worker ~= a.worker
end
local residents = redis.call('HGETALL', k_residents(a.base_model))
for i = 1, #residents, 2 do
  local worker, group = residents[i], residents[i + 1]
  if alive[worker] == nil then
    -- Names of workers are not used again, so those of the dead would pile up.
    redis.call('HDEL', k_residents(a.base_model), worker)
  elseif alive[worker] then
    elsewhere[group] = (elsewhere[group] or 0) + 1
  end
end

-- How many of a group's jobs other workers have marked.
local marked = {}
for job in pairs(marked_by_others(a.base_model, a.worker, now)) do
  local group = redis.call('HGET', k_job(job), 'group')
  marked[group] = (marked[group] or 0) + 1
end

local function add(group)
  local head = redis.call('ZRANGE', k_group(a.base_model, group), 0, 0, 'WITHSCORES')
  local job, rank_ms = head[1], head[2]
  local record = redis.call('HMGET', k_job(job), 'tenant', 'version')
  if tonumber(record[2] or '0') > a.version then return end
  local deadline_ms = redis.call('ZSCORE', k_deadlines(), job)
  for _, value in ipairs({
    group, job, rank_ms,
    text(overtaken(a.base_model, rank_ms)),
    text(redis.call('ZCARD', k_group(a.base_model, group))),
    record[1] or '',
    deadline_ms and text(deadline_ms - now) or '',
    text(elsewhere[group] or 0),
    text(marked[group] or 0),
  }) do
    found[#found + 1] = value
  end
end

local seen = false
for _, group in ipairs(redis.call('ZRANGE', k_heads(a.base_model), 0, a.heads - 1)) do
  seen = seen or group == a.resident
  add(group)
end
if not seen and redis.call('ZSCORE', k_heads(a.base_model), a.resident) then add(a.resident) end
return found
