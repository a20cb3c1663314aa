-- Hand a claimed job back at its old rank, free of charge. -> as renew
local state = held(a.job, a.attempt)
if state == 'ok' then
  requeue(a.job, 'handed_back')
elseif state ~= 'lost' then
  end_job(a.job, state, now_ms())
end
return {state}
