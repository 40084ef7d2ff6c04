//! One corpus of frames, then properties that hold for any bytes in any pieces.

use proptest::prelude::*;

use super::*;
use crate::ArgsBuf;

const LIMITS: Limits = Limits {
    multibulk_count_max: 2000,
    bulk_bytes_max: 20_000,
    inline_bytes_max: 64,
    authenticated: true,
};

/// All that a stream of requests comes to.
#[derive(Debug, PartialEq)]
struct Outcome {
    frames: Vec<ArgsBuf>,
    error: Option<ProtocolError>,
    is_mid_frame: bool,
}

/// Decodes `stream` as it arrives in pieces that end at `cuts`, from a buffer that drops consumed frames.
fn decode_in_pieces(stream: &[u8], cuts: impl IntoIterator<Item = usize>, limits: &Limits) -> Outcome {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    let mut start = 0;
    for end in cuts.into_iter().chain([stream.len()]) {
        loop {
            let buf = &stream[start..end.max(start)];
            match decoder.decode(buf, limits) {
                Ok(Decoded::Incomplete) => {
                    assert!(decoder.is_mid_frame() || buf.is_empty());
                    break;
                }
                Ok(Decoded::Frame { consumed }) => {
                    assert!(!decoder.is_mid_frame());
                    frames.push(decoder.args(buf).to_buf());
                    start += consumed;
                }
                Err(error) => {
                    assert_eq!(decoder.decode(buf, limits), Err(error), "an error stays");
                    return Outcome {
                        frames,
                        error: Some(error),
                        is_mid_frame: true,
                    };
                }
            }
        }
    }
    Outcome {
        frames,
        error: None,
        is_mid_frame: decoder.is_mid_frame(),
    }
}

fn decode_at_once(stream: &[u8], limits: &Limits) -> Outcome {
    decode_in_pieces(stream, [], limits)
}

/// Checks one case at once and byte by byte.
#[track_caller]
fn check(stream: impl AsRef<[u8]>, limits: &Limits, frames: &[&[&str]], error: Option<ProtocolError>) {
    let stream = stream.as_ref();
    for outcome in [
        decode_at_once(stream, limits),
        decode_in_pieces(stream, 0..stream.len(), limits),
    ] {
        assert_eq!(outcome.error, error, "{}", stream.escape_ascii());
        let expected: Vec<_> = frames.iter().map(|args| ArgsBuf::from_slices(*args)).collect();
        assert_eq!(outcome.frames, expected, "{}", stream.escape_ascii());
    }
}

#[test]
fn frames_become_arguments() {
    let xs = "x".repeat(10_001);
    let long = format!("*2\r\n$3\r\nGET\r\n$10001\r\n{xs}\r\n");
    let cases: &[(&str, &[&[&str]])] = &[
        ("", &[]),
        ("*1\r\n$4\r\nPING\r\n", &[&["PING"]]),
        (
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n",
            &[&["SET", "k", "value"]],
        ),
        (
            "*2\r\n$3\r\nGET\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n",
            &[&["GET", ""], &["PING"]],
        ),
        (
            "*2\r\n$3\r\nGET\r\n$12\r\nk\r\n*1\r\n$1\r\nx\r\n",
            &[&["GET", "k\r\n*1\r\n$1\r\nx"]],
        ),
        (&long, &[&["GET", &xs]]),
        ("*0\r\n*-1\r\n*-77\r\n*1\r\n$1\r\na\r\n", &[&[], &[], &[], &["a"]]),
        ("*11\r\n$1\r\na\r\n", &[]),
        ("*1\r\n$1\r\na", &[]),
        ("*1", &[]),
        ("PING\r\n", &[&["PING"]]),
        ("PING\nGET k\n", &[&["PING"], &["GET", "k"]]),
        ("\r\n\n  \r\n", &[&[], &[], &[]]),
        (
            "set k \"a\\x41 b\" 'c'\r\n*1\r\n$1\r\na\r\nPING\r\n",
            &[&["set", "k", "aA b", "c"], &["a"], &["PING"]],
        ),
        // Neither the byte after CR nor the two after an argument are looked at.
        ("*1\rx$1\r\naXY*1\r\n$1\ryb\r\n", &[&["a"], &["b"]]),
    ];
    for (stream, frames) in cases {
        check(stream, &LIMITS, frames, None);
    }
}

#[test]
fn what_breaks_the_protocol_is_named() {
    use ProtocolError::*;
    let digits = "1".repeat(65);
    let cases = [
        ("*x\r\n".to_owned(), InvalidMultibulkLength),
        ("*\r\n".to_owned(), InvalidMultibulkLength),
        ("*01\r\n".to_owned(), InvalidMultibulkLength),
        ("*+1\r\n".to_owned(), InvalidMultibulkLength),
        ("* 1\r\n".to_owned(), InvalidMultibulkLength),
        ("*-0\r\n".to_owned(), InvalidMultibulkLength),
        ("*2001\r\n".to_owned(), InvalidMultibulkLength),
        ("*99999999999999999999\r\n".to_owned(), InvalidMultibulkLength),
        (format!("*{digits}"), TooBigMultibulkCount),
        (format!("*{digits}\r\n"), TooBigMultibulkCount),
        ("*1\r\nx1\r\n".to_owned(), ExpectedBulk(b'x')),
        ("*1\r\n\r\n".to_owned(), ExpectedBulk(b'\r')),
        ("*1\r\n:1\r\n".to_owned(), ExpectedBulk(b':')),
        ("*1\r\n$\r\n".to_owned(), InvalidBulkLength),
        ("*1\r\n$-1\r\n".to_owned(), InvalidBulkLength),
        ("*1\r\n$01\r\n".to_owned(), InvalidBulkLength),
        ("*1\r\n$1x\r\n".to_owned(), InvalidBulkLength),
        ("*1\r\n$20001\r\n".to_owned(), InvalidBulkLength),
        ("*1\r\n$9223372036854775807\r\n".to_owned(), InvalidBulkLength),
        (format!("*1\r\n${digits}"), TooBigBulkCount),
        (format!("*1\r\n${digits}\r\n"), TooBigBulkCount),
        (digits.clone(), TooBigInline),
        (format!("{digits}\r\n"), TooBigInline),
        ("set k \"v\r\n".to_owned(), UnbalancedQuotes),
    ];
    for (stream, error) in cases {
        check(&stream, &LIMITS, &[], Some(error));
        check(
            format!("*1\r\n$4\r\nPING\r\n{stream}"),
            &LIMITS,
            &[&["PING"]],
            Some(error),
        );
    }
}

#[test]
fn lines_may_be_just_as_long_as_the_limit() {
    let word = "w".repeat(64);
    check(format!("{word}\n"), &LIMITS, &[&[&word]], None);
    check(format!("{}\r\n", &word[1..]), &LIMITS, &[&[&word[1..]]], None);
    check(
        format!("{word}\r\n"),
        &LIMITS,
        &[],
        Some(ProtocolError::TooBigInline),
    );
}

#[test]
fn a_nul_hides_the_end_of_its_line() {
    check(b"PI\0NG\r\n", &LIMITS, &[], None);
    check(b"*1\0\r\n$1\r\na\r\n", &LIMITS, &[], None);
    let mut long = b"PI\0NG\r\n".to_vec();
    long.resize(65, b'\n');
    check(long, &LIMITS, &[], Some(ProtocolError::TooBigInline));
}

#[test]
fn strangers_must_send_small_frames() {
    let stranger = Limits {
        authenticated: false,
        ..LIMITS
    };
    let xs = "x".repeat(16_384);
    check(format!("*1\r\n$16384\r\n{xs}\r\n"), &stranger, &[&[&xs]], None);
    check(
        "*1\r\n$16385\r\n",
        &stranger,
        &[],
        Some(ProtocolError::UnauthenticatedBulkLength),
    );
    check(
        "*1\r\n$20001\r\n",
        &stranger,
        &[],
        Some(ProtocolError::InvalidBulkLength),
    );
    check(
        "*11\r\n",
        &stranger,
        &[],
        Some(ProtocolError::UnauthenticatedMultibulkLength),
    );
    check(
        "*2001\r\n",
        &stranger,
        &[],
        Some(ProtocolError::InvalidMultibulkLength),
    );
    let ten = format!("*10\r\n{}", "$1\r\na\r\n".repeat(10));
    check(ten, &stranger, &[&["a"; 10]], None);
}

#[test]
fn a_configured_limit_below_ten_holds_too() {
    let narrow = Limits {
        multibulk_count_max: 2,
        bulk_bytes_max: 3,
        ..LIMITS
    };
    check(
        "*3\r\n$1\r\na\r\n",
        &narrow,
        &[],
        Some(ProtocolError::InvalidMultibulkLength),
    );
    check(
        "*1\r\n$4\r\nPING\r\n",
        &narrow,
        &[],
        Some(ProtocolError::InvalidBulkLength),
    );
}

#[test]
fn a_frame_ends_below_four_gibibytes() {
    let wide = Limits {
        bulk_bytes_max: usize::MAX,
        ..LIMITS
    };
    let mut decoder = Decoder::new();
    let fits = format!("*1\r\n${}\r\n", u32::MAX - 19);
    assert_eq!(decoder.decode(fits.as_bytes(), &wide), Ok(Decoded::Incomplete));
    assert_eq!(decoder.wanted(), u32::MAX as usize - 19 + fits.len() + 2);
    check(
        format!("*1\r\n${}\r\n", u32::MAX - 18),
        &wide,
        &[],
        Some(ProtocolError::InvalidBulkLength),
    );
    check(
        format!("*1\r\n${}\r\n", i64::MAX),
        &wide,
        &[],
        Some(ProtocolError::InvalidBulkLength),
    );
}

#[test]
fn a_reader_learns_how_much_room_the_argument_needs() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.wanted(), 0);
    let buf = b"*2\r\n$3\r\nSET\r\n$5000\r\nxyz";
    assert_eq!(decoder.decode(buf, &LIMITS), Ok(Decoded::Incomplete));
    assert_eq!(decoder.wanted(), 20 + 5000 + 2);
}

#[test]
fn memory_follows_the_bytes_that_arrived_and_is_given_back() {
    let limits = Limits {
        multibulk_count_max: usize::MAX,
        ..LIMITS
    };
    let mut decoder = Decoder::new();
    assert_eq!(
        decoder.decode(b"*2147483647\r\n$1\r\na\r\n", &limits),
        Ok(Decoded::Incomplete)
    );
    assert!(decoder.memory() < 256);

    let mut decoder = Decoder::new();
    let huge = format!("*100000\r\n{}", "$0\r\n\r\n".repeat(100_000));
    assert_eq!(
        decoder.decode(huge.as_bytes(), &limits),
        Ok(Decoded::Frame { consumed: huge.len() })
    );
    assert_eq!(decoder.args(huge.as_bytes()).len(), 100_000);
    assert!(decoder.memory() >= 800_000);
    decoder.relax();
    assert!(decoder.memory() <= SPANS_KEPT * size_of::<Span>());
}

/// Bytes that look enough like requests to reach every branch.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        4 => Just(b"\r\n".to_vec()),
        3 => (0u32..13).prop_map(|n| format!("*{n}\r\n").into_bytes()),
        6 => prop::collection::vec(any::<u8>(), 0..130).prop_map(|bytes| bulk(&bytes)),
        2 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..12).prop_map(|args| frame(&args)),
        1 => "[ -~]{0,20}".prop_map(String::into_bytes),
        1 => r#"([a-z]+ |"[a-z \\x0-9]*" |'[a-z \\']*' ){0,4}\r?\n"#.prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => prop::sample::select(&b"*$\r\n\0\"'\\ -09"[..]).prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn frame(args: &[Vec<u8>]) -> Vec<u8> {
    let bulks: Vec<_> = args.iter().map(|arg| bulk(arg)).collect();
    [format!("*{}\r\n", args.len()).into_bytes(), bulks.concat()].concat()
}

fn limits() -> impl Strategy<Value = Limits> {
    (any::<bool>(), prop::sample::select(vec![3, 100, 20_000])).prop_map(|(authenticated, bulk_bytes_max)| {
        Limits {
            authenticated,
            bulk_bytes_max,
            ..LIMITS
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn how_the_bytes_are_split_does_not_matter(
        stream in request_like(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        limits in limits(),
    ) {
        let whole = decode_at_once(&stream, &limits);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(&decode_in_pieces(&stream, cuts, &limits), &whole);
        prop_assert_eq!(&decode_in_pieces(&stream, 0..stream.len(), &limits), &whole);
    }

    #[test]
    fn random_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..300), limits in limits()) {
        decode_at_once(&stream, &limits);
        decode_at_once(&[b"*3\r\n$", &stream[..]].concat(), &limits);
        crate::skip_value(&stream);
        crate::parse_array_header(&stream);
    }

    #[test]
    fn any_arguments_come_back_as_sent(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..15),
            0..5,
        ),
    ) {
        let stream: Vec<u8> = requests.iter().flat_map(|args| frame(args)).collect();
        let outcome = decode_at_once(&stream, &LIMITS);
        let expected: Vec<_> = requests.iter().map(ArgsBuf::from_slices).collect();
        prop_assert_eq!(outcome, Outcome { frames: expected, error: None, is_mid_frame: false });
    }

    #[test]
    fn a_buffer_that_shrank_against_the_rules_does_not_panic(stream in request_like(), cut in any::<prop::sample::Index>()) {
        let mut decoder = Decoder::new();
        let _ = decoder.decode(&stream, &LIMITS);
        let _ = decoder.decode(&stream[..cut.index(stream.len() + 1)], &LIMITS);
    }
}

#[test]
fn second_words_are_those_of_whole_small_frames() {
    let frames: &[u8] =
        b"*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$1\r\nv\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n";
    let words = |bytes| second_words(bytes).collect::<Vec<_>>();
    assert_eq!(words(frames), [&b"k1"[..], b"", b""]);
    for end in 0..frames.len() {
        let whole = usize::from(end >= 28) + usize::from(end >= 42);
        assert_eq!(words(&frames[..end]).len(), whole, "{end}");
    }
    for others in [
        &b"GET k\r\n*1\r\n$4\r\nPING\r\n"[..],
        b"*2\r\n$3\r\nGET\r\n$1000\r\nk",
        b"*:\r\n$3\r\nGET\r\n",
    ] {
        assert_eq!(words(others), [b""; 0]);
    }
}
