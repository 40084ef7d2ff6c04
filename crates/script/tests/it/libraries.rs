//! Libraries of functions: what `FUNCTION LOAD` reads.

use crate::host::LIMITS;
use script::{Interpreter as _, Lua, Reply, Run as _, ScriptInput, ScriptStop};

fn load(source: &str) -> Result<Vec<String>, String> {
    Lua::new()
        .load_library(source.as_bytes(), LIMITS, 1_000_000)
        .map(|library| {
            library
                .functions
                .iter()
                .map(|function| {
                    let flags: Vec<String> = function
                        .flags
                        .iter()
                        .map(|flag| String::from_utf8_lossy(flag).into_owned())
                        .collect();
                    format!(
                        "{}.{} [{}]",
                        library.name,
                        String::from_utf8_lossy(&function.name),
                        flags.join(",")
                    )
                })
                .collect()
        })
        .map_err(|message| String::from_utf8_lossy(&message).into_owned())
}

#[test]
fn functions_are_registered() {
    let source = "#!lua name=mylib\nlocal n = 0\nredis.register_function('f', function(keys, args) n = n + 1 return n end)\nredis.register_function{function_name='g', callback=function() end, flags={'no-writes'}}";
    assert_eq!(load(source).unwrap(), ["mylib.f []", "mylib.g [no-writes]"]);
}

#[test]
fn what_is_wrong_with_a_library_is_said() {
    for (body, error) in [
        ("", "No functions registered"),
        ("x = = 1", "Error compiling function"),
        ("redis.call('set', 'x', 1)", "nonexistent"),
        ("redis.register_function('f', 1)", "must be a function"),
        ("redis.register_function(1, function() end)", "must be a string"),
        (
            "redis.register_function('f-g', function() end)",
            "letters, numbers",
        ),
        (
            "redis.register_function('f', function() end) redis.register_function('f', function() end)",
            "already exists",
        ),
        (
            "redis.register_function{callback=function() end}",
            "function name",
        ),
        ("redis.register_function{function_name='f'}", "callback"),
        (
            "redis.register_function{function_name='f', callback=function() end, flags={'fast'}}",
            "unknown flag",
        ),
        (
            "redis.register_function{function_name='f', callback=function() end, more=1}",
            "unknown argument",
        ),
        ("while true do end", "timeout"),
        ("foo = 1", "readonly"),
        ("redis.foo = 1", "readonly"),
        ("local m = math", "nonexistent global variable 'math'"),
        ("local g = _G", "nonexistent global variable '_G'"),
        (
            "local m = getmetatable(redis)",
            "nonexistent global variable 'getmetatable'",
        ),
        ("redis.setresp(3)", "nonexistent global variable 'setresp'"),
        (
            "redis.set_repl(redis.REPL_NONE)",
            "nonexistent global variable 'set_repl'",
        ),
        ("redis.redis.call('ping')", "nonexistent global variable 'redis'"),
        ("local k = KEYS", "nonexistent global variable 'KEYS'"),
        (
            "local x = nil\nx()",
            "ERR Error registering functions: ERR user_function:3: attempt to call local 'x' (a nil value)",
        ),
    ] {
        let message = load(&format!("#!lua name=lib\n{body}")).unwrap_err();
        assert!(message.contains(error), "{body}: {message}");
    }
    assert!(load("return 1").is_err());
}

#[test]
fn a_function_is_called_with_keys_and_arguments() {
    let source = "#!lua name=mylib\nlocal function twice(x) return x .. x end\nredis.register_function('f', function(keys, args) return {keys[1], twice(args[1]), redis.call('echo', 'x')} end)";
    let mut lua = Lua::new();
    let library = lua.load_library(source.as_bytes(), LIMITS, 1_000_000).unwrap();
    let input = ScriptInput {
        keys: vec![b"k"[..].into()],
        argv: vec![b"a"[..].into()],
        ..ScriptInput::default()
    };
    let mut run = lua.start_function(&library, b"f", input, LIMITS).unwrap();
    let bulk = |text: &str| Reply::Bulk(text.as_bytes().into());
    loop {
        match run.resume(3) {
            ScriptStop::Yielded => {}
            ScriptStop::Call { words, .. } => run.resume_with(&Reply::Bulk(words[1].clone())),
            step => {
                assert_eq!(
                    step,
                    ScriptStop::Finished(Reply::Array(vec![bulk("k"), bulk("aa"), bulk("x")]))
                );
                break;
            }
        }
    }
    assert!(
        lua.start_function(&library, b"g", ScriptInput::default(), LIMITS)
            .is_none()
    );
}

/// What calling a function of a library comes to.
fn call(source: &str, name: &str) -> String {
    let mut lua = Lua::new();
    let library = lua
        .load_library(source.as_bytes(), LIMITS, 1_000_000)
        .unwrap_or_else(|error| panic!("{}", String::from_utf8_lossy(&error)));
    let mut run = lua
        .start_function(&library, name.as_bytes(), ScriptInput::default(), LIMITS)
        .expect("there is one");
    let said = match run.resume(1_000_000) {
        ScriptStop::Finished(reply) => format!("{reply:?}"),
        ScriptStop::Failed(failure) => String::from_utf8_lossy(&failure.message).into_owned(),
        stop => format!("{stop:?}"),
    };
    lua.recycle(run);
    // A script that is run by the same machine sees what scripts see.
    let script = lua.compile(b"return {type(math), type(redis.call), type(redis.register_function), #KEYS}");
    let mut run = lua.start(&script.expect("it compiles"), ScriptInput::default(), LIMITS);
    let types = match run.resume(1_000_000) {
        ScriptStop::Finished(Reply::Array(types)) => types,
        stop => panic!("{stop:?}"),
    };
    let types: Vec<String> = types.iter().map(|reply| format!("{reply:?}")).collect();
    let expected =
        ["table", "function", "nil"].map(|text| format!("{:?}", Reply::Bulk(text.as_bytes().into())));
    assert_eq!(types[..3], expected);
    said
}

#[test]
fn a_function_sees_what_scripts_see_and_registers_nothing() {
    let source = "#!lua name=lib
        local lib, version = redis, redis.REDIS_VERSION_NUM
        redis.log(redis.LOG_DEBUG, 'loaded')
        redis.register_function('one', function() return bit.rshift(version, 16) end)
        redis.register_function('late', function() redis.register_function('x', function() end) end)
        redis.register_function('kept', function() lib.register_function('x', function() end) end)
        redis.register_function('fill', function() lib.math = math end)
        redis.register_function('keys', function() return KEYS end)";
    assert_eq!(
        call(source, "ONE"),
        "Integer(7)",
        "names are found in any letters"
    );
    for (name, error) in [
        ("late", "attempt to call field 'register_function' (a nil value)"),
        (
            "kept",
            "redis.register_function can only be called on FUNCTION LOAD command",
        ),
        ("fill", "Attempt to modify a readonly table"),
        (
            "keys",
            "Script attempted to access nonexistent global variable 'KEYS'",
        ),
    ] {
        let said = call(source, name);
        assert!(said.contains(error), "{name}: {said}");
        assert!(
            said.contains(&format!("script: {name}, on @user_function:")),
            "{name}: {said}"
        );
    }
}
