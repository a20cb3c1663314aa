-- Fix an event's bytes: the first rendering wins, every retry sends the same. -> {body}
local row = k_outbox_row(a.event)
if redis.call('EXISTS', row) == 0 then return {''} end
redis.call('HSETNX', row, 'body', a.body)
return {redis.call('HGET', row, 'body')}
