-- Record object keys before they are uploaded, so that a lost attempt's objects can be swept. -> as renew
local state = held(a.job, a.attempt)
if state ~= 'ok' then return {state} end
local now = text(now_ms())
for _, key in ipairs(a.keys) do redis.call('ZADD', k_objects(), now, key) end
return {state}
