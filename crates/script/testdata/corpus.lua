Scripts of the test `corpus`: each below a line that says what it shows.

--- numbers become whole
return {1, 2.9, -2.9, 1e300, -1e300, 2^53, '3.5', true, false}
--- an array ends at the first nil
return {1, 2, nil, 4}
--- a reply may be an error
return {err = 'MYERR something'}
--- a reply may be a status
return {ok = 'fine'}
--- an error comes before a status
return {ok = 'fine', err = 'no'}
--- error_reply adds what is missing
return {redis.error_reply('one'), redis.error_reply('-TWO words'), redis.error_reply('two words'), redis.error_reply(1)}
--- status_reply
return {redis.status_reply('a'), redis.status_reply('a', 'b')}
--- types of RESP3 for a client of RESP2
return {{double = 3.5}, {map = {a = 1}}, {set = {x = true}}, {big_number = '123'}, {verbatim_string = {string = 'hi', format = 'txt'}}}
--- setresp changes what false is
redis.setresp(3) return {false, true, redis.call('get', 'none') == nil}
--- a null is false in RESP2
return {redis.call('get', 'none') == false, type(redis.call('hget', KEYS[1], 'f'))}
--- hashes in RESP3 are maps
redis.call('hset', KEYS[1], 'a', '1') redis.setresp(3) local m = redis.call('hgetall', KEYS[1]) return {m.map.a}
--- sets in RESP3 have their members as keys
redis.call('sadd', KEYS[1], 'x') redis.setresp(3) local m = redis.call('smembers', KEYS[1]) return {tostring(m.set.x)}
--- doubles in RESP3
redis.call('zadd', KEYS[1], 1.5, 'x') redis.setresp(3) local s = redis.call('zscore', KEYS[1], 'x') return {tostring(s.double), type(s)}
--- a global that is not there
return foo
--- a global that is not there, to be written
foo = 1
--- _G cannot be written
_G.foo = 1
--- libraries cannot be written
string.x = 1
--- nor through rawset
rawset(redis, 'call', 1)
--- nor the metatable of strings
getmetatable('').__index = {}
--- nor that of the globals
setmetatable(_G, {})
--- an error with a position
error('x')
--- an error without one
error('x', 0)
--- an error of the caller
local function f() error('deep', 2) end
f()
--- an error that is a number
error(5)
--- an error that is nil
error()
--- an error that is a reply
error({err = 'MYERR x'})
--- pcall gives the text of a reply
local ok, e = pcall(redis.call, 'nosuch') return {tostring(ok), type(e), e}
--- redis.pcall gives the reply
local e = redis.pcall('nosuch') return {type(e), e.err}
--- a command's error ends the script
redis.call('set', KEYS[1], 'v')
return redis.call('incr', KEYS[1])
--- a command's error as a value
redis.call('set', KEYS[1], 'v') return redis.pcall('incr', KEYS[1])
--- no command
return redis.call()
--- no word
return redis.call('set', KEYS[1], {})
--- a number as a word
redis.call('set', KEYS[1], 0.1) redis.call('set', KEYS[2], 1e20) return {redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}
--- an unknown command
return redis.call('nosuch')
--- too few words
return redis.call('get')
--- what a script cannot be
x = = 1
--- an unfinished string
return "abc
--- an unfinished long string
return [[abc
--- a missing end
if true then return 1
--- a missing end further down
if true then

return 1
--- an unfinished call
return f(1,
--- a malformed number
return 3x
--- no loop to leave
break
--- dots outside
local function f() return ... end
--- an expression alone
1 + 1
--- an assignment to a call
f() = 1
--- a keyword as a name
local end = 1
--- an index of nil, local
local t return t.x
--- an index of nil, field
local t = {} return t.a.b
--- an index of nil, upvalue
local t local function f() return t.x end return f()
--- an index of nil, number
local t = {} return t[1].x
--- a call of nil, global field
return string.nosuch('x')
--- a call of nil, method
local s = 'x' return s:nosuch()
--- a call of nil, local
local f return f()
--- a call of a number
return (1)()
--- arithmetic on nil
local a return a + 1
--- arithmetic on a field
local t = {} return 1 - t.x
--- arithmetic on a string that is no number
return 'abc' + 1
--- arithmetic on strings that are
return {tostring('10' + 1), tostring('0x10' * 2), 10 .. 20}
--- concatenation of nil
local t = {} return 'a' .. t.x .. 'b'
--- concatenation of a local
local b return 'a' .. b
--- comparison of kinds
return 1 < 'x'
--- comparison of tables
return {} < {}
--- comparison of nils
return nil < nil
--- length of nil
local n return #n
--- a for with no number
for i = 'a', 2 do end
--- a for without a limit
for i = 1, nil do end
--- a loop over nil
for k, v in nil do end
--- pairs of nil
for k in pairs(nil) do end
--- arguments that are missing
return string.rep()
--- arguments that are wrong
return string.rep('x', {})
--- arguments that are wrong, through pcall
return {pcall(string.rep)}
--- arguments that are wrong, as a method
return ('x'):rep({})
--- arguments that are wrong, for self
return string.rep({}, 1)
--- tostring and its kin
return {tostring(nil), tostring(true), tostring(1e15), tostring(1e14), tostring(123456789012345), tostring(0.1), tostring(1/3), tostring(-0.0), tostring(1/0), tostring(-1/0), tostring(2^63), tostring(1e-7)}
--- tonumber
return {tostring(tonumber('0x1F')), tostring(tonumber(' 12 ')), tostring(tonumber('1e1')), tostring(tonumber('z', 36)), tostring(tonumber('12', 2)), tostring(tonumber('')), tostring(tonumber('1 2')), tostring(tonumber('ff', 16)), tostring(tonumber('7', 8)), tostring(tonumber('inf')), tostring(tonumber('0x')), tostring(tonumber('1e')), tostring(tonumber('.'))}
--- the order of pairs over strings
local t = {} for i = 1, 50 do t['key' .. i] = i end local s = {} for k in pairs(t) do s[#s + 1] = k end return s
--- the order of pairs over a mixture
local t = {10, 20, nil, 40, x = 1, y = 2, [1.5] = 3, [100] = 4, [true] = 5, [false] = 6, [-1] = 7, [2^40] = 8} local s = {} for k in pairs(t) do s[#s + 1] = tostring(k) end return s
--- the order of pairs after deletions
local t = {} for i = 1, 30 do t['k' .. i] = i end for i = 1, 30, 2 do t['k' .. i] = nil end for i = 40, 50 do t['k' .. i] = i end local s = {} for k in pairs(t) do s[#s + 1] = k end return s
--- the end of an array with holes
local t = {1, 2, 3, nil, 5, nil, nil, 8} local a = #t t[8] = nil local b = #t t[#t + 1] = 1 return {a, b, #t, table.getn(t), table.maxn(t)}
--- constructors
local function f(...) return ... end local t = {f(1, 2), f(3, 4), x = f(5, 6), [10] = 7, f(8, 9)} return {#t, t[1], t[2], t[3], t[4], t.x, t[10]}
--- many values
local t = {} for i = 1, 120 do t[i] = i end return {select('#', unpack(t)), (select(-1, unpack(t)))}
--- a long constructor
local t = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55} return {#t, t[51], t[55]}
--- varargs, and the table of them
local function f(...) return arg.n, arg[1] end local function g(...) local a = {...} return select('#', ...), type(arg) end local a, b = f(7, 8) local c, d = g(1, nil) return {a, b, c, d}
--- assignment in parallel
local a, b, c = 1, 2 a, b = b, a local t = {} local i = 1 i, t[i] = i + 1, 20 return {a, b, tostring(c), i, t[1]}
--- closures share what they capture
local fs = {} for i = 1, 3 do local j = i fs[i] = function() j = j + 1 return j end end return {fs[1](), fs[1](), fs[2](), fs[3]()}
--- captured variables outlive their block
local get, set do local x = 1 get = function() return x end set = function(v) x = v end end set(5) return get()
--- loops
local s = 0 for i = 10, 1, -3 do s = s + i end local n = 0 while true do n = n + 1 if n > 5 then break end end repeat local done = n > 7 n = n + 1 until done return {s, n}
--- and, or, not
return {tostring(nil and 1), tostring(false or nil), tostring(1 and 2), tostring(nil or 'x'), tostring(not nil), tostring(not 0), tostring(1 == 1 and 'yes' or 'no'), tostring(1 > 2 or 3 > 2)}
--- operators and what binds first
return {tostring(2 ^ 3 ^ 2), tostring(-2 ^ 2), tostring(1 .. 2 .. 3), tostring(2 * 3 % 4), tostring(7 % -3), tostring(-7 % 3), tostring(5.5 % 2), tostring(not 1 == 2), tostring(#'abc' + 1)}
--- comparisons of strings
return {tostring('a' < 'b'), tostring('Z' < 'a'), tostring('' < 'a'), tostring('a' <= 'a'), tostring('10' < '9'), tostring('a\0b' < 'a\0c')}
--- metatables
local m = {__index = function(t, k) return k .. '!' end, __newindex = function(t, k, v) rawset(t, k, v * 2) end, __call = function(self, a, b) return a + b end, __add = function(a, b) return 'add' end, __concat = function(a, b) return 'cat' end, __eq = function() return true end, __lt = function() return true end, __le = function() return false end, __unm = function() return 'neg' end, __tostring = function() return 'me' end, __len = function() return 99 end}
local t, u = setmetatable({}, m), setmetatable({}, m) t.x = 4
return {t.foo, t.x, t(3, 4), t + 1, 1 + t, t .. 'x', 'x' .. t, tostring(t == u), tostring(t < u), tostring(t <= u), -t, tostring(t), #t, tostring(t ~= u)}
--- le by way of lt
local m = {__lt = function(a, b) return a.v < b.v end} local a, b = setmetatable({v = 1}, m), setmetatable({v = 2}, m) return {tostring(a <= b), tostring(b <= a), tostring(a > b), tostring(a >= b)}
--- a protected metatable
local t = setmetatable({}, {__metatable = 'no'}) return {getmetatable(t), pcall(setmetatable, t, {})}
--- inheritance
local A = {} A.__index = A function A.new(v) return setmetatable({v = v}, A) end function A:get() return self.v end local B = setmetatable({}, {__index = A}) B.__index = B function B:twice() return self:get() * 2 end local b = setmetatable({v = 21}, B) return {b:get(), b:twice()}
--- string functions
return {('hello'):sub(2, -2), ('hello'):sub(-3), ('hello'):sub(0), ('hello'):sub(10), ('x'):rep(3), ('abc'):reverse(), ('aBc'):upper(), ('aBc'):lower(), #('abc'), ('abc'):len(), ('abc'):byte(), string.char(72, 105), ('abc'):byte(-1)}
--- bytes
return {string.byte('hello', 1, 3)}
--- find
return {('hello world'):find('o w'), ('hello'):find('l'), ('hello'):find('xyz'), ('a.b'):find('.', 1, true), ('hello'):find(''), ('hello'):find('', 10), ('hello'):find('(l)(l)'), ('hello'):find('l', -2)}
--- match
return {('key = value'):match('^(%w+)%s*=%s*(%w+)$'), ('2024-01-02'):match('(%d+)-(%d+)-(%d+)'), ('abc'):match('()b()'), ('  x '):match('^%s*(.-)%s*$'), ('f(a(b)c)'):match('%b()'), ('THE (quick) fox'):find('%f[%a]%a+%f[%A]')}
--- gmatch
local r = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do r[#r + 1] = k .. v end for w in string.gfind('one two', '%a+') do r[#r + 1] = w end return r
--- gsub
local a, n = ('hello world'):gsub('o', '0') return {a, n, (('abc'):gsub('%w', '%0%0')), (('abc'):gsub('', '-')), (('hello'):gsub('l', {l = 'L'})), (('hello'):gsub('(h)(e)', '%2%1')), (('abc'):gsub('b', function(c) return nil end)), (('abc def'):gsub('%w+', string.upper)), (('abc'):gsub('.', '%%')), (('aaa'):gsub('a', 'b', 2)), (('x'):gsub('^x', 'y'))}
--- gsub with what it cannot take
return ('abc'):gsub('b', function() return {} end)
--- gsub with a bad capture
return ('abc'):gsub('b', '%2')
--- malformed patterns
return {pcall(string.find, 'a', '['), pcall(string.find, 'a', '%'), pcall(string.find, 'a', '(a'), pcall(string.find, 'a', 'a)'), pcall(string.find, 'a', '%1'), pcall(string.find, 'a', '%b'), pcall(string.find, 'a', '%f')}
--- format
return {string.format('%d %5d %-5d| %05d %+d', 42, 42, 42, 42, 42), string.format('%5.2f %e %g %G', 3.14159, 12345.678, 0.0001, 1e20), string.format('%x %X %#x %o', 255, 255, 255, 8), string.format('%s %10s %-10s| %.2s', 'a', 'b', 'c', 'defg'), string.format('%q', 'a "q" \n \\ \0'), string.format('%c%c', 72, 105), string.format('%%'), string.format('%i', 3.9), string.format('%u', 5), string.format('%5s|%5s', true and 'x', 1)}
--- format with what is wrong
return {pcall(string.format, '%y', 1), pcall(string.format, '%d', 'x'), pcall(string.format, '%d'), pcall(string.format, '%123d', 1), pcall(string.format, '%s', nil)}
--- tables
local t = {3, 1, 2} table.sort(t) local u = {'b', 'a'} table.sort(u, function(a, b) return a > b end) table.insert(t, 4) table.insert(t, 1, 0) local r = table.remove(t) local q = table.remove(t, 1) return {table.concat(t, ','), table.concat(u), r, q, table.concat({}, 'x'), table.concat({1, 2, 3}, '-', 2, 3), #t, tostring(table.remove({}))}
--- a sort of many
local t = {} local x = 17 for i = 1, 100 do x = (x * 37 + 11) % 101 t[i] = {x % 10, i} end table.sort(t, function(a, b) return a[1] < b[1] end) local r = {} for i = 1, 100 do r[i] = t[i][1] .. ':' .. t[i][2] end return r
--- a sort that cannot be
return {pcall(table.sort, {1, 'x', 2}), pcall(table.sort, {3, 2, 1, 4, 5}, function() return true end)}
--- concat of what is no text
return table.concat({1, {}, 3})
--- foreach
local r = {} table.foreach({a = 1}, function(k, v) r[#r + 1] = k .. v end) table.foreachi({5, 6}, function(i, v) r[#r + 1] = i .. '=' .. v end) return {r, table.foreachi({1, 2}, function(i) if i == 2 then return 'stop' end end)}
--- next
local k, v = next({10}) return {k, v, tostring(next({})), pcall(next, {}, 'x')}
--- ipairs ends at nil
local n = 0 for i, v in ipairs({1, 2, nil, 4}) do n = n + v end return n
--- select
return {select('#'), select('#', nil, nil), select(2, 'a', 'b', 'c'), (select(-1, 'a', 'b')), pcall(select, 0)}
--- unpack
return {unpack({1, 2, 3}, 2), (unpack({1, 2}, 1, 1)), pcall(unpack, {}, 1, 1e8)}
--- assert
return {pcall(assert, false), pcall(assert, nil, 'msg'), assert(1, 2)}
--- assert in a script
assert(false)
--- assert with a message
assert(1 == 2, 'they differ')
--- xpcall
return {xpcall(function() error('q') end, function(e) return e .. '!' end)}
--- pcall within pcall
return {pcall(pcall, error, 'x')}
--- loadstring
return {loadstring('return 1 + 1')(), (select(2, loadstring('x ='))), pcall(loadstring('error("in")', '=name')), (select(2, loadstring('return return', '@file')))}
--- load
local parts = {'return ', '1', '+1', nil} local i = 0 return load(function() i = i + 1 return parts[i] end)()
--- coroutines
local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) local d = coroutine.yield(c * 2) return 'end', d end) return {coroutine.resume(co, 1, 2), select(2, coroutine.resume(co, 10)), coroutine.status(co), select(2, coroutine.resume(co, 'x')), coroutine.status(co), coroutine.resume(co)}
--- wrap
local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return {gen(), gen(), gen(), tostring(gen()), pcall(gen)}
--- an error in a coroutine
local co = coroutine.create(function() error('oops') end) return {coroutine.resume(co), coroutine.status(co)}
--- an error in a wrapped one
local f = coroutine.wrap(function() error('oops') end) f()
--- yield outside
coroutine.yield(1)
--- a command in a coroutine
return coroutine.wrap(function() redis.call('set', KEYS[1], 'v') coroutine.yield(redis.call('get', KEYS[1])) end)()
--- commands in callbacks
redis.call('rpush', KEYS[1], 3, 1, 2) local l = redis.call('lrange', KEYS[1], 0, -1) table.sort(l, function(a, b) redis.call('incr', KEYS[2]) return tonumber(a) < tonumber(b) end) local s = ('abc'):gsub('.', function(c) return redis.call('append', 'k3', c) end) return {l, s, redis.call('exists', KEYS[2])}
--- commands in metamethods
local t = setmetatable({}, {__index = function(_, k) return redis.call('get', k) end, __newindex = function(_, k, v) redis.call('set', k, v) end}) t.foo = 'bar' return t.foo
--- a fixed seed
return {math.random(1, 100), math.random(1, 100), math.random(10), tostring(math.random())}
--- a seed of its own
math.randomseed(42) return {math.random(1000), math.random(1000), pcall(math.random, 0), pcall(math.random, 2, 1)}
--- mathematics
return {tostring(math.floor(-1.5)), tostring(math.ceil(1.2)), tostring(math.abs(-3)), tostring(math.max(1, 5, 3)), tostring(math.min(4, 2)), tostring(math.sqrt(2)), tostring(math.pi), tostring(math.fmod(-7, 3)), tostring(math.mod(7, 3)), tostring(math.pow(2, 10)), tostring(math.exp(1)), tostring(math.log(10)), tostring(math.log10(1000)), tostring(math.sin(1)), tostring(math.cos(1)), tostring(math.tan(1)), tostring(math.atan2(1, 2)), tostring(math.deg(1)), tostring(math.rad(90)), tostring(math.ldexp(0.5, 3)), tostring(math.huge)}
--- mathematics of two results
return {tostring((math.modf(3.7))), tostring((select(2, math.modf(3.75)))), tostring((math.modf(-3.7))), tostring((math.frexp(10))), (select(2, math.frexp(10)))}
--- bits
return {bit.band(0xff, 0x0f), bit.bor(1, 2, 4), bit.bxor(5, 3), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.rol(0x12345678, 8), bit.ror(0x12345678, 8), bit.bswap(0x12345678), bit.tobit(2^32 + 5), bit.tobit(-1.5), bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -4), bit.tohex(-1, 100)}
--- cjson writes
return {cjson.encode({1, 2, 3}), cjson.encode({a = 1}), cjson.encode({}), cjson.encode('a"b\\c/d\n\t\1\127é'), cjson.encode(1.5), cjson.encode(1e20), cjson.encode(true), cjson.encode(cjson.null), cjson.encode({[1] = 'a', [3] = 'c'}), cjson.encode({{}, {{}}}), cjson.encode({a = {b = {c = 1}}}), cjson.encode(nil)}
--- cjson writes objects in the order of pairs
return cjson.encode({id = 1, name = 'x', email = 'y', tags = {'a', 'b'}, attempts = 0, payload = {k = 'v', n = 2}, created = 12345})
--- cjson does not write everything
return {pcall(cjson.encode, {[100] = 1}), pcall(cjson.encode, print and 1 or function() end), pcall(cjson.encode, 0/0), pcall(cjson.encode, {[true] = 1}), pcall(cjson.encode), pcall(cjson.encode, 1, 2)}
--- cjson reads
local t = cjson.decode('{"a":[1,2,{"b":null}],"c":"x\\u00e9\\ud83d\\ude00\\n","d":1.5e3,"e":true,"f":-0.5}') return {t.a[1], t.a[2], tostring(t.a[3].b), t.c, t.d, tostring(t.e), tostring(t.f), type(t.a[3].b)}
--- cjson does not read everything
return {pcall(cjson.decode, ''), pcall(cjson.decode, '{'), pcall(cjson.decode, '[1,'), pcall(cjson.decode, '[1 2]'), pcall(cjson.decode, '{"a" 1}'), pcall(cjson.decode, '{1:2}'), pcall(cjson.decode, 'nul'), pcall(cjson.decode, '"\\x"'), pcall(cjson.decode, '"abc'), pcall(cjson.decode, '"\\ud800"'), pcall(cjson.decode, '[1] x'), pcall(cjson.decode, '-'), pcall(cjson.decode, '\0\0')}
--- cjson reads odd numbers
return {tostring(cjson.decode('0x10')), tostring(cjson.decode('inf')), tostring(cjson.decode('[+1]')[1]), tostring(cjson.decode('01')), tostring(cjson.decode('1.'))}
--- cjson there and back
local j = cjson.decode('{"uuid":"a-b","displayName":"Job","data":{"command":"x"},"attempts":0}') j.attempts = j.attempts + 1 return cjson.encode(j)
--- cjson's settings
return {pcall(cjson.encode_max_depth, 0), cjson.encode_max_depth(), cjson.decode_max_depth(), tostring(cjson.encode_keep_buffer()), tostring(cjson.encode_invalid_numbers()), cjson.encode_number_precision(), {cjson.encode_sparse_array()}}
--- cmsgpack writes
local out = {} for _, v in ipairs({1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, -1, -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, 1.5, 0.1, 1e300, true, false, '', 'abc', ('x'):rep(31), ('x'):rep(32), ('x'):rep(300), {}, {1, 2, 3}, {a = 1}, {1, 2, x = 3}, {[2] = 1}}) do out[#out + 1] = cmsgpack.pack(v) end out[#out + 1] = cmsgpack.pack(nil, 1) return out
--- cmsgpack writes what is nested
local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)
--- cmsgpack reads
return {cmsgpack.unpack(cmsgpack.pack(1, 'a', true, {1, {2}}, -5, 1.5)), cmsgpack.unpack('\207\255\255\255\255\255\255\255\255') > 1e19}
--- cmsgpack reads some
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3)), cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 2), cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2), cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 5, 1)}
--- cmsgpack does not read everything
return {pcall(cmsgpack.unpack, '\193'), pcall(cmsgpack.unpack, '\220'), pcall(cmsgpack.unpack, '\165ab'), pcall(cmsgpack.unpack_one, 'a', -1), pcall(cmsgpack.unpack_one, 'a', 9), pcall(cmsgpack.pack), cmsgpack.unpack('')}
--- struct writes
return {struct.pack('b', 1), struct.pack('>I4', 258), struct.pack('<i2', -2), struct.pack('>l', 2^40), struct.pack('d', 1.5), struct.pack('>f', 1.5), struct.pack('s', 'abc'), struct.pack('c2', 'abc'), struct.pack('c0', 'abc'), struct.pack('bxh', 1, 2), struct.pack('!4bi', 1, 2), struct.pack('>!bi', 1, 2), struct.pack('I8', 2^53), struct.pack('i16', -1), struct.pack('H', 65535)}
--- struct reads
return {struct.unpack('>I4', '\0\0\1\2'), struct.unpack('<i2', '\254\255'), struct.unpack('bc0', '\3abcde'), struct.unpack('s', 'abc\0def'), struct.unpack('b', 'abc', 2), struct.unpack('>d', struct.pack('>d', 1.5)), struct.unpack('>LL', struct.pack('>LL', 5, 6)), struct.size('bih'), struct.size('!8bl'), struct.size('c10')}
--- struct as Redisson uses it
local v = struct.pack('dLc0', 12345.5, 5, 'hello') local t, n, s = struct.unpack('dLc0', v) return {tostring(t), s, #v}
--- struct does not take everything
return {pcall(struct.pack, 'z', 1), pcall(struct.unpack, 'I4', 'ab'), pcall(struct.pack, 'i33', 1), pcall(struct.pack, '!3i', 1), pcall(struct.unpack, 's', 'abc'), pcall(struct.unpack, 'c0', 'abc'), pcall(struct.pack, 'i99999999999', 1), pcall(struct.unpack, 'b', 'a', 0), pcall(struct.pack, 'c5', 'abc'), pcall(struct.pack, 'i')}
--- sha1hex
return {redis.sha1hex(''), redis.sha1hex('abc'), redis.sha1hex(1.5), pcall(redis.sha1hex), pcall(redis.sha1hex, 1, 2)}
--- what redis.log refuses
return {pcall(redis.log), pcall(redis.log, 1), pcall(redis.log, 'x', 'y'), pcall(redis.log, 9, 'y'), pcall(redis.log, 1, 'fine')}
--- what set_repl and setresp refuse
return {pcall(redis.set_repl), pcall(redis.set_repl, 9), redis.set_repl(redis.REPL_ALL), pcall(redis.setresp), pcall(redis.setresp, 4), tostring(redis.replicate_commands()), tostring(redis.breakpoint())}
--- acl_check_cmd
return {tostring(redis.acl_check_cmd('get', 'x')), pcall(redis.acl_check_cmd)}
--- KEYS and ARGV
KEYS[3] = 'more' return {#KEYS, KEYS[1], ARGV[1], ARGV[3], #ARGV, type(ARGV[2])}
--- a rate limiter
local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) end if n > tonumber(ARGV[1]) then return {0, redis.call('TTL', KEYS[1])} end return {1, tonumber(ARGV[1]) - n}
--- a lock that is let go
redis.call('set', KEYS[1], ARGV[3]) if redis.call('get', KEYS[1]) == ARGV[3] then return redis.call('del', KEYS[1]) else return 0 end
--- a queue with a delay
redis.call('zadd', KEYS[1], 1, '{"id":1}', 5, '{"id":2}') local due = redis.call('zrangebyscore', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 10) if #due > 0 then redis.call('zrem', KEYS[1], unpack(due)) redis.call('rpush', KEYS[2], unpack(due)) end return {#due, redis.call('lrange', KEYS[2], 0, -1), redis.call('zcard', KEYS[1])}
--- a semaphore
local now = 100 redis.call('zremrangebyscore', KEYS[1], '-inf', now - tonumber(ARGV[2])) if redis.call('zcard', KEYS[1]) < tonumber(ARGV[1]) then redis.call('zadd', KEYS[1], now, ARGV[3]) return 1 end return 0
--- a hash as an object
local function toTable(flat) local t = {} for i = 1, #flat, 2 do t[flat[i]] = flat[i + 1] end return t end redis.call('hset', KEYS[1], 'name', 'x', 'age', '5') local o = toTable(redis.call('hgetall', KEYS[1])) return {o.name, o.age + 1}
--- lines of messages are those of the script
local a = 1

local b = nil
return a + b
--- line of a call over several lines
local t = {}
t.f(
  1,
  2
)
--- an error below several calls
local function a() error('here') end
local function b() a() end
b()
--- an error in a tail call
local function a() error('here', 2) end
local function b() return a() end
b()
--- an error with a level that is not there
error('far', 9)
--- a string with everything
return 'a\065\10\n\tb\'"\\' .. [[
long]] .. [==[a]]b]==]
--- comments
return 1 --[[ a long
comment ]] + 2 -- and a short one
--- semicolons and blocks
do local x = 1; do local x = 2; end; return x; end
--- a goto is a name
local goto = 1 return goto
--- an empty script

--- deep recursion that ends
local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(5000)
--- tail calls do not count
local function f(n) if n == 0 then return 'end' end return f(n - 1) end return f(100000)
--- deep recursion that does not
local function f() return 1 + f() end return f()
--- a readonly table as an argument
return {pcall(table.insert, redis, 1), pcall(table.sort, redis), pcall(table.remove, string)}
--- rawget, rawset, rawequal
local t = setmetatable({}, {__index = function() return 1 end}) rawset(t, 'a', 2) return {tostring(rawget(t, 'x')), t.x, t.a, tostring(rawequal(t, t)), tostring(rawequal('a', 'a')), pcall(rawset, t, nil, 1)}
--- keys that cannot be
local t = {} return {pcall(function() t[nil] = 1 end), pcall(function() t[0/0] = 1 end), tostring(t[nil])}
--- NaN
local n = 0/0 return {tostring(n == n), tostring(n ~= n), tostring(n < n), tostring(-n)}
