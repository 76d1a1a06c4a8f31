-- KEYS[1] stream. ARGV: ms until a delivery is visible again, bytes of a row, packs to look at. Gives rows, exactly as
-- long as there are fewer packs than that.
local again, width, look = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local last, pending = '0-0', 0
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local of = {}
  for i = 1, #group, 2 do of[group[i]] = group[i + 1] end
  if of['name'] == 'workers' then last, pending = of['last-delivered-id'], of['pending'] end
end

local size = 0
local ahead = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', look)
for _, entry in ipairs(ahead) do size = size + #entry[2][2] end
if #ahead == look then -- the rest is taken to be like those
  local rest = math.max(0, redis.call('XLEN', KEYS[1]) - pending - look)
  size = size + rest * size / look
end
if pending > 0 then
  for _, late in ipairs(redis.call('XPENDING', KEYS[1], 'workers', 'IDLE', again, '-', '+', look)) do
    local entry = redis.call('XRANGE', KEYS[1], late[1], late[1])[1]
    if entry then size = size + #entry[2][2] end
  end
end
return math.floor(size / width)
