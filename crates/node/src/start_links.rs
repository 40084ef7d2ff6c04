//! The links of a start, and what it waits with: there are no workers yet, so it has one transport of its own.

use crate::announcing;
use crate::bootstrap::Failure;
use crate::clock;
use crate::peers::{PEERS, greeter};
use ids::{GroupCount, Monotonic};
use mio::{Events, Poll};
use options::Settings;
use peer_wire::hello::{Peer, Secret, Who};
use std::time::Duration;
use transport::{Greeter, Refusals, Transport, TransportEvent, TransportSettings};

/// How long a start waits at most before it looks at the time.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// See the file's header.
pub(crate) struct StartLinks {
    poll: Poll,
    events: Events,
    pub(crate) transport: Transport<Greeter>,
}

impl StartLinks {
    /// Whoever joins dials, and is not dialled; all others listen.
    ///
    /// # Errors
    /// What the system answers.
    pub(crate) fn open(
        settings: &Settings,
        who: Who,
        secret: &Secret,
        (workers, groups): (u16, Option<GroupCount>),
        refusals: Refusals,
    ) -> Result<StartLinks, Failure> {
        let poll = Poll::new().map_err(unreachable_nodes)?;
        let transport_settings = TransportSettings {
            own: who.node(),
            worker: 0,
            first_token: PEERS,
            seed: clock::raw().0,
        };
        let registry = poll.registry().try_clone().map_err(unreachable_nodes)?;
        let mut greeter = greeter(who, secret.clone(), (0, workers), groups, None);
        greeter.refusals = Some(refusals);
        let mut transport = Transport::new(transport_settings, greeter, registry);
        if let Some(address) = announcing::peer_address(settings)
            && who != Who::Joining
        {
            transport.listen(address).map_err(|error| {
                format!("cannot listen on the peer port {address}: {error}; choose another with --peer-port")
            })?;
        }
        Ok(StartLinks {
            poll,
            events: Events::with_capacity(64),
            transport,
        })
    }

    /// Waits until a socket is ready, or something is due.
    pub(crate) fn wait(&mut self, timer: Option<Monotonic>) -> Result<(), Failure> {
        let now = clock::raw();
        let due = timer.map_or(WAIT_MAX, |timer| timer.since(now));
        let wait = due.min(self.transport.next_due().since(now)).min(WAIT_MAX);
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(unreachable_nodes(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What the links have brought, of that what `note` keeps.
    pub(crate) fn read<T>(&mut self, note: impl Fn(TransportEvent<'_, Peer>) -> Option<T>) -> Vec<T> {
        let now = clock::raw();
        let mut happened = Vec::new();
        for event in &self.events {
            self.transport
                .on_ready(event, now, &mut |event| happened.extend(note(event)));
        }
        self.transport
            .tick(now, &mut |event| happened.extend(note(event)));
        happened
    }
}

fn unreachable_nodes(error: std::io::Error) -> Failure {
    format!("cannot reach other nodes: {error}")
}
