-- Take from a holder (one child of one worker) every job but those in `keep`. -> {job, ...}
-- `counted`: it died with them; otherwise they go back free of charge.
local now = now_ms()
local keep = {}
for _, job in ipairs(a.keep) do keep[job] = true end
local taken = {}
for _, job in ipairs(redis.call('ZRANGE', k_leases(), 0, -1)) do
  if not keep[job] and redis.call('HGET', k_job(job), 'holder') == a.holder and leased(job) then
    taken[#taken + 1] = job
    if a.counted then
      lose(job, now, a.max_losses, a.lost_error)
    else
      local stop = redis.call('HGET', k_job(job), 'stop')
      if stop and stop ~= '' then end_job(job, stop, now) else requeue(job, 'handed_back') end
    end
  end
end
return taken
