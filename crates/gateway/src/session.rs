//! One client's state: what the protocol makes a connection remember.

use crate::client::ClientInfo;
use crate::endpoint::Endpoint;
use crate::idempotency::Naming;
use crate::in_flight::InFlight;
use crate::pubsub::Listening;
use bytes::Bytes;
use command::{CommandId, Spec};
use ids::{Db, RequestUuid};
use keyspace::KeyVersion;
use replica::{Asked, Operation};
use resp::{Args, ArgsBuf, Protocol};
use std::sync::Arc;

/// A connection as the gateway knows it.
pub struct Session {
    /// What other clients may see of it, shared with `CLIENT LIST`.
    pub info: Arc<ClientInfo>,
    /// The place of the connection in its worker's table; never reused for another connection.
    pub token: u64,
    /// Which way it came in.
    pub endpoint: Endpoint,
    /// The selected database.
    pub db: Db,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Whether commands other than `AUTH`, `HELLO`, `QUIT` and `RESET` are allowed.
    pub is_authenticated: bool,
    /// The open `MULTI` block.
    pub block: Option<Block>,
    /// What `WATCH` remembers.
    pub watched: Vec<Watched>,
    /// Channels and patterns, and whether it monitors; `None` for most.
    pub(crate) listening: Option<Box<Listening>>,
    /// The connection ends once its replies are sent.
    pub is_closing: bool,
    /// It holds more unread replies than it may: the driver ends it.
    pub is_overrun: bool,
    /// What was carried out for it must not be told: the driver closes it before anything is sent.
    pub is_void: bool,
    /// What it has under way.
    pub(crate) in_flight: InFlight,
    /// What its client has asked for of the commands that follow.
    pub(crate) modes: Modes,
}

/// What a client has asked for of its commands.
#[derive(Default)]
pub(crate) struct Modes {
    /// `READONLY`.
    pub(crate) reads_at_replicas: bool,
    /// `CLIENT REPLY`.
    pub(crate) reply_mode: ReplyMode,
    /// `CLIENT NO-TOUCH ON`: they do not count as use of keys.
    pub(crate) no_touch: bool,
    /// `CLIENT REQUEST`.
    pub(crate) naming: Naming,
}

/// The commands of a `MULTI` block.
#[derive(Default)]
pub struct Block {
    /// In the order they came.
    pub commands: Vec<Queued>,
    /// It names keys already, and was accepted here: it stays, wherever its later keys belong.
    pub has_place: bool,
    /// What `CLIENT REQUEST` called it.
    pub request: Option<RequestUuid>,
    /// A command was refused: `EXEC` must fail.
    pub is_broken: bool,
    /// Memory of the queued commands, bounded by the query buffer limit.
    pub bytes: usize,
}

/// One command of a `MULTI` block.
pub struct Queued {
    /// Which command.
    pub spec: &'static Spec,
    /// Name and arguments.
    pub args: ArgsBuf,
}

/// One watched key.
#[derive(Clone)]
pub struct Watched {
    /// Its database.
    pub db: Db,
    /// The key.
    pub key: Box<[u8]>,
    /// What it was.
    pub version: KeyVersion,
}

/// Which replies are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the one to the command being read now (`CLIENT REPLY SKIP` itself).
    SkipThis,
    /// Not the next one.
    SkipNext,
}

impl Session {
    /// Keys that one connection may watch. At the limit `WATCH` answers an error.
    pub const WATCHED_MAX: usize = 1 << 20;

    /// A new connection.
    pub fn new(info: Arc<ClientInfo>, token: u64, endpoint: Endpoint, is_authenticated: bool) -> Session {
        info.token.store(token, std::sync::atomic::Ordering::Relaxed);
        Session {
            info,
            token,
            endpoint,
            db: Db::default(),
            protocol: Protocol::Resp2,
            is_authenticated,
            block: None,
            watched: Vec::new(),
            listening: None,
            is_closing: false,
            is_overrun: false,
            is_void: false,
            in_flight: InFlight::default(),
            modes: Modes::default(),
        }
    }

    /// A command of this connection, as an operation that outlives its frame.
    pub(crate) fn operation(&self, spec: &'static Spec, args: Args<'_>) -> Operation {
        Operation {
            spec,
            db: self.db,
            protocol: self.protocol,
            args: args.to_buf(),
        }
    }

    /// A command of this connection on its way to its group.
    pub(crate) fn asked<'a>(
        &self,
        spec: &'static Spec,
        args: Args<'a>,
        is_free: bool,
        frame: Option<&'a Bytes>,
    ) -> Asked<'a> {
        Asked {
            spec,
            db: self.db,
            protocol: self.protocol,
            touches: self.touches(spec),
            is_free,
            began: None,
            args,
            frame,
        }
    }

    /// Whether a command counts as use of its keys.
    pub(crate) fn touches(&self, spec: &Spec) -> bool {
        !self.modes.no_touch || spec.id == CommandId::Touch
    }

    /// Whether a command that others must not overtake is under way: no more are read until it is answered.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.in_flight.is_waiting
    }

    /// Whether `CLIENT PAUSE` holds back its next command. The driver says when the pause is over.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.in_flight.is_paused
    }

    /// Whether the reply to the current command is to be dropped.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.modes.reply_mode != ReplyMode::On
    }

    /// Moves `CLIENT REPLY SKIP` and `CLIENT REQUEST` on by one command.
    #[inline]
    pub fn end_command(&mut self) {
        self.modes.reply_mode = match self.modes.reply_mode {
            ReplyMode::On => ReplyMode::On,
            ReplyMode::Off => ReplyMode::Off,
            ReplyMode::SkipThis => ReplyMode::SkipNext,
            ReplyMode::SkipNext => ReplyMode::On,
        };
        self.modes.naming.end_command();
    }
}
