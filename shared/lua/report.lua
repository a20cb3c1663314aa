-- A worker's beat: some of its fields, and its life prolonged. Its clock is not asked. -> {}
local now = now_ms()
redis.call('HSET', k_worker(a.worker), 'name', a.worker, 'seen_ms', text(now))
for field, value in pairs(a.fields) do redis.call('HSET', k_worker(a.worker), field, value) end
redis.call('PEXPIRE', k_worker(a.worker), a.alive_ms)
redis.call('PEXPIRE', k_drained(a.worker), a.drained_ms)
redis.call('ZADD', k_workers(), text(now), a.worker)
redis.call('ZREMRANGEBYSCORE', k_workers(), '-inf', text(now - a.alive_ms))
redis.call('PEXPIRE', k_workers(), a.alive_ms)
return {}
