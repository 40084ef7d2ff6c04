//! The classes of mistakes that interpreters of Redis and its kin have had, each with scripts of its kind.
//!
//! None of them ends this process, leaves the sandbox, or is read as anything that it is not.

use crate::host::{evaluate, text};
use script::Reply;

fn is_error(source: &str, part: &str) {
    let Reply::Error(message) = evaluate(source) else {
        panic!("{source}: no error");
    };
    let message = String::from_utf8_lossy(&message);
    assert!(message.contains(part), "{source}: {message}");
}

/// CVE-2015-4335: bytecode that nobody has checked.
#[test]
fn bytecode_is_not_loaded() {
    assert_eq!(
        text("return tostring((loadstring('\\27Lua' .. string.rep('\\0', 100))))"),
        "nil"
    );
    assert!(text("return tostring((load(function() return nil end)))").contains("function"));
    is_error("return string.dump(function() end)", "unable to dump");
    let source = "local n = 0 return tostring((load(function() n = n + 1 return n == 1 and '\\27Lua\\81\\0\\1\\4\\8' or nil end)))";
    assert_eq!(text(source), "nil");
    is_error("\u{1b}Lua", "unexpected symbol");
}

/// CVE-2022-0543: a library that should not be there.
#[test]
fn nothing_reaches_outside() {
    for name in [
        "package", "io", "require", "module", "dofile", "loadfile", "debug", "print", "newproxy", "getfenv",
        "setfenv", "loadlib", "jit", "ffi",
    ] {
        is_error(&format!("return {name}"), "nonexistent global variable");
    }
    assert_eq!(
        text("local n = 0 for k in pairs(os) do n = n + 1 end return tostring(n)"),
        "1"
    );
}

/// CVE-2020-14147, and CVE-2018-11219 before it: sizes that overflow in `struct`.
#[test]
fn struct_takes_no_size_for_granted() {
    for source in [
        "return struct.pack('>I2147483648', 10)",
        "return struct.pack('i2147483647', 10)",
        "return struct.unpack('c2147483647', 'x')",
        "return struct.unpack('bc0', '\\255x')",
        "return struct.unpack('dc0', struct.pack('d', -1) .. 'x')",
        "return struct.unpack('dc0', struct.pack('d', 1e300) .. 'x')",
        "return struct.unpack('dc0', struct.pack('d', 0/0) .. '')",
        "return struct.unpack('i', 'xxxx', 2147483647)",
        "return struct.unpack('b', 'x', -1)",
        "return struct.unpack('!2147483648b', 'x')",
        "return struct.pack('!0b', 1)",
        "return struct.size('c2147483647c2147483647c2147483647')",
        "return struct.unpack(string.rep('b', 9000), string.rep('x', 9000))",
        "return struct.pack(string.rep('i32', 1000), 1)",
        "return struct.unpack('i0', 'x')",
        "return struct.unpack('I32', string.rep('\\255', 32))",
    ] {
        evaluate(source);
    }
    is_error("return struct.pack('>I2147483648', 10)", "overflow");
    is_error("return struct.unpack('c2147483647', 'x')", "too short");
}

/// CVE-2022-24834 and CVE-2018-11218: depth and length in `cjson` and `cmsgpack`.
#[test]
fn nesting_in_cjson_and_cmsgpack_ends() {
    is_error("return cjson.decode(string.rep('[', 100000))", "too many nested");
    is_error(
        "return cjson.decode(string.rep('{\"a\":', 100000))",
        "too many nested",
    );
    is_error(
        "cjson.decode_max_depth(2147483647) return cjson.decode(string.rep('[', 100000))",
        "too many nested",
    );
    is_error("local t = {} t[1] = t return cjson.encode(t)", "excessive depth");
    is_error(
        "cjson.encode_max_depth(2147483647) local t = {} t[1] = t return cjson.encode(t)",
        "excessive depth",
    );
    is_error(
        "local t = {} t.t = t cjson.encode_sparse_array(true, 0, 0) return cjson.encode(t)",
        "excessive depth",
    );
    is_error(
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
        "stack overflow",
    );
    is_error(
        "return cmsgpack.unpack(string.rep('\\129\\1', 100000))",
        "stack overflow",
    );
    is_error(
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "Missing bytes",
    );
    is_error(
        "return cmsgpack.unpack('\\223\\255\\255\\255\\255')",
        "Missing bytes",
    );
    is_error(
        "return cmsgpack.unpack('\\219\\255\\255\\255\\255x')",
        "Missing bytes",
    );
    is_error(
        "return cmsgpack.unpack(string.rep('\\1', 10000))",
        "stack overflow",
    );
    assert_eq!(
        text("local t = {} t[1] = t return tostring(#cmsgpack.pack(t))"),
        "17"
    );
    assert_eq!(
        text("return tostring(#cjson.encode(string.rep('\\1', 100000)))"),
        "600002"
    );
}

/// CVE-2024-31449: the number of digits of `bit.tohex`.
#[test]
fn tohex_gives_eight_digits_at_most() {
    assert_eq!(text("return bit.tohex(65535, -2147483648)"), "0000FFFF");
    assert_eq!(text("return bit.tohex(65535, 2147483647)"), "0000ffff");
    assert_eq!(text("return bit.tohex(65535, 0)"), "");
}

/// CVE-2014-5461 and CVE-2021-32626: the stack of Lua.
#[test]
fn the_stack_has_an_end() {
    is_error(
        "local function f(...) return f(1, 1, 1, ...) + 1 end return f()",
        "",
    );
    is_error("return unpack({}, 1, 1e7)", "too many results");
    is_error("return string.byte(string.rep('x', 100000), 1, -1)", "too long");
    is_error(
        "local function f() return f() + 1 end return f()",
        "stack overflow",
    );
    is_error(
        "local function f() local t = setmetatable({}, {__index = f}) return t.x end return f()",
        "",
    );
    is_error(
        "local function f() return (string.gsub('x', 'x', f)) end return f()",
        "stack overflow",
    );
    is_error(
        "local t = {} t = setmetatable(t, {__index = function(t, k) return t[k] end}) return t.x",
        "stack overflow",
    );
    is_error(
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "loop in gettable",
    );
    is_error(
        "local t = setmetatable({}, {}) getmetatable(t).__newindex = t t.x = 1",
        "loop in settable",
    );
    is_error(
        "local f f = coroutine.wrap(function() coroutine.wrap(f)() end) local function g() coroutine.wrap(g)() end g()",
        "stack overflow",
    );
    // A function with many parameters without a name, and one with many with.
    assert_eq!(
        text("local t = {} for i = 1, 7000 do t[i] = i end return tostring(select('#', unpack(t)))"),
        "7000"
    );
    // More pcall within each other than C has room for.
    is_error(
        "local function f(n) local ok, e = pcall(f, n + 1) if not ok then error(e, 0) end end f(1)",
        "stack overflow",
    );
    let nested = format!("return {}1", "pcall, ".repeat(200));
    evaluate(&format!("return pcall({}error, 'x')", "pcall, ".repeat(200)));
    evaluate(&nested);
}

/// CVE-2022-24735 and CVE-2025-46818: what one script leaves for another.
#[test]
fn nothing_that_is_shared_can_be_changed() {
    for source in [
        "string.rep = nil",
        "getmetatable('').__index = nil",
        "getmetatable('').__add = function() end",
        "setmetatable(getmetatable(''), {})",
        "getmetatable(_G).__index = nil",
        "setmetatable(getmetatable(_G), {})",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'x', 1)",
        "redis.call = nil",
        "cjson.null = 1",
        "_G._G = nil",
        "table.insert(table, 1)",
        "table.sort(redis)",
        "table.remove(cjson)",
        "setmetatable(cjson, {})",
        "KEYS = {}",
        "os.clock = nil",
        "coroutine.wrap = nil",
        "bit.band = nil",
        "math.random = nil",
        "local t = setmetatable({}, {__newindex = string}) t.rep = nil",
    ] {
        let reply = evaluate(source);
        let Reply::Error(message) = &reply else {
            // `sort` and `remove` of a table without an array part have nothing to change.
            continue;
        };
        let message = String::from_utf8_lossy(message);
        assert!(
            message.contains("readonly") || message.contains("nonexistent"),
            "{source}: {message}"
        );
    }
    is_error("string.rep = nil", "readonly");
    is_error("setmetatable(getmetatable(''), {})", "readonly");
    is_error(
        "local t = setmetatable({}, {__newindex = string}) t.rep = nil",
        "readonly",
    );
    is_error("math.random = nil", "readonly");
}

/// CVE-2022-24736: a reply or an error that is nothing.
#[test]
fn errors_may_be_anything() {
    for source in [
        "error()",
        "error(nil)",
        "error({})",
        "error({1})",
        "error({err = 1})",
        "error({err = {}})",
        "error(true)",
        "error(function() end)",
        "error(setmetatable({}, {__index = function() error('again') end}))",
        "error(setmetatable({}, {__tostring = function() error('again') end}))",
        "error(cjson.null)",
        "coroutine.wrap(function() error({}) end)()",
        "xpcall(error, error)",
        "xpcall(error, function() error('again') end) error('x')",
        "return redis.error_reply('')",
        "return {err = ''}",
        "return {ok = 'a\\r\\n+b'}",
        "return {err = 'a\\r\\n-b'}",
    ] {
        evaluate(source);
    }
    is_error("error({1})", "ERR unknown error");
    assert_eq!(
        evaluate("return {ok = 'a\\r\\nb'}"),
        Reply::Status(b"a  b".to_vec())
    );
}

/// CVE-2024-46981: a collector that runs while something is still in use.
#[test]
fn a_heap_that_goes_away_takes_all_of_it() {
    use script::{Interpreter as _, Lua, Run as _, ScriptInput, ScriptStop};
    let source = b"local t = {} for i = 1, 1e9 do t[i % 1000 + 1] = {coroutine.wrap(function() coroutine.yield(t) end), 'x' .. i} t[i % 1000 + 1][1]() end";
    let mut lua = Lua::new();
    let chunk = lua.compile(source).unwrap();
    for budget in (1..200).map(|n| n * 331) {
        let mut run = lua.start(&chunk, ScriptInput::default(), crate::host::LIMITS);
        assert_eq!(run.resume(budget), ScriptStop::Yielded);
        if budget % 2 == 0 {
            lua.recycle(run);
        }
    }
}

/// CVE-2025-49844: names and code while the parser still needs them.
#[test]
fn the_parser_takes_any_source() {
    for source in [
        "return loadstring(string.rep('x', 1e6) .. ' = 1')",
        "return loadstring('return ' .. string.rep('(', 10000))",
        "return loadstring('return ' .. string.rep('{', 10000))",
        "return loadstring('return ' .. string.rep('-', 10000) .. '1')",
        "return loadstring('return ' .. string.rep('not ', 10000) .. '1')",
        "return loadstring(string.rep('do ', 10000))",
        "return loadstring(string.rep('function f() ', 10000))",
        "return loadstring('x = ' .. string.rep('1 + ', 50000) .. '1')",
        "return loadstring('x = ' .. string.rep('a .. ', 50000) .. 'a')",
        "return loadstring('x = ' .. string.rep('2 ^ ', 10000) .. '1')",
        "return loadstring('local ' .. string.rep('a, ', 300) .. 'a')",
        "return loadstring(string.rep('a, ', 300) .. 'a = 1')",
        "return loadstring('return {' .. string.rep('1, ', 100000) .. '}')",
        "return loadstring('f(' .. string.rep('1, ', 300) .. '1)')",
        "return loadstring('x = a' .. string.rep('.b', 50000))",
        "return loadstring('x = a' .. string.rep('()', 50000))",
        "return loadstring(string.rep('if x then else', 5000))",
        "local t = {} for i = 1, 70000 do t[i] = 'x' .. i .. ' = ' .. i .. '.5' end return loadstring(table.concat(t, ' '))",
        "local t = {} for i = 1, 300 do t[i] = 'local a' .. i .. ' = function() return a' .. (i - 1) .. ' end' end return loadstring(table.concat(t, ' '))",
        "return loadstring('while true do ' .. string.rep('x = 1 ', 50000) .. ' end')",
    ] {
        evaluate(source);
    }
}

/// CVE-2025-46817: ranges of `unpack` that overflow.
#[test]
fn unpack_takes_any_range() {
    for source in [
        "return {pcall(unpack, {}, 0, 2147483647)}",
        "return {pcall(unpack, {}, -2147483648, 2147483647)}",
        "return {pcall(unpack, {}, 2147483647, -2147483648)}",
        "return {pcall(unpack, {}, 1, 2^63)}",
        "return {pcall(unpack, {}, -2^63, 2^63)}",
        "return {pcall(unpack, {}, 0/0, 1/0)}",
        "return {pcall(unpack, {1, 2}, 2147483647, 2147483647)}",
        "return {pcall(table.concat, {}, ',', -2147483648, 2147483647)}",
        "return {pcall(string.sub, 'x', -2^63, 2^63)}",
        "return {pcall(string.byte, 'x', -2^63, 2^63)}",
        "return {pcall(select, -2^63, 1)}",
        "return {pcall(select, 2^63, 1)}",
        "return {pcall(table.insert, {}, 2147483647, 1)}",
        "return {pcall(table.insert, {}, -2147483648, 1)}",
        "return {pcall(string.rep, 'x', 2^63)}",
        "return {pcall(string.rep, 'x', -1)}",
        "return {pcall(ipairs, {}), (ipairs({}))({}, 2147483647)}",
    ] {
        evaluate(source);
    }
}

/// CVE-2025-46819: long brackets that do not end, and other ends of the source.
#[test]
fn the_lexer_ends_with_the_source() {
    for source in [
        "return loadstring('[=')",
        "return loadstring('[==')",
        "return loadstring('--[==[')",
        "return loadstring('[[')",
        "return loadstring('x = \"\\\\')",
        "return loadstring('x = \"\\\\1')",
        "return loadstring('x = 0x')",
        "return loadstring('x = 1e')",
        "return loadstring('x = ..')",
        "return loadstring('~')",
        "return loadstring('[' .. string.rep('=', 1e6) .. '[')",
        "return loadstring('\\0')",
        "return loadstring('x = 1 \\0 y')",
        "return loadstring(string.rep('\\255', 100))",
    ] {
        evaluate(source);
    }
    is_error("[=", "invalid long string delimiter");
}

/// Bombs, patterns without an end, and metamethods that raise in what is returned.
#[test]
fn what_is_too_much_is_refused() {
    is_error("return string.rep('x', 2^30)", "not enough memory");
    is_error(
        "return string.rep(string.rep('x', 1e6), 1e6)",
        "not enough memory",
    );
    is_error(
        "local s = string.rep('a', 30000) return string.find(s, '^.-.-.-.-b')",
        "pattern too complex",
    );
    is_error(
        "return string.find(string.rep('a', 1000), string.rep('a?', 1000))",
        "pattern too complex",
    );
    is_error(
        "return string.find('x', string.rep('(', 40))",
        "too many captures",
    );
    assert_eq!(
        evaluate("return {setmetatable({}, {__index = function() error('x') end})}"),
        Reply::Array(vec![Reply::Array(vec![])])
    );
    assert_eq!(text("return string.format('%99.99f', 1e308):sub(1, 3)"), "100");
}

/// Strings that were made to collide cost their author, and nobody else.
#[test]
fn colliding_keys_cost_instructions() {
    use script::{Interpreter as _, Lua, Run as _, ScriptInput, ScriptStop};
    // Of a string of 72 bytes every third one is hashed: here it is always the same, or says the number.
    let program = |group: &str| {
        format!(
            "local t = {{}}
            local function key(n)
                local s = ''
                for i = 1, 24 do local bit = n % 2 == 0 and 'a' or 'b' n = math.floor(n / 2) s = s .. {group} end
                return s
            end
            for i = 1, 2000 do t[key(i)] = i end
            local keys = {{}} for k in pairs(t) do keys[#keys + 1] = k end
            for round = 1, 10 do for i = 1, 2000 do local v = t[keys[i]] end end
            return true"
        )
    };
    let mut lua = Lua::new();
    let mut costs = Vec::new();
    for group in ["'yy' .. bit", "bit .. 'yy'"] {
        let chunk = lua.compile(program(group).as_bytes()).unwrap();
        let mut run = lua.start(&chunk, ScriptInput::default(), crate::host::LIMITS);
        while run.resume(1_000_000) == ScriptStop::Yielded {}
        costs.push(run.instructions());
    }
    // Two thousand keys in one chain, looked for ten times each, are twenty million steps.
    assert!(costs[1] > costs[0] + 1_000_000, "{costs:?}");
}

/// One string may be named many times: what is made of all of them is bounded before it is made.
#[test]
fn strings_that_are_named_many_times_make_nothing_endless() {
    let many = "local s = string.rep('x', 4 * 1024 * 1024) local t = {} for i = 1, 129 do t[i] = s end ";
    let too_long = "the words of a command are too long";
    is_error(
        &format!("{many} return redis.call('RPUSH', 'k', unpack(t))"),
        too_long,
    );
    is_error(
        &format!("{many} return redis.acl_check_cmd('RPUSH', 'k', unpack(t))"),
        too_long,
    );
    assert!(text(&format!("{many} return redis.pcall('RPUSH', 'k', unpack(t)).err")).contains(too_long));
    is_error(&format!("{many} return t"), "the reply is too long");
    is_error(
        "return #string.gsub(string.rep('a', 250000), '.*', string.rep('%0', 125000))",
        "not enough memory",
    );
    is_error(
        "return #cjson.encode({[string.rep('\\1', 16 * 1024 * 1024)] = 1})",
        "not enough memory",
    );
    assert_eq!(
        text("return cjson.encode('\\1\\31\\127/')"),
        "\"\\u0001\\u001f\\u007f\\/\""
    );
}
