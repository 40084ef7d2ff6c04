//! Scripts and what they decode.

use script::{Interpreter as _, Lua, Reply, Run as _, RunLimits, ScriptInput, ScriptStop};

const LIMITS: RunLimits = RunLimits {
    memory_bytes: 4 << 20,
};

/// Instructions of one input.
const INSTRUCTIONS_MAX: u64 = 200_000;

/// Decoders that get the bytes as their argument.
const DECODERS: &[&str] = &[
    "local t = cjson.decode(ARGV[1]) return cjson.encode(t)",
    "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))",
    "return {struct.unpack(KEYS[1], ARGV[1])}",
    "return struct.pack(KEYS[1], 1, 2, 'text', 4)",
    "return {string.find(ARGV[1], KEYS[1])}",
    "return string.gsub(ARGV[1], KEYS[1], '%0%1')",
    "return string.format(KEYS[1], ARGV[1], 2, 'text')",
    "return tostring(tonumber(ARGV[1]))",
    "return loadstring(ARGV[1])",
];

/// Runs a script with a budget; returns how it ended and what it took.
fn run(lua: &mut Lua, source: &[u8], words: [&[u8]; 2], budget: u64) -> Option<(ScriptStop, u64)> {
    let chunk = lua.compile(source).ok()?;
    let input = ScriptInput {
        keys: vec![words[0].into()],
        argv: vec![words[1].into()],
        ..ScriptInput::default()
    };
    let mut run = lua.start(&chunk, input, LIMITS);
    let step = loop {
        let step = run.resume(budget);
        assert!(run.memory_bytes() <= LIMITS.memory_bytes);
        match step {
            ScriptStop::Yielded if run.instructions() < INSTRUCTIONS_MAX => {}
            ScriptStop::Call { words, .. } => run.resume_with(&Reply::Bulk(words[0].clone())),
            ScriptStop::Permission { .. } => run.resume_with(&Reply::Integer(1)),
            step => break step,
        }
    };
    let instructions = run.instructions();
    lua.recycle(run);
    Some((step, instructions))
}

/// Any bytes are a script or an error. A run keeps to its memory, and how it is cut decides nothing: it ends alike, after as many
/// instructions. The decoders take any bytes.
pub fn script(data: &[u8]) {
    let data = &data[..data.len().min(4_096)];
    let mut lua = Lua::new();
    let whole = run(&mut lua, data, [b"key", b"1"], INSTRUCTIONS_MAX);
    let cut = run(&mut lua, data, [b"key", b"1"], 61);
    if let (Some((whole, instructions)), Some((cut, others))) = (whole, cut)
        && whole != ScriptStop::Yielded
    {
        assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        assert_eq!(instructions, others);
    }
    let split = data.iter().position(|&byte| byte == b'\n').unwrap_or(0);
    let (first, second) = data.split_at(split);
    for decoder in DECODERS {
        run(&mut lua, decoder.as_bytes(), [first, second], INSTRUCTIONS_MAX);
        run(&mut lua, decoder.as_bytes(), [b"i4", data], INSTRUCTIONS_MAX);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "local t = {} for i = 1, 10 do t[i] = i * 2 end return t",
        "local f = function(...) return select('#', ...) end return f(1, nil)",
        "return pcall(function() local s = ('x'):rep(10) return s:gsub('x', '%0y') end)",
        "local co = coroutine.wrap(function() coroutine.yield(redis.call('ping')) end) return {co(), co()}",
        "{\"a\":[1,2.5e3,null,\"\\u00e9\"],\"b\":{}}",
        "\u{93}\u{1}\u{82}",
        ">I4bs!8dc0\nabc",
        "^(%a+)%s*=%s*[^%d]-$\nkey = value",
        "%5.2f|%-10s|%q\n12",
        "while true do end",
        "local function f() return f() + 1 end f()",
        "t = setmetatable({}, {__index = function(t, k) return k end}) return t[1] .. 'x'",
        "goto = [==[ ]] ]==] --[[ x",
    ]
    .iter()
    .map(|seed| seed.as_bytes().to_vec())
    .collect()
}
