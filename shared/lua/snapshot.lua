-- What waits for a base model, oldest heads first. -> {group, head_rank_ms, overtaken, waiting, ...}
local found = {}
local function add(group, rank_ms)
  found[#found + 1] = group
  found[#found + 1] = rank_ms
  found[#found + 1] = text(overtaken(a.base_model, rank_ms))
  found[#found + 1] = text(redis.call('ZCARD', k_group(a.base_model, group)))
end
local seen = false
local heads = redis.call('ZRANGE', k_heads(a.base_model), 0, a.heads - 1, 'WITHSCORES')
for i = 1, #heads, 2 do
  seen = seen or heads[i] == a.resident
  add(heads[i], heads[i + 1])
end
if not seen then
  local rank_ms = redis.call('ZSCORE', k_heads(a.base_model), a.resident)
  if rank_ms then add(a.resident, rank_ms) end
end
return found
