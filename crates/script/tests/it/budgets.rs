//! Instructions and memory: what is given is not exceeded, and what is counted is exact.

use std::time::{Duration, Instant};

use script::{Interpreter as _, Lua, Reply, Run as _, RunLimits, ScriptInput, ScriptStop};

const MEBIBYTE: usize = 1 << 20;

fn step_of(source: &str, memory_bytes: usize, budget: u64) -> (ScriptStop, u64, usize) {
    let mut lua = Lua::new();
    let chunk = lua.compile(source.as_bytes()).expect("the test's script is one");
    let mut run = lua.start(&chunk, ScriptInput::default(), RunLimits { memory_bytes });
    let step = run.resume(budget);
    (step, run.instructions(), run.memory_bytes())
}

#[test]
fn a_budget_is_used_to_the_last_instruction() {
    for budget in [1, 2, 10, 1_000, 12_345] {
        let (step, used, _) = step_of("while true do end", MEBIBYTE, budget);
        assert_eq!((step, used), (ScriptStop::Yielded, budget));
    }
}

#[test]
fn instructions_are_counted_exactly() {
    // LOADK, three of FORPREP's, FORPREP, and for each round the body and FORLOOP; the call, and the return.
    let (step, empty, _) = step_of("for i = 1, 0 do end", MEBIBYTE, 1_000_000);
    assert_eq!(step, ScriptStop::Finished(Reply::Null));
    let (_, hundred, _) = step_of("for i = 1, 100 do end", MEBIBYTE, 1_000_000);
    assert_eq!(hundred, empty + 100);
    let (_, added, _) = step_of("local n = 0 for i = 1, 100 do n = n + i end", MEBIBYTE, 1_000_000);
    assert_eq!(added, empty + 201);
}

#[test]
fn no_script_has_more_memory_than_it_may() {
    for source in [
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "return string.rep('xxxxxxxxxxxxxxxx', 2^31 - 1)",
        "local t = {} for i = 1, 1e9 do t[i] = function() return t end end",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
        "local function f(...) return f(1, ...) end f()",
        "local function f() return f() + 1 end f()",
        "local t = {} for i = 1, 7999 do t[i] = i end local function f(...) return f(unpack(t)) + 1 end return f()",
        "local t = {} while true do t = {t} end",
        "local s = string.rep('x', 1e5) return (s:gsub('.', s))",
        "local s = string.rep('a', 1e5) local t = {} for i = 1, 1e4 do t[i] = s end return table.concat(t)",
        "return string.format(string.rep('%99d', 1e5), unpack({1}))",
        "local t = {} for i = 1, 1e5 do t[i] = 'x' .. i end return cjson.encode({t, t, t, t, t, t, t, t})",
        "local t = {} for i = 1, 1e9 do t[i] = loadstring('return ' .. i) end",
        "local co = coroutine.wrap(function() local t = {} while true do t[#t + 1] = {} end end) co()",
        "return load(function() return 'x = 1 ' end)",
        "return struct.pack('c0', string.rep('x', 6e5)) .. struct.pack('s', string.rep('y', 6e5))",
        "return cmsgpack.pack(string.rep('x', 6e5), string.rep('y', 6e5))",
        "for i = 1, 1e9 do redis.log(3, string.rep('x', 16000)) end",
        "for i = 1, 1e9 do table.insert(KEYS, i) end",
    ] {
        let limit = 2 * MEBIBYTE;
        let mut lua = Lua::new();
        let chunk = lua.compile(source.as_bytes()).unwrap();
        let mut run = lua.start(&chunk, ScriptInput::default(), RunLimits { memory_bytes: limit });
        let mut step = ScriptStop::Yielded;
        let mut rounds = 0;
        while step == ScriptStop::Yielded && rounds < 3_000 {
            step = run.resume(100_000);
            assert!(run.memory_bytes() <= limit, "{source}");
            rounds += 1;
        }
        assert_ne!(step, ScriptStop::Yielded, "{source}");
        if let ScriptStop::Failed(failure) = &step {
            let is_stack = failure.message.windows(14).any(|part| part == b"stack overflow");
            let is_argument = failure.message.windows(12).any(|part| part == b"bad argument");
            assert!(
                failure.is_out_of_memory || is_stack || is_argument,
                "{source}: {step:?}"
            );
        }
    }
}

#[test]
fn garbage_is_no_memory() {
    for source in [
        "local s = 0 for i = 1, 200000 do local t = {i, {i}} s = s + t[2][1] end return s > 0",
        "for i = 1, 100000 do local s = 'x' .. i end return true",
        "for i = 1, 100000 do local f = function() return i end end return true",
        "local t = {} for i = 1, 200000 do t[i % 100 + 1] = {i, 'x' .. i} end return #t == 100",
        "for i = 1, 3000 do local c = coroutine.wrap(function() coroutine.yield(1) end) c() end return true",
        "local a = {} for i = 1, 50000 do local b = {} a.next = b b.own = b a = b end return true",
        "for i = 1, 20 do local s = string.rep('x', 300000 + i) end return true",
        "local n = 0 for w in string.gmatch(string.rep('word ', 20000), '%a+') do n = n + #(w .. n) end return n > 0",
        "local s = string.gsub(string.rep('ab', 20000), 'a', string.upper) return #s == 40000",
        "for i = 1, 2000 do local t = cjson.decode('{\"a\":[1,2,3,{\"b\":\"c\"}]}') end return true",
        "local t = {} for i = 1, 30000 do t[i] = i .. 'x' end table.sort(t, function(a, b) return a .. '' < b .. '' end) return true",
    ] {
        let mut lua = Lua::new();
        let chunk = lua.compile(source.as_bytes()).unwrap();
        let limits = RunLimits {
            memory_bytes: 4 * MEBIBYTE,
        };
        let mut run = lua.start(&chunk, ScriptInput::default(), limits);
        let mut step = run.resume(10_000);
        while step == ScriptStop::Yielded {
            step = run.resume(10_000);
        }
        assert_eq!(step, ScriptStop::Finished(Reply::Integer(1)), "{source}");
    }
}

/// What the collector must not take: everything is looked at again after much else was made.
#[test]
fn what_is_in_use_is_not_collected() {
    let source = "
        local keep = {}
        for i = 1, 300 do
            local captured = 'captured' .. i
            keep[i] = {
                text = 'text' .. i,
                ['key' .. i] = {i},
                get = function() return captured end,
                set = function(x) captured = x end,
                co = coroutine.wrap(function(a) local own = 'own' .. a while true do own = own .. coroutine.yield(own) end end),
                iterator = string.gmatch('one' .. i .. ' two' .. i, '%w+'),
                meta = setmetatable({}, {__index = function(_, k) return k .. i end}),
                lent = coroutine.wrap(function() local own = 'lent' .. i coroutine.yield(function() return own end) end)(),
            }
            keep[i].co(i)
        end
        for round = 1, 20 do
            for i = 1, 3000 do local junk = {'junk' .. i, {i}, function() return i end} end
            for i = 1, 300 do
                local k = keep[i]
                assert(k.text == 'text' .. i)
                assert(k['key' .. i][1] == i)
                assert(k.get() == (round == 1 and 'captured' or 'again' .. (round - 1) .. '/') .. i)
                k.set('again' .. round .. '/' .. i)
                if round < 5 then assert(k.co('.') == 'own' .. i .. ('.'):rep(round)) end
                if round < 3 then assert(k.iterator() == (round == 1 and 'one' or 'two') .. i) end
                assert(k.meta.x == 'x' .. i)
                assert(k.lent() == 'lent' .. i)
            end
        end
        return true";
    let mut lua = Lua::new();
    let chunk = lua.compile(source.as_bytes()).unwrap();
    for budget in [7, 1_000, 100_000] {
        let limits = RunLimits {
            memory_bytes: 3 * MEBIBYTE,
        };
        let mut run = lua.start(&chunk, ScriptInput::default(), limits);
        let mut step = run.resume(budget);
        while step == ScriptStop::Yielded {
            step = run.resume(budget);
        }
        assert_eq!(
            step,
            ScriptStop::Finished(Reply::Integer(1)),
            "with a budget of {budget}"
        );
        lua.recycle(run);
    }
}

/// What one instruction does may be as much as its operands are long.
#[test]
fn long_operands_and_empty_places_cost_more() {
    for (short, long, work) in [
        // Characters, and what each costs, in parts of an instruction.
        (
            "local s = ('a'):rep(10) local u = s .. '' for i = 1, 100 do local is = s <= u end",
            "local s = ('a'):rep(100000) local u = s .. 'b' for i = 1, 100 do local is = s <= u end",
            100 * 100_000 / 64,
        ),
        (
            "local s = ('a'):rep(10) local u = s .. '' for i = 1, 100 do local is = s < u end",
            "local s = ('a'):rep(100000) local u = s .. 'b' for i = 1, 100 do local is = s < u end",
            100 * 100_000 / 64,
        ),
        (
            "local s = ('9'):rep(10) for i = 1, 100 do tonumber(s) end",
            "local s = ('9'):rep(100000) for i = 1, 100 do tonumber(s) end",
            100 * 100_000 / 4,
        ),
        (
            "local s = ('9'):rep(10) for i = 1, 100 do local n = s + 1 end",
            "local s = ('9'):rep(100000) for i = 1, 100 do local n = s + 1 end",
            100 * 100_000 / 4,
        ),
        (
            "local s = ('9'):rep(10) for i = 1, 100 do math.floor(s) end",
            "local s = ('9'):rep(100000) for i = 1, 100 do math.floor(s) end",
            100 * 100_000 / 4,
        ),
        (
            "local t = {} for i = 1, 30000 do t[i] = i end for i = 1, 100 do next(t) end",
            "local t = {} for i = 1, 15000 do t[i] = i end for i = 1, 15000 do t[i] = nil end for i = 1, 100 do next(t) end",
            100 * 15_000 / 8,
        ),
        (
            "local t = {} for i = 1, 100 do t[i] = 'a' end table.sort(t)",
            "local t = {} for i = 1, 100 do t[i] = ('a'):rep(100000) .. i end table.sort(t)",
            500 * 100_000 / 64,
        ),
    ] {
        let used = |source: &str| {
            let (step, used, _) = step_of(source, 64 * MEBIBYTE, 1 << 40);
            assert_eq!(step, ScriptStop::Finished(Reply::Null), "{source}");
            used
        };
        let (short, whole) = (used(short), used(long));
        assert!(whole >= short + work * 9 / 10, "{long}: {short}, {whole}");
    }
}

/// A function of the library that has much to do gives way too. The bound is generous: the machine may be busy, and tests are not optimised.
#[test]
fn no_slice_takes_long() {
    for source in [
        "local s = string.rep('a', 100000) return string.find(s, '.-b')",
        "local s = string.rep('a', 30000) return string.find(s, '.-.-.-b')",
        "local s = string.rep('a', 300000) return string.gsub(s, 'a', 'b')",
        "local t = {} for i = 1, 50000 do t[i] = (i * 7919) % 50021 end table.sort(t)",
        "local s = string.rep('a', 100000) return string.gsub(s, '.', string.upper)",
        "local t = {} for i = 1, 100000 do t[i] = {} end",
        "local f = function() end for i = 1, 100000 do pcall(f) end",
        "local s = string.rep('9', 200000) while true do tonumber(s) end",
        "local s = string.rep('9', 100000) while true do local n = s + 1 end",
        "local s = string.rep('a', 4000000) local u = s .. '' while s <= u do end",
        "local t = {} for i = 1, 300000 do t[i] = i end for i = 1, 300000 do t[i] = nil end while true do next(t) end",
    ] {
        let mut lua = Lua::new();
        let chunk = lua.compile(source.as_bytes()).unwrap();
        let limits = RunLimits {
            memory_bytes: 32 * MEBIBYTE,
        };
        let mut run = lua.start(&chunk, ScriptInput::default(), limits);
        let mut longest = Duration::ZERO;
        for _ in 0..500 {
            let begun = Instant::now();
            let step = run.resume(10_000);
            longest = longest.max(begun.elapsed());
            if step != ScriptStop::Yielded {
                break;
            }
        }
        assert!(longest < Duration::from_secs(2), "{source}: {longest:?}");
    }
}
