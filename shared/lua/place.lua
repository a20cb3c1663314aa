-- Record object keys before they are uploaded, so that a lost attempt's objects can be swept.
-- -> as renew, or {'done'}: this very attempt has ended the job with its images, and died before it could forget them.
local fields = redis.call('HMGET', k_job(a.job), 'status', 'attempt')
if fields[1] == 'succeeded' and tonumber(fields[2]) == a.attempt then return {'done'} end
local state = held(a.job, a.attempt)
if state ~= 'ok' then return {state} end
local now = text(now_ms())
for _, key in ipairs(a.keys) do redis.call('ZADD', k_objects(), now, key) end
return {state}
