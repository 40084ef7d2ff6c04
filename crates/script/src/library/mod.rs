//! What scripts can call: Lua's own library as far as Redis leaves it, and Redis's.
//!
//! A function takes the machine and where its arguments are, and gives a [`Flow`]. One that calls back, or may take long, gives what
//! it waits for instead of a result, and goes on in [`resume`].

mod base;
mod bit;
mod cjson;
mod cmsgpack;
mod coroutine;
mod format;
mod math;
mod pattern;
mod redis;
mod sort;
mod string;
mod structs;
mod substitution;
mod table;

use std::sync::Arc;

use crate::code::Prototype;
use crate::native::Native;
use crate::raise::Raise;
use crate::thread::Waiting;
use crate::value::{ThreadRef, Value};
use crate::vm::{Args, Vm};

pub(crate) use cjson::Settings;
pub(crate) use pattern::Search;
pub(crate) use sort::Sort;
pub(crate) use substitution::Substitution;

/// What a function of the library gives.
#[derive(Debug)]
pub(crate) enum Flow {
    None,
    One(Value),
    /// What is in the machine's `values`.
    Values,
    /// Calls a function with what is in `values`, and goes on with its results.
    Call {
        function: Value,
        waiting: Waiting,
    },
    /// Goes on later: this has taken its time.
    Pause(Waiting),
    /// The same, as what comes next would take long, and the host wants that put off.
    PutOff(Waiting),
    /// A function that has been compiled.
    Load(Arc<Prototype>),
    /// The host is to carry out the command in `values`.
    Command {
        is_protected: bool,
    },
    Yield,
    Resume {
        thread: ThreadRef,
        is_wrap: bool,
    },
}

/// What calling one gives.
pub(crate) type Result = std::result::Result<Flow, Raise>;

/// Calls a function of the library.
#[allow(clippy::too_many_lines)]
pub(crate) fn call(vm: &mut Vm, native: Native, args: Args) -> Result {
    vm.heap.steps().begin_call();
    match native {
        Native::Assert => base::assert(vm, args),
        Native::Collectgarbage => base::collectgarbage(vm, args),
        Native::Error => base::error(vm, args),
        Native::Gcinfo => base::gcinfo(vm),
        Native::Getmetatable => base::getmetatable(vm, args),
        Native::Ipairs => base::ipairs(vm, args),
        Native::IpairsIterator => base::ipairs_iterator(vm, args),
        Native::Load => base::load(vm, args),
        Native::Loadstring => base::loadstring(vm, args),
        Native::Next => base::next(vm, args),
        Native::Pairs => base::pairs(vm, args),
        Native::Pcall => base::pcall(vm, args),
        Native::Rawequal => base::rawequal(vm, args),
        Native::Rawget => base::rawget(vm, args),
        Native::Rawset => base::rawset(vm, args),
        Native::Select => base::select(vm, args),
        Native::Setmetatable => base::setmetatable(vm, args),
        Native::Tonumber => base::tonumber(vm, args),
        Native::Tostring => base::tostring(vm, args),
        Native::Type => base::type_of(vm, args),
        Native::Unpack => base::unpack(vm, args),
        Native::Xpcall => base::xpcall(vm, args),
        Native::CoroutineCreate => coroutine::create(vm, args),
        Native::CoroutineResume => coroutine::resume(vm, args),
        Native::CoroutineRunning => coroutine::running(vm),
        Native::CoroutineStatus => coroutine::status(vm, args),
        Native::CoroutineWrap => coroutine::wrap(vm, args),
        Native::CoroutineYield => coroutine::yield_values(vm, args),
        Native::Wrapped => coroutine::wrapped(vm, args),
        Native::OsClock => math::clock(vm),
        Native::StringByte => string::byte(vm, args),
        Native::StringChar => string::char(vm, args),
        Native::StringDump => string::dump(vm, args),
        Native::StringFind => pattern::find(vm, args),
        Native::StringFormat => format::format(vm, args),
        Native::StringGfind | Native::StringGmatch => pattern::gmatch(vm, args),
        Native::GmatchIterator => pattern::gmatch_iterator(vm, args),
        Native::StringGsub => substitution::gsub(vm, args),
        Native::StringLen => string::len(vm, args),
        Native::StringLower => string::lower(vm, args),
        Native::StringMatch => pattern::find_captures(vm, args),
        Native::StringRep => string::rep(vm, args),
        Native::StringReverse => string::reverse(vm, args),
        Native::StringSub => string::sub(vm, args),
        Native::StringUpper => string::upper(vm, args),
        Native::TableConcat => table::concat(vm, args),
        Native::TableForeach => table::foreach(vm, args),
        Native::TableForeachi => table::foreachi(vm, args),
        Native::TableGetn => table::getn(vm, args),
        Native::TableInsert => table::insert(vm, args),
        Native::TableMaxn => table::maxn(vm, args),
        Native::TableRemove => table::remove(vm, args),
        Native::TableSetn => table::setn(vm, args),
        Native::TableSort => sort::sort(vm, args),
        Native::MathAbs
        | Native::MathAcos
        | Native::MathAsin
        | Native::MathAtan
        | Native::MathCeil
        | Native::MathCos
        | Native::MathCosh
        | Native::MathDeg
        | Native::MathExp
        | Native::MathFloor
        | Native::MathLog
        | Native::MathLog10
        | Native::MathRad
        | Native::MathSin
        | Native::MathSinh
        | Native::MathSqrt
        | Native::MathTan
        | Native::MathTanh => math::of_one(vm, native, args),
        Native::MathAtan2 | Native::MathFmod | Native::MathMod | Native::MathPow => {
            math::of_two(vm, native, args)
        }
        Native::MathFrexp => math::frexp(vm, args),
        Native::MathLdexp => math::ldexp(vm, args),
        Native::MathMax => math::max(vm, args),
        Native::MathMin => math::min(vm, args),
        Native::MathModf => math::modf(vm, args),
        Native::MathRandom => math::random(vm, args),
        Native::MathRandomseed => math::randomseed(vm, args),
        Native::BitArshift | Native::BitLshift | Native::BitRol | Native::BitRor | Native::BitRshift => {
            bit::shift(vm, native, args)
        }
        Native::BitBand | Native::BitBor | Native::BitBxor => bit::combine(vm, native, args),
        Native::BitBnot => bit::not(vm, args),
        Native::BitBswap => bit::swap(vm, args),
        Native::BitTobit => bit::to_bit(vm, args),
        Native::BitTohex => bit::to_hex(vm, args),
        Native::CjsonDecode => cjson::decode(vm, args),
        Native::CjsonDecodeInvalidNumbers
        | Native::CjsonDecodeMaxDepth
        | Native::CjsonEncodeInvalidNumbers
        | Native::CjsonEncodeKeepBuffer
        | Native::CjsonEncodeMaxDepth
        | Native::CjsonEncodeNumberPrecision
        | Native::CjsonEncodeSparseArray => cjson::set(vm, native, args),
        Native::CjsonEncode => cjson::encode(vm, args),
        Native::CjsonNew => cjson::new(vm),
        Native::CmsgpackPack => cmsgpack::pack(vm, args),
        Native::CmsgpackUnpack => cmsgpack::unpack(vm, args),
        Native::CmsgpackUnpackLimit => cmsgpack::unpack_limit(vm, args),
        Native::CmsgpackUnpackOne => cmsgpack::unpack_one(vm, args),
        Native::StructPack => structs::pack(vm, args),
        Native::StructSize => structs::size(vm, args),
        Native::StructUnpack => structs::unpack(vm, args),
        Native::RedisAclCheckCmd => redis::acl_check_cmd(vm, args),
        Native::RedisBreakpoint => Ok(Flow::One(Value::Bool(false))),
        Native::RedisCall => redis::command(vm, args, false),
        Native::RedisDebug => Ok(Flow::None),
        Native::RedisErrorReply => redis::error_reply(vm, args),
        Native::RedisLog => redis::log(vm, args),
        Native::RedisPcall => redis::command(vm, args, true),
        Native::RedisRegisterFunction => redis::register_function(vm, args),
        Native::RedisReplicateCommands => Ok(Flow::One(Value::Bool(true))),
        Native::RedisSetRepl => redis::set_repl(vm, args),
        Native::RedisSetresp => redis::setresp(vm, args),
        Native::RedisSha1hex => redis::sha1hex(vm, args),
        Native::RedisStatusReply => redis::status_reply(vm, args),
        Native::AbsentGlobal => redis::absent_global(vm, args),
    }
}

/// Lets a function go on that called back or paused: what it asked for is in the machine's `values`.
pub(crate) fn resume(vm: &mut Vm, waiting: Waiting, base: usize) -> Result {
    match waiting {
        Waiting::Pcall | Waiting::Xpcall => {
            vm.values.insert(0, Value::Bool(true));
            Ok(Flow::Values)
        }
        Waiting::XpcallHandler => {
            vm.values.insert(0, Value::Bool(false));
            vm.values.truncate(2);
            Ok(Flow::Values)
        }
        Waiting::Tostring => {
            let value = vm.values.first().copied().unwrap_or(Value::Nil);
            Ok(Flow::One(value))
        }
        Waiting::Search(search) => pattern::search(vm, search),
        Waiting::Substitution(substitution) => substitution::substitute(vm, substitution, base),
        Waiting::Sort(sort) => sort::go_on(vm, sort, base),
        Waiting::Foreach => table::foreach_next(vm, base),
        Waiting::Foreachi { next, last } => table::foreachi_next(vm, base, next, last),
        Waiting::Load(text) => base::load_next(vm, text, base),
        // Those end where their coroutine does, or where the host answers.
        Waiting::Resume { .. } | Waiting::Yield | Waiting::Command { .. } => Ok(Flow::Values),
    }
}
