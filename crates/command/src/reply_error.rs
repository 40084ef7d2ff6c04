//! Every error that a client can see.

use resp::{Args, Writer};
use std::borrow::Cow;
use std::fmt;

/// An error reply. `Display` is the text on the wire, its code included, except that bytes which are not
/// UTF-8 are replaced: [`ReplyError::write`] sends them as they are.
///
/// The words are those of Redis 7.0: clients and test suites compare them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplyError {
    /// Its words never vary.
    Fixed(&'static str),
    /// The number of words does not fit the command of this name.
    WrongArity(&'static str),
    /// The command of this name was given a time to live that is not positive or reaches too far.
    InvalidExpireTime(&'static str),
    /// It quotes what the client sent, which can be any bytes.
    Quoting(Box<[u8]>),
}

/// Gives the errors whose words never vary their names.
macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        #[allow(non_upper_case_globals)]
        impl ReplyError {
            $(
                $(#[$doc])*
                #[doc = concat!("`", $text, "`")]
                pub const $name: ReplyError = ReplyError::Fixed($text);
            )*
        }
    };
}

fixed! {
    // Words that do not parse.
    Syntax = "ERR syntax error";
    NotAnInteger = "ERR value is not an integer or out of range";
    NotAnIntInRange = "ERR value is out of range, value must between -2147483648 and 2147483647";
    NotAFloat = "ERR value is not a valid float";
    OffsetOutOfRange = "ERR offset is out of range";
    BitOffset = "ERR bit offset is not an integer or out of range";
    Bit = "ERR bit is not an integer or out of range";
    BitArgument = "ERR The bit argument must be 1 or 0.";
    BitOpNotSources = "ERR BITOP NOT must be called with a single source key.";
    BitFieldType =
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
    BitFieldOverflow = "ERR Invalid OVERFLOW type specified";
    BitFieldReadOnly = "ERR BITFIELD_RO only supports the GET subcommand";
    ExpireNxWithOthers = "ERR NX and XX, GT or LT options at the same time are not compatible";
    ExpireGtAndLt = "ERR GT and LT options at the same time are not compatible";
    LcsLengthAndMatches = "ERR If you want both the length and indexes, please just use IDX.";
    InvalidCursor = "ERR invalid cursor";
    DbOutOfRange = "ERR DB index is out of range";
    InvalidFirstDb = "ERR invalid first DB index";
    InvalidSecondDb = "ERR invalid second DB index";
    SameObject = "ERR source and destination objects are the same";
    TimeoutNotAnInteger = "ERR timeout is not an integer or out of range";
    TimeoutNegative = "ERR timeout is negative";

    // What the data do not allow.
    WrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
    LcsWrongType = "ERR The specified keys must contain string values";
    NoSuchKey = "ERR no such key";
    Overflow = "ERR increment or decrement would overflow";
    DecrementOverflow = "ERR decrement would overflow";
    NanOrInfinity = "ERR increment would produce NaN or Infinity";
    StringTooLong = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    NoFrequency = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
        Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    NoIdleTime = "ERR An LFU maxmemory policy is selected, idle time not tracked. \
        Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    OutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";

    // The connection.
    NoAuth = "NOAUTH Authentication required.";
    HelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
        HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
        protocol version at the same time";
    WrongPass = "WRONGPASS invalid username-password pair or user is disabled.";
    AuthWithoutPassword = "ERR AUTH <password> called without any password configured for the default user. \
        Are you sure your configuration is correct?";
    NoProto = "NOPROTO unsupported protocol version";
    ProtocolNotAnInteger = "ERR Protocol version is not an integer or out of range";
    ClientName = "ERR Client names cannot contain spaces, newlines or special characters.";
    ClientId = "ERR Invalid client ID";
    ClientIdNotPositive = "ERR client-id should be greater than 0";
    NoSuchClient = "ERR No such client";
    MaxAgeNotAnInteger = "ERR maxage is not an integer or out of range";
    MaxAgeNotPositive = "ERR maxage should be greater than 0";
    PauseMode = "ERR CLIENT PAUSE mode must be WRITE or ALL";
    TooManyClients = "ERR max number of clients reached";

    // Transactions.
    ExecAbort = "EXECABORT Transaction discarded because of previous errors.";
    ExecWithoutMulti = "ERR EXEC without MULTI";
    DiscardWithoutMulti = "ERR DISCARD without MULTI";
    NestedMulti = "ERR MULTI calls can not be nested";
    WatchInsideMulti = "ERR WATCH inside MULTI is not allowed";
    NotInTransaction = "ERR Command not allowed inside a transaction";

    // The server.
    NoConfigFile = "ERR The server is running without a config file";
    SlowLogCount = "ERR count should be greater than or equal to -1";

    // `COMMAND`.
    InvalidCommand = "ERR Invalid command specified";
    NoKeyArguments = "ERR The command has no key arguments";
    InvalidArgumentCount = "ERR Invalid number of arguments specified for command";
}

/// Longest part of a client's word that an error quotes.
const QUOTED_MAX: usize = 128;

impl ReplyError {
    /// The first word is no command.
    pub fn unknown_command(args: Args<'_>) -> ReplyError {
        let mut text = b"ERR unknown command '".to_vec();
        text.extend_from_slice(quotable(args.get(0).unwrap_or_default(), QUOTED_MAX));
        text.extend_from_slice(b"', with args beginning with: ");
        let start = text.len();
        for word in args.from(1).iter() {
            let quoted = text.len() - start;
            if quoted >= QUOTED_MAX {
                break;
            }
            text.push(b'\'');
            text.extend_from_slice(quotable(word, QUOTED_MAX - quoted));
            text.extend_from_slice(b"' ");
        }
        ReplyError::Quoting(text.into())
    }

    /// The second word is no subcommand of `container`.
    pub fn unknown_subcommand(container: &str, word: &[u8]) -> ReplyError {
        ReplyError::subcommand("unknown subcommand", container, word)
    }

    /// A container that tells its subcommands apart by itself does not know this one, or not with so many
    /// words.
    pub fn unknown_subcommand_or_arity(container: &str, word: &[u8]) -> ReplyError {
        ReplyError::subcommand(
            "unknown subcommand or wrong number of arguments for",
            container,
            word,
        )
    }

    fn subcommand(what: &str, container: &str, word: &[u8]) -> ReplyError {
        let container = container.to_ascii_uppercase();
        let before = format!("ERR {what} '");
        let after = format!("'. Try {container} HELP.");
        ReplyError::quoting(&before, quotable(word, QUOTED_MAX), &after)
    }

    /// `EXPIRE` and its kin do not know this option.
    pub fn unsupported_option(word: &[u8]) -> ReplyError {
        ReplyError::quoting("ERR Unsupported option ", quotable(word, usize::MAX), "")
    }

    /// An error that quotes `word`.
    pub fn quoting(before: &str, word: &[u8], after: &str) -> ReplyError {
        ReplyError::Quoting([before.as_bytes(), word, after.as_bytes()].concat().into())
    }

    /// Sends the error.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.error_bytes(&self.bytes());
    }

    /// The reply's bytes, without the leading `-` and the line end.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            ReplyError::Fixed(text) => Cow::Borrowed(text.as_bytes()),
            ReplyError::WrongArity(name) => {
                Cow::Owned(format!("ERR wrong number of arguments for '{name}' command").into_bytes())
            }
            ReplyError::InvalidExpireTime(name) => {
                Cow::Owned(format!("ERR invalid expire time in '{name}' command").into_bytes())
            }
            ReplyError::Quoting(text) => Cow::Borrowed(text),
        }
    }
}

/// What an error quotes of a client's word: at most `max` bytes, and nothing from the first NUL on.
fn quotable(word: &[u8], max: usize) -> &[u8] {
    let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
    &word[..end.min(max)]
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes()))
    }
}

impl std::error::Error for ReplyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    #[test]
    fn unknown_commands_are_quoted_up_to_a_limit() {
        let error = |words: &[&str]| {
            let words = ArgsBuf::from_slices(words);
            ReplyError::unknown_command(words.as_args()).to_string()
        };
        let long = "x".repeat(200);
        assert_eq!(
            error(&["foo"]),
            "ERR unknown command 'foo', with args beginning with: "
        );
        assert_eq!(
            error(&["foo", "a", "b"]),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
        assert_eq!(
            error(&[&long]),
            format!(
                "ERR unknown command '{}', with args beginning with: ",
                &long[..128]
            )
        );
        assert_eq!(
            error(&["foo", "a", &long, "b"]),
            format!(
                "ERR unknown command 'foo', with args beginning with: 'a' '{}' ",
                &long[..124]
            )
        );
        assert_eq!(
            error(&["a\0b", "c\0d"]),
            "ERR unknown command 'a', with args beginning with: 'c' "
        );
    }

    #[test]
    fn quoted_bytes_reach_the_client_unchanged() {
        let mut out = Vec::new();
        let error = ReplyError::unknown_subcommand("config", b"\xff\r\n");
        error.write(&mut Writer::new(&mut out, resp::Protocol::Resp2));
        assert_eq!(out, b"-ERR unknown subcommand '\xff  '. Try CONFIG HELP.\r\n");
    }

    #[test]
    fn errors_are_small_because_every_result_has_room_for_one() {
        assert!(size_of::<ReplyError>() <= 24);
    }
}
