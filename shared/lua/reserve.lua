-- Mark the job of a group that this worker is likely to claim next. -> {field, value, ...} | {}
-- A worker has one mark; where no such group waits ("" never does), or while it is paused, it has none.
-- Only a wish, which ends by itself: others prefer other jobs while there are any, and may take this one all the same.
local now = now_ms()
redis.call('HDEL', k_marks(a.base_model), a.worker)
local job = not held_back(a.base_model, a.worker) and first_free(a.base_model, a.group, a.worker, now)
if not job then return {} end
redis.call('HSET', k_marks(a.base_model), a.worker, text(now + a.mark_ms) .. ':' .. job)
redis.call('PEXPIRE', k_marks(a.base_model), a.mark_ms)
return redis.call('HGETALL', k_job(job))
