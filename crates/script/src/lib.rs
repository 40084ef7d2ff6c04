//! Scripts: Redis's dialect of Lua 5.1, as a machine that stops where it is told to and goes on later.
//!
//! What is here: a compiler, a machine, a collector of garbage, Lua's library as far as Redis leaves it, and Redis's own (`redis`,
//! `cjson`, `cmsgpack`, `struct`, `bit`), behind a trait ([`Interpreter`]). A [`Run`] takes a budget of instructions and says why it
//! stopped: the budget is used up, a command is to be carried out, or it is over. Nothing of a run is on the stack of this process while it is
//! stopped, so a thread may have thousands of them, and none of them holds it.
//!
//! What is not: commands. `EVAL` and its kin belong to whoever carries out commands (`gateway`). Nor is there anything that
//! reaches outside: no file, no clock, no environment. Two runs with the same chunk, inputs and replies are the same to the byte.
//!
//! A script is taken for hostile. There is no `unsafe` here: a mistake gives it a wrong value, or ends its run. What it may use is
//! counted, memory to the byte and time by the instruction, and what one function of the library does at once is bounded.
//!
//! Reading order: `interpreter` (the trait), `value`, `table`, `strings` and `heap` (data and the collector), `lexer`, `expression`, `emitter`
//! and `compiler` (source into `code`), `thread`, `vm`, `drive` and `execute` (a run), `library` (what scripts call), `reply`, `lua` (all of it
//! behind the trait).
//!
//! [Decision 0053](../../../docs/decisions/0053-a-lua-of-our-own.md) says why it is our own.

#![forbid(unsafe_code)]

mod arena;
mod arithmetic;
mod code;
mod compiler;
mod drive;
mod emitter;
mod execute;
mod expression;
mod heap;
mod interpreter;
mod lexer;
mod library;
mod lua;
mod native;
mod number;
mod raise;
mod random;
mod reply;
mod session;
mod shebang;
mod strings;
mod table;
mod thread;
mod value;
mod vm;

pub use interpreter::{CompiledScript, Interpreter, Run, RunLimits, ScriptFailure, ScriptInput, ScriptStop};
pub use lua::{FunctionLibrary, Lua, LuaRun, Script, sha1_hex};
pub use reply::Reply;
pub use session::{LogLevel, LogLine, Registered};
pub use shebang::{Purpose, Shebang};
