-- KEYS[1] stream. ARGV: channel of its wake-ups, most packs, life in ms, then the packs.
--
-- The group is made with the stream, so that a server that takes nothing in any more still lets everything out.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('XGROUP', 'CREATE', KEYS[1], 'workers', '0', 'MKSTREAM')
end
for i = 4, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'h', ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[1], '')
return #ARGV - 3
