-- KEYS[1] stream. ARGV: ms until a delivery is visible again, rows wanted, bytes of a row, 1 when the first pack may
-- be larger than what is wanted. Gives id, number of the delivery, pack; and so on.
--
-- Neither the stream nor its group need be there: both vanish with a flush, and come back with the next publication.
-- All entries have one consumer: what tells deliveries apart is their number, which rises with each.
local again, room, width, larger = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local found = {}

local function fits(pack)
  local rows = math.floor(#pack / width)
  if rows > room and not (larger and #found == 0) then return false end
  room = room - rows
  return true
end

if redis.call('EXISTS', KEYS[1]) == 0 then return found end
local last, pending
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local of = {}
  for i = 1, #group, 2 do of[group[i]] = group[i + 1] end
  if of['name'] == 'workers' then last, pending = of['last-delivered-id'], of['pending'] end
end
if not last then
  redis.call('XGROUP', 'CREATE', KEYS[1], 'workers', '0')
  last, pending = '0-0', 0
end

if pending > 0 and room > 0 then
  for _, late in ipairs(redis.call('XPENDING', KEYS[1], 'workers', 'IDLE', again, '-', '+', 64)) do
    local id = late[1]
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if not entry then
      redis.call('XACK', KEYS[1], 'workers', id) -- trimmed meanwhile
    else
      if room <= 0 or not fits(entry[2][2]) then break end
      redis.call('XCLAIM', KEYS[1], 'workers', 'any', again, id)
      found[#found + 1], found[#found + 2], found[#found + 3] = id, late[4] + 1, entry[2][2]
    end
  end
end

local look = math.max(1, math.min(64, math.floor(room / 64)))
while room > 0 do
  local fitting = 0
  local ahead = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', look)
  for _, entry in ipairs(ahead) do
    if room <= 0 or not fits(entry[2][2]) then break end
    fitting = fitting + 1
    found[#found + 1], found[#found + 2], found[#found + 3] = entry[1], 1, entry[2][2]
    last = entry[1]
  end
  if fitting > 0 then
    redis.call('XREADGROUP', 'GROUP', 'workers', 'any', 'COUNT', fitting, 'STREAMS', KEYS[1], '>')
  end
  if fitting < look then break end
  look = math.min(64, look * 4)
end
return found
