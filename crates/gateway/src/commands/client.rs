//! `CLIENT`: what connections may know of, and do to, each other.

use super::connection::USER;
use crate::blocking::Blocking;
use crate::client::ClientInfo;
use crate::context::Context;
use crate::message::Message;
use crate::session::{ReplyMode, Session};
use command::{CommandId, ReplyError, number};
use ids::UnixMillis;
use resp::{Args, ReplyWriter};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// `CLIENT LIST TYPE`, `CLIENT KILL TYPE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientType {
    Normal,
    /// It listens to channels.
    PubSub,
    /// A master or a replica: no connection is one.
    Other,
}

impl ClientType {
    fn parse(word: &[u8]) -> Result<ClientType, ReplyError> {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        if is(b"normal") {
            Ok(ClientType::Normal)
        } else if is(b"pubsub") {
            Ok(ClientType::PubSub)
        } else if is(b"master") || is(b"replica") || is(b"slave") {
            Ok(ClientType::Other)
        } else {
            Err(ReplyError::quoting("ERR Unknown client type '", word, "'"))
        }
    }

    fn of(info: &ClientInfo) -> ClientType {
        let is_set = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed) > 0;
        if info.subscriptions.iter().any(is_set) {
            ClientType::PubSub
        } else {
            ClientType::Normal
        }
    }
}

/// The options of `CLIENT KILL`: a connection must fit all that are given.
#[derive(Default, PartialEq, Eq, Debug)]
struct Filter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    kind: Option<ClientType>,
    /// Seconds that it is connected at least.
    age_secs: Option<i64>,
    includes_self: bool,
}

impl<'a> Filter<'a> {
    /// Reads the options; `words` is what follows `CLIENT KILL`.
    fn parse(argv: Args<'a>) -> Result<Filter<'a>, ReplyError> {
        let mut filter = Filter::default();
        let mut at = 0;
        while let Some(option) = argv.get(at) {
            let value = argv.get(at + 1).ok_or(ReplyError::Syntax)?;
            let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
            if is(b"id") {
                let id = number::parse_i64(value).and_then(|id| u64::try_from(id).ok());
                filter.id = Some(id.filter(|id| *id > 0).ok_or(ReplyError::ClientIdNotPositive)?);
            } else if is(b"type") {
                filter.kind = Some(ClientType::parse(value)?);
            } else if is(b"addr") {
                filter.address = Some(value);
            } else if is(b"laddr") {
                filter.local_address = Some(value);
            } else if is(b"user") {
                if value != USER {
                    return Err(ReplyError::quoting("ERR No such user '", value, "'"));
                }
            } else if is(b"maxage") {
                let age = number::parse_i64(value).ok_or(ReplyError::MaxAgeNotAnInteger)?;
                filter.age_secs = Some(age);
                if age <= 0 {
                    return Err(ReplyError::MaxAgeNotPositive);
                }
            } else if is(b"skipme") && value.eq_ignore_ascii_case(b"yes") {
                filter.includes_self = false;
            } else if is(b"skipme") && value.eq_ignore_ascii_case(b"no") {
                filter.includes_self = true;
            } else {
                return Err(ReplyError::Syntax);
            }
            at += 2;
        }
        Ok(filter)
    }

    fn fits(&self, info: &ClientInfo, asker: u64, now: UnixMillis) -> bool {
        let is_at = |wanted: Option<&[u8]>, address: SocketAddr| {
            wanted.is_none_or(|wanted| wanted == address.to_string().as_bytes())
        };
        let age_secs = now.0.saturating_sub(info.connected_at) / 1_000;
        self.id.is_none_or(|id| id == info.id)
            && is_at(self.address, info.address)
            && is_at(self.local_address, info.local_address)
            && self.kind.is_none_or(|kind| kind == ClientType::of(info))
            && self.age_secs.is_none_or(|least| age_secs >= least)
            && (self.includes_self || info.id != asker)
    }
}

/// The command that a connection is carrying out while its line is written.
struct Current {
    /// The bytes of its request.
    frame_len: usize,
    /// The bytes of its words.
    words_len: usize,
}

impl Current {
    fn new(args: Args<'_>) -> Current {
        let digits = |n: usize| n.checked_ilog10().unwrap_or(0) as usize + 1;
        // `*N`, and for each word `$N` and the word, each followed by a line end.
        let header = digits(args.len()) + 3;
        let frame_len = args
            .iter()
            .fold(header, |sum, word| sum + digits(word.len()) + word.len() + 5);
        Current {
            frame_len,
            words_len: args.byte_len(),
        }
    }
}

/// One line of `CLIENT LIST`. `current` is given for the connection that asks.
///
/// Of another connection it is not known how much memory its `MULTI` block takes, nor which reply buffers it
/// keeps: those are 0.
fn line(info: &ClientInfo, now: UnixMillis, current: Option<&Current>) -> Vec<u8> {
    let seconds_since = |then: i64| now.0.saturating_sub(then).max(0) / 1_000;
    let load = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
    let queued = info.queued.load(Ordering::Relaxed);
    let input = current.map_or(load(&info.input_bytes), |current| current.frame_len as u64);
    let words = current.map_or(0, |current| current.words_len as u64);
    let output = load(&info.output_bytes);
    let mut flags = String::new();
    let [channels, patterns, shard_channels] = [0, 1, 2].map(|index| load(&info.subscriptions[index]));
    for (is_set, flag) in [
        (info.is_monitor.load(Ordering::Relaxed), 'O'),
        (channels + patterns + shard_channels > 0, 'P'),
        (queued >= 0, 'x'),
        (info.reads_at_replicas.load(Ordering::Relaxed), 'r'),
        (info.no_evict.load(Ordering::Relaxed), 'e'),
        (info.no_touch.load(Ordering::Relaxed), 'T'),
    ] {
        if is_set {
            flags.push(flag);
        }
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let command = CommandId::ALL.get(usize::from(info.last_command.load(Ordering::Relaxed)));
    let labels = info.labels().clone();

    let mut text = format!(
        "id={} addr={} laddr={} fd={} name=",
        info.id, info.address, info.local_address, info.descriptor
    )
    .into_bytes();
    text.extend_from_slice(&labels.name);
    let mut rest = String::new();
    let _ = write!(
        rest,
        " age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub={shard_channels} multi={queued} qbuf={input} qbuf-free=0 \
         argv-mem={words} multi-mem=0 rbs=0 rbp=0 obl=0 oll={} omem={output} tot-mem={} events=r{} cmd={} \
         user=default redir=-1 resp={} lib-name=",
        seconds_since(info.connected_at),
        seconds_since(info.active_at.load(Ordering::Relaxed)),
        info.db.load(Ordering::Relaxed),
        u8::from(output > 0),
        (size_of::<Session>() + size_of::<ClientInfo>()) as u64 + input + words + output,
        if output > 0 { "w" } else { "" },
        command.map_or("NULL", |id| id.spec().name),
        info.protocol.load(Ordering::Relaxed),
    );
    text.extend_from_slice(rest.as_bytes());
    text.extend_from_slice(&labels.library);
    text.extend_from_slice(b" lib-ver=");
    text.extend_from_slice(&labels.library_version);
    text.push(b'\n');
    text
}

pub(super) fn info(cx: &Context, session: &mut Session, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    w.verbatim(
        "txt",
        &line(&session.info, cx.turn.now, Some(&Current::new(args))),
    );
}

pub(super) fn list(
    cx: &Context,
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    let mut infos = living(cx);
    match (args.len(), args.get(2)) {
        (2, _) => {}
        (4, Some(option)) if option.eq_ignore_ascii_case(b"type") => {
            let kind = ClientType::parse(args.arg(3))?;
            infos.retain(|info| ClientType::of(info) == kind);
        }
        (4.., Some(option)) if option.eq_ignore_ascii_case(b"id") => {
            let mut wanted = Vec::new();
            for word in args.from(3).iter() {
                let id = number::parse_i64(word).ok_or(ReplyError::ClientId)?;
                wanted.extend(infos.iter().find(|info| info.id as i64 == id).cloned());
            }
            infos = wanted;
        }
        _ => return Err(ReplyError::Syntax),
    }
    let current = Current::new(args);
    let mut text = Vec::new();
    for info in &infos {
        let current = (info.id == session.info.id).then_some(&current);
        text.append(&mut line(info, cx.turn.now, current));
    }
    w.verbatim("txt", &text);
    Ok(())
}

pub(super) fn kill(
    cx: &mut Context,
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    // One word is an address, as before there were options.
    if args.len() == 3 {
        let filter = Filter {
            address: Some(args.arg(2)),
            includes_self: true,
            ..Filter::default()
        };
        if kill_those(cx, session, &filter) == 0 {
            return Err(ReplyError::NoSuchClient);
        }
        w.ok();
        return Ok(());
    }
    let filter = Filter::parse(args.from(2))?;
    let killed = kill_those(cx, session, &filter);
    w.integer(killed);
    Ok(())
}

/// Marks connections to be closed and tells their workers. Returns how many.
fn kill_those(cx: &mut Context, session: &mut Session, filter: &Filter<'_>) -> i64 {
    let mut workers = BTreeSet::new();
    let mut killed = 0;
    for info in living(cx) {
        if !filter.fits(&info, session.info.id, cx.turn.now) {
            continue;
        }
        killed += 1;
        if info.id == session.info.id {
            // It is still told what it did.
            session.is_closing = true;
        } else {
            info.is_killed.store(true, Ordering::Relaxed);
            workers.insert(info.worker);
        }
    }
    for worker in workers {
        if worker == cx.worker {
            cx.outbox.reap_soon();
        } else {
            cx.send(worker, Message::Reap);
        }
    }
    killed
}

/// All connections but those that were killed and are not closed yet: for clients they are gone.
fn living(cx: &Context) -> Vec<Arc<ClientInfo>> {
    let mut infos = cx.shared.clients.all();
    infos.retain(|info| !info.is_killed.load(Ordering::Relaxed));
    infos
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`.
pub(super) fn unblock(
    cx: &mut Context,
    blocking: &mut Blocking,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    let is_error = match args.get(3) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"timeout") => false,
        Some(word) if word.eq_ignore_ascii_case(b"error") => true,
        Some(_) => {
            return Err(ReplyError::Fixed(
                "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
            ));
        }
    };
    let id = command::number::parse_i64(args.arg(2)).ok_or(ReplyError::NotAnInteger)?;
    let info = u64::try_from(id).ok().and_then(|id| cx.shared.clients.find(id));
    // Whoever sees it first unblocks it: two `UNBLOCK`s of one wait answer 1 and 0.
    let Some(info) = info.filter(|info| info.is_blocked.swap(false, Ordering::Relaxed)) else {
        w.integer(0);
        return Ok(());
    };
    if info.worker == cx.worker {
        blocking.on_unblock(cx, info.id, is_error);
    } else {
        let client = info.id;
        cx.send(info.worker, Message::Unblock { client, is_error });
    }
    w.integer(1);
    Ok(())
}

pub(super) fn get_name(session: &Session, w: &mut ReplyWriter<'_>) {
    let labels = session.info.labels();
    if labels.name.is_empty() {
        w.null()
    } else {
        w.bulk(&labels.name)
    }
}

pub(super) fn set_name(session: &Session, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let name = args.arg(2);
    if !is_label(name) {
        return Err(ReplyError::ClientName);
    }
    session.info.labels().name = name.to_vec();
    w.ok();
    Ok(())
}

/// Whether a name leaves the lines of `CLIENT LIST` readable: printable characters without spaces.
pub(super) fn is_label(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_graphic)
}

pub(super) fn set_info(session: &Session, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let (attribute, value) = (args.arg(2), args.arg(3));
    let mut labels = session.info.labels();
    let label = if attribute.eq_ignore_ascii_case(b"lib-name") {
        &mut labels.library
    } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
        &mut labels.library_version
    } else {
        return Err(ReplyError::quoting("ERR Unrecognized option '", attribute, "'"));
    };
    if !is_label(value) {
        let reason = " cannot contain spaces, newlines or special characters.";
        return Err(ReplyError::quoting("ERR ", attribute, reason));
    }
    *label = value.to_vec();
    w.ok();
    Ok(())
}

/// `CLIENT REPLY`. The caller drops what a silent connection is answered.
pub(super) fn reply(
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    let is = |word: &[u8]| args.arg(2).eq_ignore_ascii_case(word);
    if is(b"on") {
        session.modes.reply_mode = ReplyMode::On;
        w.ok();
    } else if is(b"off") {
        session.modes.reply_mode = ReplyMode::Off;
    } else if is(b"skip") {
        // Where nothing is answered there is nothing to skip.
        if session.modes.reply_mode != ReplyMode::Off {
            session.modes.reply_mode = ReplyMode::SkipThis;
        }
    } else {
        return Err(ReplyError::Syntax);
    }
    Ok(())
}

pub(super) fn no_evict(session: &Session, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let is_on = is_on(args)?;
    session.info.no_evict.store(is_on, Ordering::Relaxed);
    w.ok();
    Ok(())
}

/// What follows the option: `ON` or `OFF`.
fn is_on(args: Args<'_>) -> Result<bool, ReplyError> {
    let is = |word: &[u8]| args.arg(2).eq_ignore_ascii_case(word);
    (is(b"on") || is(b"off"))
        .then(|| is(b"on"))
        .ok_or(ReplyError::Syntax)
}

pub(super) fn no_touch(
    session: &mut Session,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    session.modes.no_touch = is_on(args)?;
    session
        .info
        .no_touch
        .store(session.modes.no_touch, Ordering::Relaxed);
    w.ok();
    Ok(())
}

/// `CLIENT TRACKINGINFO`: no connection is told of changed keys.
pub(super) fn tracking_info(w: &mut ReplyWriter<'_>) {
    w.map(3);
    w.bulk(b"flags");
    w.set(1);
    w.bulk(b"off");
    w.bulk(b"redirect");
    w.integer(-1);
    w.bulk(b"prefixes");
    w.array(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    fn info(id: u64, address: &str) -> ClientInfo {
        let address = address.parse().unwrap();
        ClientInfo::new(
            id,
            address,
            "127.0.0.1:6379".parse().expect("an address"),
            0,
            8,
            1_000,
        )
    }

    #[test]
    fn a_line_has_the_fields_of_redis_in_their_order() {
        let info = info(3, "127.0.0.1:59280");
        info.last_command
            .store(CommandId::ClientList.index() as u16, Ordering::Relaxed);
        info.labels().name = b"me".to_vec();
        let words = ArgsBuf::from_slices(["client", "list"]);
        let text = line(&info, UnixMillis(6_500), Some(&Current::new(words.as_args())));
        let text = String::from_utf8(text).unwrap();
        let (start, end) = text.split_once(" tot-mem=").unwrap();
        assert_eq!(
            start,
            "id=3 addr=127.0.0.1:59280 laddr=127.0.0.1:6379 fd=8 name=me age=5 idle=5 flags=N db=0 sub=0 psub=0 \
             ssub=0 multi=-1 qbuf=26 qbuf-free=0 argv-mem=10 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0"
        );
        let (_, end) = end.split_once(' ').unwrap();
        assert_eq!(
            end,
            "events=r cmd=client|list user=default redir=-1 resp=2 lib-name= lib-ver=\n"
        );
    }

    #[test]
    fn a_line_tells_of_a_transaction_and_of_protection() {
        let info = info(3, "[::1]:1");
        info.queued.store(2, Ordering::Relaxed);
        info.no_evict.store(true, Ordering::Relaxed);
        info.output_bytes.store(7, Ordering::Relaxed);
        info.is_monitor.store(true, Ordering::Relaxed);
        info.subscriptions[1].store(4, Ordering::Relaxed);
        let text = String::from_utf8(line(&info, UnixMillis(0), None)).expect("a line is text");
        for field in [
            "addr=[::1]:1",
            "age=0",
            "flags=OPxe",
            "psub=4",
            "multi=2",
            "omem=7",
            "events=rw",
            "cmd=NULL",
        ] {
            assert!(
                text.split([' ', '\n']).any(|found| found == field),
                "{field} in {text}"
            );
        }
    }

    #[test]
    fn filters_of_kill_must_all_fit() {
        let info = info(7, "10.0.0.1:5");
        let fits = |words: &str, asker: u64| {
            let words = ArgsBuf::from_slices(words.split(' '));
            Filter::parse(words.as_args())
                .unwrap()
                .fits(&info, asker, UnixMillis(11_000))
        };
        assert!(fits("ID 7", 1));
        assert!(!fits("ID 8", 1));
        assert!(fits("addr 10.0.0.1:5 LADDR 127.0.0.1:6379", 1));
        assert!(!fits("ADDR 10.0.0.1:5 LADDR 127.0.0.1:6380", 1));
        assert!(fits("TYPE normal USER default", 1));
        assert!(!fits("TYPE replica", 1));
        assert!(fits("MAXAGE 10", 1));
        assert!(!fits("MAXAGE 11", 1));
        assert!(!fits("ID 7", 7), "the asker is spared unless it says otherwise");
        assert!(fits("ID 7 SKIPME no", 7));
        assert!(!fits("SKIPME no SKIPME yes", 7));
    }

    #[test]
    fn filters_of_kill_are_refused_as_redis_refuses_them() {
        let error = |words: &str| {
            let words = ArgsBuf::from_slices(words.split(' '));
            Filter::parse(words.as_args()).unwrap_err().to_string()
        };
        for words in ["ID x", "ID 0", "ID -1"] {
            assert_eq!(error(words), "ERR client-id should be greater than 0");
        }
        assert_eq!(error("MAXAGE 0"), "ERR maxage should be greater than 0");
        assert_eq!(error("TYPE foo"), "ERR Unknown client type 'foo'");
        assert_eq!(error("USER foo"), "ERR No such user 'foo'");
        for words in ["SKIPME foo", "SKIPME yes ID", "FOO bar"] {
            assert_eq!(error(words), "ERR syntax error");
        }
    }

    #[test]
    fn the_length_of_a_request_is_that_of_its_frame() {
        let words = ArgsBuf::from_slices(["CLIENT", "LIST", "TYPE", "normal"]);
        assert_eq!(Current::new(words.as_args()).frame_len, 48);
        let words = ArgsBuf::from_slices(["", "0123456789"]);
        let frame = "*2\r\n$0\r\n\r\n$10\r\n0123456789\r\n";
        assert_eq!(Current::new(words.as_args()).frame_len, frame.len());
    }
}
