//! Commands that concern every node: each carries them out for itself, and the answers become one.
//!
//! ```text
//!   client --> this node: carried out here --Fanout: the command's words--> every node that is up
//!                                         <--FanoutAnswer: its reply, as RESP2--
//!              the last answer, the end of a link, or the time limit --> one reply
//! ```
//!
//! The format of a question is `1 | count u32 | (length u32 | word)*`. An answer is the reply: one or more integers or
//! texts, in an array or not. How two of them become one depends on the command ([`Join`]).
//!
//! `CONFIG SET` is asked of the meta group first ([`Wish`]): it remembers what is set for the whole cluster, so that nodes that
//! are away, or join later, learn of it, and gives it a version. With that it is set on all nodes, before the client is answered:
//! whatever comes later, through any node, is carried out under it. A node that hears from the meta group late of an older
//! value knows by the version that it is older. Options that only the start sets are this node's own.
//!
//! A node that is out of reach, or does not answer in time, is left out. Where that means that something may not have happened, the client is
//! told so (`UNKNOWN`); where something is listed or counted, the log is. Inside `MULTI` a command concerns this node only.

use crate::chores::Chores;
use crate::commands;
use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::durability_order::{self, DurabilityOrders};
use crate::endpoint::Endpoint;
use crate::gateway::Gateway;
use crate::gather::Gather;
use crate::key_counts::{KeyCountQuery, KeyCounts};
use crate::offload::OffloadJob;
use crate::outbox::Told;
use crate::program::Program;
use crate::pubsub::SubscriptionKind;
use crate::seeking::Seeking;
use crate::session::Session;
use bytes::Bytes;
use command::{CommandId, ReplyError, Spec};
use ids::{Monotonic, NodeId};
use options::{Change, Parameter};
use peer_wire::{PeerAnswer, PeerMessage, Question};
use replica::ReplyTo;
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// How long other nodes are waited for.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// How long the meta group is waited for, where nothing can be done without it.
const META_PATIENCE: Duration = Duration::from_secs(10);

/// How long they are waited for that write all they have to disk.
const SAVE_PATIENCE: Duration = Duration::from_secs(600);

/// Questions of one worker that wait for an answer. At the limit nobody is asked, as if nobody had answered; messages to
/// channels are sent without asking how many they reach.
const QUESTIONS_MAX: usize = 65_536;

/// Bits of a question's number that count; the worker that asks stands above them. The answer is for that one, and it need not be the one
/// that has its groups with the one that answers.
pub(crate) const QUESTION_BITS: u32 = 48;

/// The format of questions.
const FORMAT: u8 = 1;

/// Words of a question. No command that is asked has more; longer questions are not answered.
const WORDS_MAX: usize = 1_024 * 1_024;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Fanout {
    /// The number of the last question.
    asked: u64,
    /// Unanswered ones, the oldest first.
    questions: BTreeMap<u64, Asking>,
    /// Commands that wait for answers, by connection and place. Bounded by the pipelines of their connections.
    gathered: BTreeMap<(u64, u64), Gathered>,
    /// For the meta group, until the driver takes them: at the turn's end.
    pub(crate) wishes: Vec<Wish>,
    /// `INFO` for which others were asked how many keys they have.
    pub(crate) infos: Gather<KeyCountQuery>,
    /// What every worker does for one client.
    pub(crate) chores: Chores,
    pub(crate) durability_orders: DurabilityOrders,
    /// Programs that wait for scripts which others may know.
    pub(crate) seeking: Seeking,
}

/// Options that the meta group is to set for the whole cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Under which its outcome is told.
    pub id: u64,
    /// Names and values.
    pub settings: Vec<(String, String)>,
}

/// Who is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whom {
    Node(NodeId),
    Meta,
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whom::Node(node) => write!(f, "node {}", node.0),
            Whom::Meta => f.write_str("the meta group"),
        }
    }
}

/// What an answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A part of a command.
    Part,
    /// How many connections a message reached.
    Receivers,
    /// How many keys the node's groups hold.
    KeyCounts,
    /// Whether all snapshots are stored.
    Save,
    /// How far replicas are on disk.
    Sync,
    /// The source of a script.
    Script,
    /// Whether the node has followed an order of another durability; and, of the meta group, whether it is given.
    Durability,
}

impl Purpose {
    /// Whether an answer takes as long as data take to be written.
    fn is_long(self) -> bool {
        match self {
            Purpose::Save | Purpose::Durability => true,
            Purpose::Part | Purpose::Receivers | Purpose::KeyCounts | Purpose::Sync | Purpose::Script => {
                false
            }
        }
    }
}

/// A question under way.
struct Asking {
    whom: Whom,
    until: Monotonic,
    reply_to: ReplyTo,
    purpose: Purpose,
    /// What is asked as soon as there is a link.
    unsent: Option<Bytes>,
}

/// What is known of an answer.
struct Gathered {
    join: Join,
    protocol: Protocol,
    items: Vec<Item>,
    left: usize,
    /// `CONFIG SET`: what is to be set on all nodes as soon as the meta group has spoken.
    wished: Vec<(String, String)>,
    /// Who did not answer.
    silent: Vec<Whom>,
}

/// A part of a reply.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Item {
    Number(i64),
    Text(Vec<u8>),
}

/// How answers become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    /// Numbers are added.
    Sum,
    /// As [`Join::Sum`]; something must have been found.
    SomeFound,
    /// Texts are put one behind the other.
    Texts,
    /// All names, each once.
    Names,
    /// How many different names there are.
    NamesCounted,
    /// Pairs of a name and a number, in the same order everywhere: the numbers are added.
    Counts,
    /// Everybody has done it.
    Done,
    /// The meta group has it, so that everybody will.
    Kept,
    /// Everybody in reach has it: others ask for it. The first answer is everybody's.
    Loaded,
    /// Numbers in the same order everywhere: whether any is not zero.
    Found,
    /// As [`Join::Sum`]: `SCRIPT KILL` and `FUNCTION KILL` must have found something.
    Killed,
}

impl Join {
    /// How the answers to a command become one; `None` if it concerns the node alone.
    pub(crate) fn of(spec: &Spec, args: Args<'_>) -> Option<Join> {
        Some(match spec.id {
            CommandId::ClientList => Join::Texts,
            CommandId::ClientKill if args.len() == 3 => Join::SomeFound,
            CommandId::ClientKill | CommandId::ClientUnblock => Join::Sum,
            CommandId::ClientPause | CommandId::ClientUnpause => Join::Done,
            // Keys expire where their group is led, and that may be anywhere.
            CommandId::Debug if is_word(args, 1, b"set-active-expire") => Join::Done,
            CommandId::ConfigSet => Join::Kept,
            CommandId::PubSubChannels | CommandId::PubSubShardChannels => Join::Names,
            CommandId::PubSubNumSub | CommandId::PubSubShardNumSub => Join::Counts,
            CommandId::PubSubNumPat => Join::NamesCounted,
            CommandId::ScriptLoad => Join::Loaded,
            CommandId::ScriptExists => Join::Found,
            CommandId::ScriptFlush => Join::Done,
            CommandId::ScriptKill | CommandId::FunctionKill => Join::Killed,
            _ => return None,
        })
    }

    /// Whether clients of Redis Cluster ask every node themselves, and add the answers up.
    fn is_for_each_node(self) -> bool {
        matches!(
            self,
            Join::Texts | Join::Names | Join::NamesCounted | Join::Counts
        )
    }

    fn join(self, known: &mut Vec<Item>, more: Vec<Item>) {
        match self {
            Join::Done | Join::Kept | Join::Loaded => {}
            Join::Texts | Join::Names | Join::NamesCounted => known.extend(more),
            Join::Sum | Join::SomeFound | Join::Counts | Join::Found | Join::Killed => {
                for (known, more) in known.iter_mut().zip(more) {
                    if let (Item::Number(known), Item::Number(more)) = (known, more) {
                        *known = known.saturating_add(more);
                    }
                }
            }
        }
    }

    /// Whether the client is to be told that something may not have happened.
    fn is_unsure(self, silent: &[Whom]) -> bool {
        match self {
            Join::Done => !silent.is_empty(),
            Join::Kept => silent.contains(&Whom::Meta),
            _ => false,
        }
    }

    fn write(self, items: Vec<Item>, silent: &[Whom], w: &mut ReplyWriter<'_>) {
        match self {
            Join::Done | Join::Kept if self.is_unsure(silent) => {
                let silent: Vec<String> = silent.iter().map(Whom::to_string).collect();
                let silent = silent.join(", ");
                w.error(&format!(
                    "UNKNOWN it is done here, but nothing is known of {silent}"
                ));
            }
            Join::Done | Join::Kept => w.ok(),
            Join::SomeFound if items == [Item::Number(0)] => ReplyError::NoSuchClient.write(w),
            Join::Killed if items == [Item::Number(0)] => w.error(commands::script::NOT_BUSY),
            Join::SomeFound | Join::Killed => w.ok(),
            Join::Found => {
                w.array(items.len());
                for item in items {
                    w.integer(item.into_number().unwrap_or(0).min(1));
                }
            }
            Join::Sum | Join::Loaded => items.iter().for_each(|item| item.write(w)),
            Join::Texts => {
                let texts = items.into_iter().filter_map(Item::into_text);
                w.verbatim("txt", &texts.collect::<Vec<_>>().concat());
            }
            Join::Counts => {
                w.array(items.len());
                items.iter().for_each(|item| item.write(w));
            }
            Join::Names => {
                let names: BTreeSet<Item> = items.into_iter().collect();
                w.array(names.len());
                names.iter().for_each(|item| item.write(w));
            }
            Join::NamesCounted => w.integer(items.into_iter().collect::<BTreeSet<_>>().len() as i64),
        }
    }
}

impl Item {
    fn write(&self, w: &mut ReplyWriter<'_>) {
        match self {
            Item::Number(number) => w.integer(*number),
            Item::Text(text) => w.bulk(text),
        }
    }

    fn into_number(self) -> Option<i64> {
        match self {
            Item::Number(number) => Some(number),
            Item::Text(_) => None,
        }
    }

    fn into_text(self) -> Option<Vec<u8>> {
        match self {
            Item::Number(_) => None,
            Item::Text(text) => Some(text),
        }
    }
}

/// The parts of a reply, if it is of the kinds that are joined. Total.
fn items_of(mut reply: &[u8]) -> Option<Vec<Item>> {
    let mut items = Vec::new();
    let mut is_first = true;
    while !reply.is_empty() {
        let end = reply.windows(2).position(|bytes| bytes == b"\r\n")?;
        let (line, rest) = (&reply[1..end.max(1)], &reply[end + 2..]);
        let number = || command::number::parse_i64(line);
        match reply[0] {
            b':' => {
                items.push(Item::Number(number()?));
                reply = rest;
            }
            b'$' => {
                let len = usize::try_from(number()?).ok()?;
                let text = rest.get(..len)?;
                items.push(Item::Text(text.to_vec()));
                reply = rest.get(len.checked_add(2)?..)?;
            }
            b'*' if is_first => reply = rest,
            b'+' => reply = rest,
            _ => return None,
        }
        is_first = false;
    }
    Some(items)
}

fn is_word(args: Args<'_>, at: usize, word: &[u8]) -> bool {
    args.get(at).is_some_and(|given| given.eq_ignore_ascii_case(word))
}

fn question_of(args: Args<'_>) -> Bytes {
    let mut bytes = vec![FORMAT];
    bytes.extend((args.len() as u32).to_le_bytes());
    for word in args.iter() {
        bytes.extend((word.len() as u32).to_le_bytes());
        bytes.extend(word);
    }
    bytes.into()
}

/// The words of a question. Total.
pub(crate) fn words_of(bytes: &[u8]) -> Option<ArgsBuf> {
    let number = |bytes: &[u8]| Some(u32::from_le_bytes(*bytes.first_chunk()?) as usize);
    let (&[FORMAT], rest) = bytes.split_first_chunk()? else {
        return None;
    };
    let count = number(rest)?;
    let mut rest = &rest[4..];
    if count > WORDS_MAX.min(rest.len() / 4) {
        return None;
    }
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let len = number(rest)?;
        words.push(rest.get(4..)?.get(..len)?);
        rest = &rest[4 + len..];
    }
    rest.is_empty().then(|| ArgsBuf::from_slices(words))
}

/// The pairs of a `CONFIG SET` that concern the whole cluster.
fn shared_settings(args: Args<'_>) -> Vec<(String, String)> {
    let text = |at: usize| std::str::from_utf8(args.get(at)?).ok();
    let pairs = (2..args.len()).step_by(2).filter_map(|at| {
        let row = Parameter::find(text(at)?).filter(|row| row.change == Change::Live)?;
        Some((row.name.to_owned(), text(at + 1)?.to_owned()))
    });
    pairs.collect()
}

/// Whether a `CONFIG SET` sets the password of clients.
fn names_password(args: Args<'_>) -> bool {
    let mut names = (2..args.len()).step_by(2);
    names.any(|at| is_word(args, at, b"requirepass"))
}

impl Fanout {
    /// Asks every node that is up. How many were asked, and who could not be.
    pub(crate) fn ask_nodes(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        purpose: Purpose,
        args: Args<'_>,
    ) -> (usize, Vec<NodeId>) {
        let nodes = cx.view.nodes_up().collect::<Vec<_>>();
        if self.questions.len() + nodes.len() > QUESTIONS_MAX {
            return (0, nodes);
        }
        let bytes = question_of(args);
        for &node in &nodes {
            let id = self.note_question(cx, Whom::Node(node), reply_to, purpose);
            let bytes = bytes.clone();
            cx.send_to_node(node, PeerMessage::Fanout(Question { id, bytes }));
        }
        (nodes.len(), Vec::new())
    }

    /// Says whether a command waits for other answers than those that questions were asked for.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut left: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for asking in self
            .questions
            .values()
            .filter(|asking| asking.purpose == Purpose::Part)
        {
            *left.entry(asking.reply_to.place()).or_default() += 1;
        }
        let waiting = self
            .gathered
            .iter()
            .map(|(place, gathered)| (*place, gathered.left));
        match left.iter().map(|(place, left)| (*place, *left)).eq(waiting) {
            true => {
                let others = self.infos.check().and_then(|()| self.chores.check());
                others.and_then(|()| self.seeking.check())
            }
            false => Err(format!(
                "questions are open of {left:?}, and others are waited for"
            )),
        }
    }

    pub(crate) fn note_question(
        &mut self,
        cx: &mut Context,
        whom: Whom,
        reply_to: ReplyTo,
        purpose: Purpose,
    ) -> u64 {
        let until = cx.now.after(match (whom, purpose.is_long()) {
            (Whom::Node(_), true) => SAVE_PATIENCE,
            // There may be no leader for a while.
            (Whom::Meta, true) => META_PATIENCE,
            (Whom::Node(_) | Whom::Meta, false) => PATIENCE,
        });
        self.asked += 1;
        let id = u64::from(cx.worker) << QUESTION_BITS | self.asked;
        let asking = Asking {
            whom,
            until,
            reply_to,
            purpose,
            unsent: None,
        };
        self.questions.insert(id, asking);
        id
    }

    /// A program begins when others have been asked for its scripts that are not known here.
    pub(crate) fn seek(&mut self, cx: &mut Context, reply_to: ReplyTo, mut program: Program) {
        let mut left = 0;
        let shared = cx.shared.clone();
        let sources = program.long_sources();
        let compilations: Vec<_> = sources
            .map(|source| cx.scripts.compilation(&shared.scripts, source, false))
            .collect();
        if compilations.iter().any(Option::is_none) {
            // It is known by now, or wrong.
            program.look_at_scripts_again(cx);
        }
        for compilation in compilations.into_iter().flatten() {
            let compiled = OffloadJob::compiled(reply_to, compilation);
            cx.outbox.offload_jobs.push(compiled);
            left += 1;
        }
        for sha1 in program.unknown_scripts() {
            let words = ArgsBuf::from_slices([&b"EVALSHA"[..], &sha1, b"0"]);
            left += self.ask_nodes(cx, reply_to, Purpose::Script, words.as_args()).0;
        }
        self.seeking.wait(cx, reply_to, program, left);
    }

    /// This node has carried its part out: the others are asked for theirs.
    fn begin(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        join: Join,
        protocol: Protocol,
        items: Vec<Item>,
        args: Args<'_>,
    ) {
        let reply_to = cx.reserve(connection);
        let (asked, silent) = self.ask_nodes(cx, reply_to, Purpose::Part, args);
        let silent = silent.into_iter().chain(cx.view.nodes_down());
        let gathered = Gathered {
            join,
            protocol,
            items,
            left: asked,
            wished: Vec::new(),
            silent: silent.map(Whom::Node).collect(),
        };
        self.gathered.insert(reply_to.place(), gathered);
        if asked == 0 {
            self.finish_gathered(cx, reply_to);
        }
    }

    /// `CONFIG SET`, where there are other nodes.
    fn set_everywhere(&mut self, cx: &mut Context, connection: &mut Connection, args: Args<'_>) {
        if let Err(error) = crate::commands::config::check(cx, args) {
            // Whatever is wrong with it is so everywhere.
            return error.write(&mut connection.writer());
        }
        let settings = shared_settings(args);
        if settings.is_empty() {
            // All of them have these values already.
            return connection.writer().ok();
        }
        let reply_to = cx.reserve(connection);
        connection.session.in_flight.is_waiting = true;
        let id = self.note_question(cx, Whom::Meta, reply_to, Purpose::Part);
        let gathered = Gathered {
            join: Join::Kept,
            protocol: connection.session.protocol,
            items: Vec::new(),
            left: 1,
            wished: settings.clone(),
            silent: Vec::new(),
        };
        self.gathered.insert(reply_to.place(), gathered);
        self.wishes.push(Wish { id, settings });
    }

    /// The meta group has spoken, or has not in time: what was wished is set, here and on the other nodes. Without a version
    /// it holds until the meta group sets something else.
    fn set_on_nodes(&mut self, cx: &mut Context, reply_to: ReplyTo, versions: Option<&[u64]>) {
        let gathered = self.gathered.get_mut(&reply_to.place());
        let gathered = gathered.expect("a command waits as long as its questions do");
        let wished = std::mem::take(&mut gathered.wished);
        let versions = versions.unwrap_or_default().iter().copied();
        let versions = versions
            .chain(std::iter::repeat(0))
            .map(|version| version.to_string());
        let words = wished.iter().zip(versions);
        let words = words.flat_map(|((name, value), version)| [name.clone(), value.clone(), version]);
        let words = ["CONFIG", "SET"].into_iter().map(str::to_owned).chain(words);
        let words = ArgsBuf::from_slices(words.collect::<Vec<_>>());
        set_for_cluster(cx, words.as_args());
        let (asked, silent) = self.ask_nodes(cx, reply_to, Purpose::Part, words.as_args());
        // A node that has just become a member may serve clients already, and its link to this worker be on its way.
        let down: Vec<NodeId> = cx.view.nodes_down().collect();
        let bytes = question_of(words.as_args());
        for &node in &down {
            let id = self.note_question(cx, Whom::Node(node), reply_to, Purpose::Part);
            let asking = self.questions.get_mut(&id).expect("it was just noted");
            asking.unsent = Some(bytes.clone());
        }
        let gathered = self.gathered.get_mut(&reply_to.place());
        let gathered = gathered.expect("it was just there");
        gathered.left += asked + down.len();
        gathered.silent.extend(silent.into_iter().map(Whom::Node));
    }

    /// There is a link to a node: what waited for it is asked.
    pub(crate) fn ask_unsent(&mut self, cx: &mut Context, node: NodeId) {
        let questions = self.questions.iter_mut();
        let unsent: Vec<Question> = questions
            .filter(|(_, asking)| asking.whom == Whom::Node(node))
            .filter_map(|(id, asking)| asking.unsent.take().map(|bytes| Question { id: *id, bytes }))
            .collect();
        for question in unsent {
            cx.send_to_node(node, PeerMessage::Fanout(question));
        }
    }

    /// What the meta group is to set.
    pub(crate) fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// The meta group has done what was wished, or it is not known whether it will.
    /// With the versions that it has given to the settings, in their order.
    pub(crate) fn on_wish(&mut self, cx: &mut Context, id: u64, versions: Option<Vec<u64>>) {
        if let Some(asking) = self.questions.get(&id)
            && asking.whom == Whom::Meta
        {
            if asking.purpose == Purpose::Durability {
                let reply_to = asking.reply_to;
                self.questions.remove(&id);
                let epoch = versions.and_then(|versions| versions.first().copied());
                return durability_order::on_wish(self, cx, reply_to, epoch);
            }
            self.set_on_nodes(cx, asking.reply_to, versions.as_deref());
            self.end_question(cx, id, versions.map(|_| Vec::new()));
        }
    }

    /// Another node has carried out its part.
    pub(crate) fn on_part_answer(&mut self, cx: &mut Context, from: NodeId, answer: &PeerAnswer) {
        let is_asked = |asking: &Asking| asking.whom == Whom::Node(from);
        if self.questions.get(&answer.id).is_some_and(is_asked) {
            self.end_question(cx, answer.id, items_of(&answer.bytes));
        }
    }

    /// A node is out of reach: it will not answer.
    pub(crate) fn end_questions_to(&mut self, cx: &mut Context, node: NodeId) {
        let asked = self.questions.iter();
        let ids: Vec<u64> = asked
            .filter(|(_, asking)| asking.whom == Whom::Node(node))
            .map(|(id, _)| *id)
            .collect();
        ids.into_iter().for_each(|id| self.end_question(cx, id, None));
    }

    /// Whether answers of other nodes are waited for.
    pub(crate) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Waits no longer for answers that are overdue.
    pub(crate) fn end_overdue_questions(&mut self, cx: &mut Context) {
        // The oldest come first, but for those that are waited for longer: one behind others is looked at when those are over.
        let now = cx.now;
        let is_last = |asking: &Asking| asking.until <= now || !asking.purpose.is_long();
        while let Some((&id, asking)) = self.questions.iter().find(|(_, asking)| is_last(asking)) {
            if asking.until > now {
                return;
            }
            match asking.whom {
                Whom::Meta => self.on_wish(cx, id, None),
                Whom::Node(_) => self.end_question(cx, id, None),
            }
        }
    }

    /// An answer, or none, to a question that there is.
    fn end_question(&mut self, cx: &mut Context, id: u64, answer: Option<Vec<Item>>) {
        let asking = self.questions.remove(&id).expect("the caller has seen it");
        match asking.purpose {
            Purpose::Part => {}
            Purpose::Receivers => {
                let receivers = match answer.as_deref() {
                    Some(&[Item::Number(receivers)]) => u64::try_from(receivers).unwrap_or(0),
                    _ => 0,
                };
                return cx
                    .outbox
                    .told
                    .push_back(Told::Received(asking.reply_to, receivers));
            }
            Purpose::Save | Purpose::Sync | Purpose::Durability => {
                let Whom::Node(node) = asking.whom else {
                    unreachable!(
                        "the meta group has no replicas of keys, and its word on an order is looked at where it comes"
                    );
                };
                let numbers = answer.and_then(|items| items.into_iter().map(Item::into_number).collect());
                return cx
                    .outbox
                    .told
                    .push_back(Told::NodeDone(asking.reply_to, node, numbers));
            }
            Purpose::Script => {
                let source = match answer.as_deref() {
                    Some([Item::Text(source)]) => Some(&source[..]),
                    _ => None,
                };
                return self.seeking.on_answer(cx, asking.reply_to, source);
            }
            Purpose::KeyCounts => {
                let numbers = answer.unwrap_or_default().into_iter();
                let numbers: Option<Vec<i64>> = numbers.map(Item::into_number).collect();
                let counts = numbers.and_then(|numbers| KeyCounts::from_numbers(&numbers));
                return self.infos.on_counted(cx, asking.reply_to, counts);
            }
        }
        let gathered = self.gathered.get_mut(&asking.reply_to.place());
        let gathered = gathered.expect("a command waits as long as its questions do");
        match answer {
            Some(items) => gathered.join.join(&mut gathered.items, items),
            None => gathered.silent.push(asking.whom),
        }
        gathered.left -= 1;
        if gathered.left == 0 {
            self.finish_gathered(cx, asking.reply_to);
        }
    }

    fn finish_gathered(&mut self, cx: &mut Context, reply_to: ReplyTo) {
        let gathered = self.gathered.remove(&reply_to.place());
        let gathered = gathered.expect("the caller has it");
        for whom in &gathered.silent {
            tracing::warn!(%whom, "no answer in time to what concerns the whole cluster: it is left out");
        }
        let mut bytes = Vec::new();
        let mut w = ReplyWriter::new(&mut bytes, gathered.protocol);
        gathered.join.write(gathered.items, &gathered.silent, &mut w);
        cx.deliver(match gathered.join {
            // Its next commands are carried out under what was set.
            Join::Kept => Delivery::Awaited { reply_to, bytes },
            _ => Delivery::Reply { reply_to, bytes },
        });
    }
}

/// A command that concerns every node, outside of `MULTI`. `false` if it concerns this one alone, or there is no other:
/// then nothing was done.
pub(crate) fn on_every_node(
    gateway: &mut Gateway,
    connection: &mut Connection,
    spec: &'static Spec,
    args: Args<'_>,
) -> bool {
    if spec.id == CommandId::ConfigSet
        && durability_order::order(&mut gateway.fanout, &mut gateway.cx, connection, args)
    {
        return true;
    }
    let is_asked_alone =
        |join: &Join| connection.session.endpoint == Endpoint::Cluster && join.is_for_each_node();
    // The password is the cluster's also where that is this node alone: a start without it asks for it all the same.
    let is_kept_alone =
        |join: &Join| *join == Join::Kept && gateway.cx.view.layout().is_some() && names_password(args);
    let is_wider = |join: &Join| gateway.cx.view.is_spread || is_kept_alone(join);
    let join = Join::of(spec, args).filter(|join| is_wider(join) && !is_asked_alone(join));
    let Some(join) = join else {
        return false;
    };
    if join == Join::Kept {
        gateway.fanout.set_everywhere(&mut gateway.cx, connection, args);
        return true;
    }
    let mut reply = Vec::new();
    let protocol = std::mem::replace(&mut connection.session.protocol, Protocol::Resp2);
    carry_out_part(gateway, &mut connection.session, spec, args, &mut reply);
    connection.session.protocol = protocol;
    let Some(items) = items_of(&reply) else {
        // Whatever is wrong with it is so everywhere.
        connection.pipeline.target().extend(reply);
        return true;
    };
    let cx = &mut gateway.cx;
    gateway.fanout.begin(cx, connection, join, protocol, items, args);
    true
}

/// Sets what is set for the whole cluster: names, values, versions; those without a version bear 0. `false` if it is
/// not that.
pub(crate) fn set_for_cluster(cx: &mut Context, args: Args<'_>) -> bool {
    let text = |at: usize| std::str::from_utf8(args.get(at)?).ok();
    let settings: Option<Vec<(&str, &str, u64)>> = (2..args.len())
        .step_by(3)
        .map(|at| Some((text(at)?, text(at + 1)?, text(at + 2)?.parse().ok()?)))
        .collect();
    let Some(settings) = settings else {
        return false;
    };
    let (unversioned, versioned): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|(.., version)| *version == 0);
    cx.shared.set_for_cluster(versioned);
    let pairs = unversioned.iter();
    let pairs: Vec<(&[u8], &[u8])> = pairs
        .map(|(name, value, _)| (name.as_bytes(), value.as_bytes()))
        .collect();
    if let Err(error) = cx.shared.set_settings(&pairs) {
        tracing::warn!(%error, "what is set for the whole cluster cannot be set here");
    }
    // What follows in this turn already sees it.
    cx.outbox.told.push_back(Told::Settings);
    true
}

/// Carries out this node's part.
pub(crate) fn carry_out_part(
    gateway: &mut Gateway,
    session: &mut Session,
    spec: &'static Spec,
    args: Args<'_>,
    reply: &mut Vec<u8>,
) {
    match Join::of(spec, args) {
        Some(Join::NamesCounted) => {
            let names = gateway.cx.shared.subscriptions.lock(SubscriptionKind::Pattern);
            let mut w = ReplyWriter::new(reply, Protocol::Resp2);
            w.array(names.len());
            names.keys().for_each(|name| w.bulk(name));
        }
        Some(Join::Killed) => {
            let killed = gateway.cx.shared.scripts.kill(spec.id == CommandId::FunctionKill);
            ReplyWriter::new(reply, Protocol::Resp2).integer(killed as i64);
        }
        Some(Join::SomeFound) => {
            commands::run_own(gateway, session, spec, args, reply);
            let killed = i64::from(reply.first() != Some(&b'-'));
            reply.clear();
            ReplyWriter::new(reply, Protocol::Resp2).integer(killed);
        }
        _ => commands::run_own(gateway, session, spec, args, reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_taken_apart() {
        let text = |text: &str| Item::Text(text.into());
        assert_eq!(items_of(b":3\r\n"), Some(vec![Item::Number(3)]));
        assert_eq!(items_of(b"$3\r\na\r\n\r\n"), Some(vec![text("a\r\n")]));
        assert_eq!(items_of(b"*0\r\n"), Some(Vec::new()));
        let pair = items_of(b"*2\r\n$1\r\nc\r\n:1\r\n");
        assert_eq!(pair, Some(vec![text("c"), Item::Number(1)]));
        for broken in [
            "-ERR x\r\n",
            ":x\r\n",
            "$9\r\na\r\n",
            "$-1\r\n",
            ":1",
            "\r\n",
            "*1\r\n*1\r\n",
        ] {
            assert_eq!(items_of(broken.as_bytes()), None, "{broken:?}");
        }
    }

    #[test]
    fn a_question_is_the_words_of_a_command() {
        let words = ArgsBuf::from_slices(["CLIENT", "", "LIST"]);
        let bytes = question_of(words.as_args());
        let read = words_of(&bytes).expect("it was just written");
        assert!(read.as_args().iter().eq(words.as_args().iter()));
        for len in 0..bytes.len() {
            assert!(words_of(&bytes[..len]).is_none(), "{len}");
        }
    }
}
