//! The functions of the library, by name.

macro_rules! natives {
    ($($library:literal { $($name:literal => $variant:ident),* $(,)? })*) => {
        /// A function of the library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Native {
            $($($variant,)*)*
        }

        impl Native {
            /// All of them: the library, the name, the function.
            pub(crate) const ALL: &'static [(&'static str, &'static str, Native)] = &[
                $($(($library, $name, Native::$variant),)*)*
            ];

            /// Its name, for messages.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)*)*
                }
            }
        }
    };
}

natives! {
    "" {
        "assert" => Assert,
        "collectgarbage" => Collectgarbage,
        "error" => Error,
        "gcinfo" => Gcinfo,
        "getmetatable" => Getmetatable,
        "ipairs" => Ipairs,
        "load" => Load,
        "loadstring" => Loadstring,
        "next" => Next,
        "pairs" => Pairs,
        "pcall" => Pcall,
        "rawequal" => Rawequal,
        "rawget" => Rawget,
        "rawset" => Rawset,
        "select" => Select,
        "setmetatable" => Setmetatable,
        "tonumber" => Tonumber,
        "tostring" => Tostring,
        "type" => Type,
        "unpack" => Unpack,
        "xpcall" => Xpcall,
    }
    "coroutine" {
        "create" => CoroutineCreate,
        "resume" => CoroutineResume,
        "running" => CoroutineRunning,
        "status" => CoroutineStatus,
        "wrap" => CoroutineWrap,
        "yield" => CoroutineYield,
    }
    "os" {
        "clock" => OsClock,
    }
    "string" {
        "byte" => StringByte,
        "char" => StringChar,
        "dump" => StringDump,
        "find" => StringFind,
        "format" => StringFormat,
        "gfind" => StringGfind,
        "gmatch" => StringGmatch,
        "gsub" => StringGsub,
        "len" => StringLen,
        "lower" => StringLower,
        "match" => StringMatch,
        "rep" => StringRep,
        "reverse" => StringReverse,
        "sub" => StringSub,
        "upper" => StringUpper,
    }
    "table" {
        "concat" => TableConcat,
        "foreach" => TableForeach,
        "foreachi" => TableForeachi,
        "getn" => TableGetn,
        "insert" => TableInsert,
        "maxn" => TableMaxn,
        "remove" => TableRemove,
        "setn" => TableSetn,
        "sort" => TableSort,
    }
    "math" {
        "abs" => MathAbs,
        "acos" => MathAcos,
        "asin" => MathAsin,
        "atan" => MathAtan,
        "atan2" => MathAtan2,
        "ceil" => MathCeil,
        "cos" => MathCos,
        "cosh" => MathCosh,
        "deg" => MathDeg,
        "exp" => MathExp,
        "floor" => MathFloor,
        "fmod" => MathFmod,
        "frexp" => MathFrexp,
        "ldexp" => MathLdexp,
        "log" => MathLog,
        "log10" => MathLog10,
        "max" => MathMax,
        "min" => MathMin,
        "mod" => MathMod,
        "modf" => MathModf,
        "pow" => MathPow,
        "rad" => MathRad,
        "random" => MathRandom,
        "randomseed" => MathRandomseed,
        "sin" => MathSin,
        "sinh" => MathSinh,
        "sqrt" => MathSqrt,
        "tan" => MathTan,
        "tanh" => MathTanh,
    }
    "bit" {
        "arshift" => BitArshift,
        "band" => BitBand,
        "bnot" => BitBnot,
        "bor" => BitBor,
        "bswap" => BitBswap,
        "bxor" => BitBxor,
        "lshift" => BitLshift,
        "rol" => BitRol,
        "ror" => BitRor,
        "rshift" => BitRshift,
        "tobit" => BitTobit,
        "tohex" => BitTohex,
    }
    "cjson" {
        "decode" => CjsonDecode,
        "decode_invalid_numbers" => CjsonDecodeInvalidNumbers,
        "decode_max_depth" => CjsonDecodeMaxDepth,
        "encode" => CjsonEncode,
        "encode_invalid_numbers" => CjsonEncodeInvalidNumbers,
        "encode_keep_buffer" => CjsonEncodeKeepBuffer,
        "encode_max_depth" => CjsonEncodeMaxDepth,
        "encode_number_precision" => CjsonEncodeNumberPrecision,
        "encode_sparse_array" => CjsonEncodeSparseArray,
        "new" => CjsonNew,
    }
    "cmsgpack" {
        "pack" => CmsgpackPack,
        "unpack" => CmsgpackUnpack,
        "unpack_limit" => CmsgpackUnpackLimit,
        "unpack_one" => CmsgpackUnpackOne,
    }
    "struct" {
        "pack" => StructPack,
        "size" => StructSize,
        "unpack" => StructUnpack,
    }
    "redis" {
        "acl_check_cmd" => RedisAclCheckCmd,
        "breakpoint" => RedisBreakpoint,
        "call" => RedisCall,
        "debug" => RedisDebug,
        "error_reply" => RedisErrorReply,
        "log" => RedisLog,
        "pcall" => RedisPcall,
        "replicate_commands" => RedisReplicateCommands,
        "set_repl" => RedisSetRepl,
        "setresp" => RedisSetresp,
        "sha1hex" => RedisSha1hex,
        "status_reply" => RedisStatusReply,
    }
    // What is `redis` while a library is loaded, beside what it has in scripts too.
    "library" {
        "register_function" => RedisRegisterFunction,
    }
    // Those that scripts meet without a name.
    "hidden" {
        "ipairs_iterator" => IpairsIterator,
        "gmatch_iterator" => GmatchIterator,
        "wrapped" => Wrapped,
        "absent_global" => AbsentGlobal,
    }
}
