-- KEYS[1] stream. ARGV: ms until a delivery is visible again, channel of wake-ups when packs are given back (else ''),
-- then id, number of the delivery; and so on. Gives how many of these deliveries were still valid.
--
-- What is given back is appended anew, so that a pack which nobody can use does not hold up those behind it.
local again, channel = tonumber(ARGV[1]), ARGV[2]
local valid = 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  local held = redis.pcall('XPENDING', KEYS[1], 'workers', id, id, 1)
  if held.err then return valid end -- the group is gone
  if held[1] and held[1][3] < again and held[1][4] == tonumber(ARGV[i + 1]) then
    if channel ~= '' then
      local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
      if entry then redis.call('XADD', KEYS[1], '*', 'h', entry[2][2]) end
    end
    redis.call('XACK', KEYS[1], 'workers', id)
    redis.call('XDEL', KEYS[1], id)
    valid = valid + 1
  end
end
if channel ~= '' and valid > 0 then redis.call('PUBLISH', channel, '') end
return valid
