//! What this node asks of whoever leads the meta group, until it is answered.
//!
//! ```text
//!   start (Create, Join, Boot) --------.
//!   proposals, one after the other ----+--> sent, again and again --> answered
//!   what newcomers ask, for them ------'                         '--> given up after a while (not a start)
//! ```

use super::contact::Contact;
use super::message::RequestAnswer;
use super::proposal::{Author, Proposal};
use crate::command::MetaCommand;
use ids::{Monotonic, NodeId, Token};
use std::time::Duration;

/// What waits of this node's own proposals. One more is refused at once.
const OWN_MAX: usize = 256;

/// What waits of newcomers' requests. One more is passed over: it will be sent again.
const NEWCOMERS_MAX: usize = 64;

/// After so long without an answer a request is sent again, perhaps to somebody else.
const RETRY: Duration = Duration::from_millis(500);

/// After being sent elsewhere: two nodes that send to each other must not keep the network busy.
const DETOUR: Duration = Duration::from_millis(50);

/// After so long nobody waits for a proposal any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// For whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    /// The node itself, which starts.
    Start,
    /// Its owner.
    Owner {
        /// As `propose` answered.
        id: u64,
    },
    /// A newcomer that does not know who leads.
    Newcomer {
        /// Where it is.
        contact: Contact,
        /// Its number for the request.
        id: u64,
    },
}

pub(crate) struct PendingRequest {
    pub(crate) id: u64,
    pub(crate) client: Client,
    pub(crate) command: MetaCommand,
    /// As it is sent; none before it was.
    pub(crate) proposal: Option<Vec<u8>>,
    tries: u32,
    due: Monotonic,
    until: Option<Monotonic>,
}

/// See the file's header.
pub(crate) struct PendingRequests {
    list: Vec<PendingRequest>,
    last_id: u64,
    last_number: u64,
}

/// One that is to be sent now.
pub(crate) struct Due {
    pub(crate) id: u64,
    pub(crate) proposal: Vec<u8>,
    /// How often it was sent before.
    pub(crate) tries: u32,
}

impl PendingRequests {
    /// None. Numbers begin anywhere: whoever leads may answer what an earlier life of this node asked, and that must not be
    /// taken for an answer to this one. It says which replicas have kept their memory, and they would be other ones.
    pub(crate) fn new(token: Token) -> PendingRequests {
        PendingRequests {
            list: Vec::new(),
            last_id: (token.0 >> 65) as u64,
            last_number: 0,
        }
    }

    fn add(&mut self, client: Client, command: MetaCommand, proposal: Option<Vec<u8>>) {
        self.last_id += 1;
        self.list.push(PendingRequest {
            id: self.last_id,
            client,
            command,
            proposal,
            tries: 0,
            due: Monotonic(0),
            until: None,
        });
    }

    /// The command by which the node begins. It goes by its own name: no author is known yet.
    pub(crate) fn start(&mut self, command: MetaCommand) {
        let proposal = Proposal {
            author: None,
            command: command.clone(),
        };
        self.add(Client::Start, command, Some(proposal.encode()));
    }

    /// A node that joins is to have so much. What was asked before there was a link has reached nobody; and should it join twice, it is the
    /// first time that counts.
    pub(crate) fn set_weight(&mut self, percent: u16) {
        let is_start = |request: &&mut PendingRequest| request.client == Client::Start;
        let Some(request) = self.list.iter_mut().find(is_start) else {
            return;
        };
        if let MetaCommand::Join { announcement, .. } = &mut request.command {
            announcement.weight_percent = percent;
            let proposal = Proposal {
                author: None,
                command: request.command.clone(),
            };
            request.proposal = Some(proposal.encode());
        }
    }

    /// Whether the node still asks to be counted.
    pub(crate) fn has_start(&self) -> bool {
        let mut all = self.list.iter();
        all.any(|pending_request| pending_request.client == Client::Start)
    }

    /// `false` if too much is waiting.
    pub(crate) fn own(&mut self, id: u64, command: MetaCommand) -> bool {
        let own = self.list.iter();
        let waiting = own.filter(|pending_request| matches!(pending_request.client, Client::Owner { .. }));
        if waiting.count() >= OWN_MAX {
            return false;
        }
        self.add(Client::Owner { id }, command, None);
        true
    }

    pub(crate) fn newcomer(&mut self, contact: Contact, id: u64, command: MetaCommand, proposal: Vec<u8>) {
        let newcomers = || {
            let is_newcomers =
                |pending_request: &&PendingRequest| matches!(pending_request.client, Client::Newcomer { .. });
            self.list.iter().filter(is_newcomers)
        };
        let is_known =
            newcomers().any(|pending_request| pending_request.client == Client::Newcomer { contact, id });
        if !is_known && newcomers().count() < NEWCOMERS_MAX {
            self.add(Client::Newcomer { contact, id }, command, Some(proposal));
        }
    }

    /// A newcomer is gone: whoever comes there next asks for itself, and what its forerunner asked for would add a node that is not
    /// there, at the address of one that is.
    pub(crate) fn newcomer_left(&mut self, gone: Contact) {
        let is_its = |pending_request: &PendingRequest| matches!(pending_request.client, Client::Newcomer { contact, .. } if contact == gone);
        self.list.retain(|pending_request| !is_its(pending_request));
    }

    /// Those whose time has come. A node's own proposals go one at a time, and once it has started: then each has a number
    /// under which it is carried out once.
    pub(crate) fn take_due(&mut self, author: Option<(NodeId, Token)>, now: Monotonic) -> Vec<Due> {
        let mut due = Vec::new();
        let mut is_first_own = true;
        for pending_request in &mut self.list {
            if !matches!(pending_request.client, Client::Start) {
                pending_request.until.get_or_insert(now.after(PATIENCE));
            }
            if matches!(pending_request.client, Client::Owner { .. }) && !std::mem::take(&mut is_first_own) {
                continue;
            }
            if now < pending_request.due {
                continue;
            }
            let proposal = match (&pending_request.proposal, author) {
                (Some(proposal), _) => proposal.clone(),
                (None, None) => continue,
                (None, Some((node, start))) => {
                    self.last_number += 1;
                    let author = Some(Author {
                        node,
                        start,
                        number: self.last_number,
                    });
                    let command = pending_request.command.clone();
                    let proposal = Proposal { author, command }.encode();
                    pending_request.proposal.insert(proposal).clone()
                }
            };
            due.push(Due {
                id: pending_request.id,
                proposal,
                tries: pending_request.tries,
            });
            pending_request.tries = pending_request.tries.saturating_add(1);
            pending_request.due = now.after(RETRY);
        }
        due
    }

    /// Those that nobody waits for any more.
    pub(crate) fn take_late(&mut self, now: Monotonic) -> Vec<PendingRequest> {
        let is_late =
            |pending_request: &mut PendingRequest| pending_request.until.is_some_and(|until| now >= until);
        self.list.extract_if(.., is_late).collect()
    }

    /// The one that was answered, if it is at an end.
    pub(crate) fn on_answer(
        &mut self,
        id: u64,
        answer: &RequestAnswer,
        now: Monotonic,
    ) -> Option<PendingRequest> {
        let place = self
            .list
            .iter()
            .position(|pending_request| pending_request.id == id)?;
        match answer {
            RequestAnswer::Done { .. } | RequestAnswer::Refused { .. } => Some(self.list.remove(place)),
            RequestAnswer::Elsewhere { .. } => {
                let pending_request = &mut self.list[place];
                pending_request.due = pending_request.due.min(now.after(DETOUR));
                None
            }
        }
    }

    /// Somebody new leads, or can be reached.
    pub(crate) fn hurry(&mut self, now: Monotonic) {
        for pending_request in &mut self.list {
            pending_request.due = pending_request.due.min(now);
        }
    }

    pub(crate) fn next_timer(&self, is_started: bool) -> Option<Monotonic> {
        let mut is_first_own = true;
        let dues = self.list.iter().filter_map(|pending_request| {
            let is_own = matches!(pending_request.client, Client::Owner { .. });
            let is_next = !is_own || (std::mem::take(&mut is_first_own) && is_started);
            is_next.then_some(pending_request.due)
        });
        let lates = self
            .list
            .iter()
            .filter_map(|pending_request| pending_request.until);
        dues.chain(lates).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_what_an_earlier_life_asked_is_none_to_this_one() {
        let now = Monotonic(0);
        let remove = MetaCommand::Remove { node: NodeId(3) };
        let life = |token: u128| {
            let mut pending_requests = PendingRequests::new(Token(token));
            pending_requests.start(remove.clone());
            let due = pending_requests
                .take_due(None, now)
                .into_iter()
                .map(|due| due.id)
                .collect::<Vec<_>>();
            (pending_requests, due)
        };
        let ((_, before), (mut pending_requests, after)) = (life(7 << 100), life(9 << 100));
        let answer = RequestAnswer::Refused {
            refusal: crate::command::MetaRefusal::Malformed,
        };
        assert!(pending_requests.on_answer(before[0], &answer, now).is_none());
        assert!(pending_requests.on_answer(after[0], &answer, now).is_some());
    }

    #[test]
    fn nothing_is_asked_any_more_for_a_newcomer_that_is_gone() {
        let mut pending_requests = PendingRequests::new(Token(1));
        let remove = MetaCommand::Remove { node: NodeId(3) };
        for contact in [Contact::Newcomer(4), Contact::Newcomer(5)] {
            pending_requests.newcomer(contact, 1, remove.clone(), vec![1]);
        }
        pending_requests.newcomer_left(Contact::Newcomer(4));
        assert_eq!(pending_requests.take_due(None, Monotonic(0)).len(), 1);
        pending_requests.newcomer_left(Contact::Newcomer(5));
        assert_eq!(pending_requests.take_due(None, Monotonic(1 << 40)).len(), 0);
    }
}
