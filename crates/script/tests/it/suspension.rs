//! A run stops and goes on: wherever it is, with whatever budget, and others run meanwhile.

use crate::host::LIMITS;
use script::{Interpreter as _, Lua, LuaRun, Reply, Run as _, ScriptInput, ScriptStop};

/// A script that calls back from everywhere, and asks for commands there.
const EVERYWHERE: &str = "
    local log = {}
    local function ask(x) local r = redis.call('echo', x) log[#log + 1] = r return r end
    local t = setmetatable({}, {
        __index = function(_, k) return ask(k) end,
        __newindex = function(_, k, v) ask(v) end,
        __add = function() return ask('add') end,
        __concat = function() return ask('concat') end,
        __eq = function() return ask('eq') == 'eq' end,
        __lt = function() return ask('lt') == 'lt' end,
        __call = function(_, x) return ask(x) end,
        __tostring = function() return ask('tostring') end,
    })
    local u = setmetatable({}, getmetatable(t))
    local r = {t.index, t + 1, t .. 'x', t == u, t < u, t('call'), tostring(t)}
    t.x = 'newindex'
    r[#r + 1] = pcall(function() return ask('pcall') end)
    r[#r + 1] = select(2, xpcall(function() error(ask('xpcall'), 0) end, function(e) return ask(e) end))
    local list = {3, 1, 2} table.sort(list, function(a, b) ask('sort') return a < b end)
    r[#r + 1] = (('ab'):gsub('.', function(c) return ask(c) end))
    r[#r + 1] = (('ab'):gsub('.', setmetatable({}, {__index = function(_, k) return ask(k .. k) end})))
    table.foreach({7}, function(k, v) ask(v) end)
    table.foreachi({8}, function(k, v) ask(v) end)
    local co = coroutine.wrap(function() coroutine.yield(ask('co')) ask('co2') end) co() co()
    for k in (function(_, c) if not c then return ask('iterator') end end) do r[#r + 1] = k end
    local i = 0
    r[#r + 1] = load(function() i = i + 1 return i == 1 and 'return 1' or (ask('load') and nil) end)()
    local s = table.concat(log, ',') .. ';'
    for i = 1, #r do s = s .. tostring(r[i]) .. ',' end
    return s .. table.concat(list)
";

/// Runs it with the same budget each time; returns the reply, and how often it stopped.
fn run_by(run: &mut LuaRun, budget: u64) -> (Reply, u64) {
    let mut stops = 0;
    loop {
        stops += 1;
        match run.resume(budget) {
            ScriptStop::Yielded => {}
            ScriptStop::Call { words, .. } => run.resume_with(&Reply::Bulk(words[1].clone())),
            ScriptStop::Finished(reply) => return (reply, stops),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_run_is_the_same_however_it_is_cut() {
    let mut lua = Lua::new();
    let chunk = lua.compile(EVERYWHERE.as_bytes()).unwrap();
    let mut whole = lua.start(&chunk, ScriptInput::default(), LIMITS);
    let (expected, _) = run_by(&mut whole, 1_000_000);
    let Reply::Bulk(text) = &expected else {
        panic!("{expected:?}");
    };
    let text = String::from_utf8_lossy(text);
    assert!(
        text.starts_with("index,add,concat,eq,lt,call,tostring,newindex,pcall,xpcall,xpcall,sort,"),
        "{text}"
    );
    assert!(text.ends_with("123"), "{text}");
    let instructions = whole.instructions();
    for budget in 1..40 {
        let mut run = lua.start(&chunk, ScriptInput::default(), LIMITS);
        let (reply, stops) = run_by(&mut run, budget);
        assert_eq!(reply, expected, "with a budget of {budget}");
        assert_eq!(run.instructions(), instructions, "with a budget of {budget}");
        assert!(stops >= instructions / budget, "with a budget of {budget}");
        lua.recycle(run);
    }
}

#[test]
fn a_run_with_a_deep_stack_takes_as_many_instructions_however_it_is_cut() {
    let mut lua = Lua::new();
    for source in [
        "local function f() return f() + 1 end f()",
        "local function f(n, ...) if n > 0 then return 1 + select('#', f(n - 1, n, ...)) end return ... end return f(150)",
        "local function f(n) if n == 0 then return 0 end local t = {n} return t[1] + f(n - 1) end return f(9000)",
    ] {
        let chunk = lua.compile(source.as_bytes()).unwrap();
        let mut took = |budget: u64| {
            let mut run = lua.start(&chunk, ScriptInput::default(), LIMITS);
            let stop = loop {
                match run.resume(budget) {
                    ScriptStop::Yielded => {}
                    stop => break stop,
                }
            };
            let took = run.instructions();
            lua.recycle(run);
            (stop, took)
        };
        let whole = took(10_000_000);
        for budget in [7, 61, 1_000, 39_000] {
            assert_eq!(took(budget), whole, "{source} with a budget of {budget}");
        }
    }
}

#[test]
fn runs_go_on_side_by_side() {
    let mut lua = Lua::new();
    let chunk = lua
        .compile(b"local n = 0 for i = 1, tonumber(ARGV[1]) do n = n + redis.call('x', i) end return n")
        .unwrap();
    let mut runs: Vec<(LuaRun, Option<Reply>)> = (1..=20)
        .map(|n: i64| {
            let input = ScriptInput {
                argv: vec![n.to_string().as_bytes().into()],
                ..ScriptInput::default()
            };
            (lua.start(&chunk, input, LIMITS), None)
        })
        .collect();
    while runs.iter().any(|(_, reply)| reply.is_none()) {
        for (run, reply) in &mut runs {
            if reply.is_some() {
                continue;
            }
            match run.resume(5) {
                ScriptStop::Yielded => {}
                ScriptStop::Call { words, .. } => {
                    let n: i64 = std::str::from_utf8(&words[1]).unwrap().parse().unwrap();
                    run.resume_with(&Reply::Integer(n));
                }
                ScriptStop::Finished(found) => *reply = Some(found),
                other => panic!("{other:?}"),
            }
        }
    }
    for (n, (_, reply)) in (1..).zip(&runs) {
        assert_eq!(reply, &Some(Reply::Integer(n * (n + 1) / 2)));
    }
}

#[test]
fn a_machine_that_is_used_again_remembers_nothing() {
    let mut lua = Lua::new();
    let leave = lua
        .compile(b"local t = {} for i = 1, 5000 do t[i] = 'left' .. i end KEYS[1] = 'x' math.randomseed(5) cjson.encode_max_depth(3) redis.setresp(3) for i = 1, 1e9 do end")
        .unwrap();
    let look = lua
        .compile(b"return {#KEYS, math.random(1000), cjson.encode_max_depth(), tostring(next({})), tostring(false), tostring({})}")
        .unwrap();
    let mut fresh = lua.start(&look, ScriptInput::default(), LIMITS);
    let (expected, _) = run_by(&mut fresh, 1_000);
    let instructions = fresh.instructions();
    for _ in 0..20 {
        let mut run = lua.start(&leave, ScriptInput::default(), LIMITS);
        assert_eq!(run.resume(50_000), ScriptStop::Yielded);
        lua.recycle(run);
        let mut run = lua.start(&look, ScriptInput::default(), LIMITS);
        let (reply, _) = run_by(&mut run, 1_000);
        assert_eq!(reply, expected);
        assert_eq!(run.instructions(), instructions);
        lua.recycle(run);
    }
}

#[test]
fn what_takes_long_by_itself_is_put_off_and_comes_to_the_same() {
    let wide = "local t = {} for i = 1, 9000 do t[i] = i end ";
    let long = "local s = '[' .. string.rep('1,', 20000) .. '1]' ";
    // Each with whether anything of it is put off.
    let sources = [
        (format!("{wide} return cjson.encode(t)"), true),
        (
            format!("{wide} return #cmsgpack.pack(t) + #table.concat(t)"),
            true,
        ),
        (format!("{wide} return select(2, pcall(cjson.encode, t))"), true),
        (format!("{wide} return t"), true),
        // What would end, ends so.
        (
            format!("{wide} t[9000] = next return select(2, pcall(table.concat, t))"),
            true,
        ),
        (format!("{long} return #cjson.decode(s)"), true),
        (
            format!("{long} return #loadstring('return {{' .. s:sub(2, -2) .. '}}')()"),
            true,
        ),
        (
            "local s = string.rep('x', 200000) return #(s .. s) + #s".to_owned(),
            true,
        ),
        (
            "local s = string.rep('a', 3000) return #(s:gsub('a', string.rep('b', 100)))".to_owned(),
            true,
        ),
        // One replacement that is long by itself, behind others.
        (
            "local s = string.rep('a', 3000) return #(('-' .. s):gsub('.[^-]*', string.rep('%0', 200)))".to_owned(),
            true,
        ),
        (
            "return {('x' .. string.rep('a', 9000)):gsub('%w', string.rep('%0', 200), 2)}".to_owned(),
            false,
        ),
        (
            "local t = {} for i = 1, 200 do t[i] = 1.7e308 end return #string.format(string.rep('%99.99f', 200), unpack(t))"
                .to_owned(),
            true,
        ),
        // A key that is long.
        (
            "return #cjson.encode({[string.rep('\\1', 40000)] = 1})".to_owned(),
            true,
        ),
        // One string many times.
        (
            "local s = string.rep('x', 2000) local t = {} for i = 1, 200 do t[i] = s end return t".to_owned(),
            true,
        ),
        (
            "local function f(...) return cjson.encode({...}) end return f(unpack({1, 2, 3}))".to_owned(),
            false,
        ),
    ];
    let mut lua = Lua::new();
    for (source, is_put_off) in sources {
        let chunk = lua.compile(source.as_bytes()).unwrap();
        let mut plain = lua.start(&chunk, ScriptInput::default(), LIMITS);
        let (expected, _) = run_by(&mut plain, 1_000_000);
        let mut run = lua.start(&chunk, ScriptInput::default(), LIMITS);
        let mut put_off = 0;
        let found = loop {
            run.put_off_large(true);
            match run.resume(10_000) {
                ScriptStop::Yielded => {}
                ScriptStop::Large => {
                    put_off += 1;
                    run.put_off_large(false);
                    match run.resume(1) {
                        ScriptStop::Yielded => {}
                        ScriptStop::Finished(reply) => break reply,
                        other => panic!("{source}: {other:?}"),
                    }
                }
                ScriptStop::Finished(reply) => break reply,
                other => panic!("{source}: {other:?}"),
            }
        };
        assert_eq!(put_off > 0, is_put_off, "{source}");
        assert!(found == expected, "{source}");
    }
}
