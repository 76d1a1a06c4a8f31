-- KEYS[1] stream. ARGV: channel of its wake-ups, most packs, life in ms, then the packs.
for i = 4, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'h', ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[1], '')
return #ARGV - 3
