//! Libraries of functions: what `FUNCTION LOAD` reads.

use crate::host::LIMITS;
use script::{Lua, Reply, Run as _, ScriptInput, ScriptStop};

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
