//! Single scenes, played by hand: three replicas, and every message is seen.

use bytes::Bytes;
use consensus::{
    COMMITTED_BYTES, Claim, Config, Durability, EntryEffect, HardState, Index, LOG_BYTES_KEPT, LogEntry,
    Members, MessageBody, Payload, RaftMessage, RaftNode, ReadId, ReadPermit, Role, Saved, Term, Times,
};
use ids::{Boot, GroupId, Incarnation, Monotonic};
use mutations::Mutation;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// That of all nodes here, unless one starts again.
const START: Boot = Boot(1);

struct Trio {
    groups: Vec<RaftNode>,
    now: Monotonic,
    /// What was sent and not delivered.
    sent: Vec<RaftMessage>,
    confirmed: Vec<(ReadId, Index)>,
    applied: Vec<Vec<Bytes>>,
    /// Who is to be given the state.
    wanted: Vec<Incarnation>,
}

/// One of a group's first voters, with nothing in its log but them.
pub(crate) fn first_voter(me: u64, members: &Members, now: Monotonic) -> RaftNode {
    let config = Config {
        group: GroupId::new(0),
        me: Incarnation(me),
        start: Config::first(members.clone()),
        saved: Saved::default(),
        durability: Durability::Memory,
        node_start: START,
        times: Times::DEFAULT,
        seed: me,
    };
    RaftNode::new(config, now).expect("a valid configuration")
}

/// That replica in another start of its node: all behind a place of its log is lost, and it is known what was there.
pub(crate) fn damaged(replica: &RaftNode, behind: Index, start: Boot, now: Monotonic) -> RaftNode {
    let members = replica.members().clone();
    let first = Config::first(members);
    let mut entries = replica.entries_after(first.index);
    let had = (replica.last_term(), replica.last_index());
    entries.retain(|entry| entry.index <= behind);
    let last = entries
        .last()
        .map_or((first.term, first.index), |last| (last.term, last.index));
    let mut hard_state = replica.hard_state();
    hard_state.commit = hard_state.commit.min(last.1);
    let config = Config {
        group: replica.group(),
        me: replica.me(),
        start: first,
        saved: Saved {
            hard_state,
            entries,
            floor: replica.floor().max(Some(had)).filter(|floor| *floor > last),
        },
        durability: Durability::Memory,
        node_start: start,
        times: Times::DEFAULT,
        seed: replica.me().0,
    };
    RaftNode::new(config, now).expect("a valid configuration")
}

impl Trio {
    fn new() -> Trio {
        let now = Monotonic(1_000 * MS);
        let members = Members::of_voters((1..=3).map(Incarnation));
        Trio {
            groups: (1..=3).map(|me| first_voter(me, &members, now)).collect(),
            now,
            sent: Vec::new(),
            confirmed: Vec::new(),
            applied: vec![Vec::new(); 3],
            wanted: Vec::new(),
        }
    }

    /// Three replicas of which the first leads, and everybody knows.
    fn led() -> Trio {
        let mut trio = Trio::new();
        trio.wait(400);
        // The others wait longer: only the first looks at the clock.
        while !trio.groups[0].is_leader() {
            trio.wait(20);
            let now = trio.now;
            trio.groups[0].tick(now);
            trio.settle();
        }
        trio.beat(&[1, 2]);
        trio
    }

    fn wait(&mut self, ms: u64) {
        self.now = Monotonic(self.now.0 + ms * MS);
    }

    fn take(&mut self, number: usize) {
        let ready = self.groups[number].take_ready(self.now);
        self.sent.extend(ready.messages);
        self.confirmed.extend(ready.reads);
        self.wanted.extend(ready.transfers_wanted);
        if let Some(last) = ready.committed.last().map(|entry| entry.index) {
            let data = ready
                .committed
                .into_iter()
                .filter_map(|entry| match entry.effect {
                    EntryEffect::Apply(data) => Some(data),
                    _ => None,
                });
            self.applied[number].extend(data);
            self.groups[number].applied(last);
        }
    }

    /// Delivers everything that is sent between those that `hears` lets hear each other, until nothing is; answers what was
    /// lost.
    fn settle_where(&mut self, hears: impl Fn(u64, u64) -> bool) -> Vec<RaftMessage> {
        let mut lost = Vec::new();
        loop {
            for number in 0..3 {
                self.take(number);
            }
            if self.sent.is_empty() {
                return lost;
            }
            for message in std::mem::take(&mut self.sent) {
                if hears(message.from.0, message.to.0) {
                    self.groups[message.to.0 as usize - 1].step(message, self.now);
                } else {
                    lost.push(message);
                }
            }
        }
    }

    fn settle(&mut self) {
        self.settle_where(|_, _| true);
    }

    /// The first replica's claims are put to these others, at once.
    fn beat(&mut self, others: &[usize]) {
        let now = self.now;
        for claim in self.groups[0].claims() {
            let to = claim.to.0 as usize - 1;
            if !others.contains(&to) {
                continue;
            }
            if self.groups[to].confirm(&claim, now) {
                self.groups[0].acknowledged(&claim, START, now, now);
            } else {
                self.groups[0].refused(&claim, START, now);
            }
        }
        self.settle();
    }

    /// The second replica becomes leader, while the first neither hears nor is heard.
    fn usurp(&mut self) {
        self.wait(450);
        for _ in 0..60 {
            self.wait(20);
            let now = self.now;
            self.groups[1].tick(now);
            self.settle_where(|from, to| from != 1 && to != 1);
            if self.groups[1].is_leader() {
                return;
            }
        }
        panic!("the second replica is not elected");
    }
}

/// A leader that nobody hears any more asks for a round of reads; the answer to its first round arrives again.
fn late_answer_confirms() -> bool {
    let mut trio = Trio::led();
    let now = trio.now;
    let first = trio.groups[0].read_index(now).expect("it leads");
    let mut answers = Vec::new();
    trio.take(0);
    for message in std::mem::take(&mut trio.sent) {
        trio.groups[message.to.0 as usize - 1].step(message, now);
    }
    trio.take(1);
    answers.extend(trio.sent.iter().cloned());
    trio.settle();
    assert_eq!(trio.confirmed.last().map(|(id, _)| *id), Some(first));
    assert!(!answers.is_empty());
    trio.usurp();
    trio.groups[1]
        .propose(Bytes::from_static(b"later"))
        .expect("it leads");
    trio.settle_where(|from, to| from != 1 && to != 1);
    assert_eq!(trio.applied[1].len(), 1);

    assert!(trio.groups[0].is_leader(), "it has not noticed");
    trio.confirmed.clear();
    let now = trio.now;
    let second = trio.groups[0].read_index(now).expect("it leads");
    trio.take(0);
    trio.sent.clear();
    for answer in answers {
        trio.groups[0].step(answer, now);
    }
    trio.take(0);
    trio.confirmed.iter().any(|(id, _)| *id == second)
}

#[test]
fn a_late_answer_to_an_earlier_round_confirms_nothing() {
    assert!(!late_answer_confirms());
}

#[test]
fn a_read_id_used_twice_is_noticed() {
    mutations::plant(Some(Mutation::ReusedReadId));
    let confirms = late_answer_confirms();
    mutations::plant(None);
    assert!(confirms);
}

/// A follower refuses while an empty append to it waits; answers whether what is sent then can be what the leader means.
fn appends_follow_their_place() -> bool {
    let mut trio = Trio::led();
    for data in [b"one", b"two"] {
        trio.groups[0]
            .propose(Bytes::from_static(data))
            .expect("it leads");
        trio.take(0);
    }
    let lost = std::mem::take(&mut trio.sent);
    assert!(
        lost.iter()
            .all(|message| matches!(message.body, MessageBody::Append { .. }))
    );
    let now = trio.now;
    let claim: Claim = trio.groups[0].claims()[0];
    assert!(trio.groups[1].confirm(&claim, now));
    trio.groups[0].acknowledged(&claim, START, now, now);
    trio.take(0);
    for message in std::mem::take(&mut trio.sent) {
        trio.groups[1].step(message, now);
    }
    trio.take(1);
    // One more empty append waits when the refusal of the first arrives, in the same turn.
    trio.groups[0].acknowledged(&claim, START, now, now);
    for refusal in std::mem::take(&mut trio.sent) {
        assert!(matches!(
            refusal.body,
            MessageBody::AppendAnswer { reject: Some(_), .. }
        ));
        trio.groups[0].step(refusal, now);
    }
    trio.take(0);
    trio.sent.iter().all(|message| match &message.body {
        MessageBody::Append { index, entries, .. } => {
            entries.first().is_none_or(|first| first.index.0 == index.0 + 1)
        }
        _ => true,
    })
}

#[test]
fn entries_always_follow_the_place_that_their_message_names() {
    assert!(appends_follow_their_place());
}

#[test]
fn the_librarys_own_batching_is_noticed() {
    mutations::plant(Some(Mutation::LibraryBatching));
    let follow = appends_follow_their_place();
    mutations::plant(None);
    assert!(!follow);
}

#[test]
fn a_quiet_group_sends_nothing_and_its_followers_know_what_is_committed() {
    let mut trio = Trio::led();
    trio.groups[0]
        .propose(Bytes::from_static(b"last"))
        .expect("it leads");
    trio.settle();
    assert_eq!(trio.applied[0].len(), 1);
    trio.wait(100);
    trio.beat(&[1, 2]);
    assert_eq!((trio.applied[1].len(), trio.applied[2].len()), (1, 1));
    for _ in 0..20 {
        trio.wait(100);
        let now = trio.now;
        for group in &mut trio.groups {
            group.tick(now);
        }
        let claims = trio.groups[0].claims();
        for claim in claims {
            assert!(trio.groups[claim.to.0 as usize - 1].confirm(&claim, now));
            trio.groups[0].acknowledged(&claim, START, now, now);
        }
        assert!(trio.groups.iter().all(|group| !group.has_ready()));
        assert!(matches!(trio.groups[0].read_permit(now), ReadPermit::Lease(_)));
    }
}

#[test]
fn a_lease_ends_before_the_promises_that_it_stands_on() {
    let mut trio = Trio::led();
    let now = trio.now;
    assert!(matches!(trio.groups[0].read_permit(now), ReadPermit::Lease(_)));
    let end = now.after(Times::DEFAULT.election_min - Times::DEFAULT.drift_margin);
    assert!(matches!(
        trio.groups[0].read_permit(Monotonic(end.0 - 1)),
        ReadPermit::Lease(_)
    ));
    assert_eq!(trio.groups[0].read_permit(end), ReadPermit::ReadIndex);
    assert!(trio.groups[1].is_promised(end) && trio.groups[2].is_promised(end));
    trio.wait(900);
    let now = trio.now;
    trio.groups[0].tick(now);
    assert_eq!(
        trio.groups[0].status().role,
        Role::Follower,
        "nobody was reached for so long"
    );
}

fn vote(term: u64, is_transfer: bool) -> RaftMessage {
    RaftMessage {
        from: Incarnation(3),
        to: Incarnation(2),
        term: Term(term),
        body: MessageBody::Vote {
            is_pre: false,
            index: Index(100),
            log_term: Term(term - 1),
            commit: (Index(0), Term(0)),
            priority: 0,
            is_transfer,
        },
    }
}

#[test]
fn inside_its_promise_a_voter_votes_only_at_its_leaders_wish_and_for_the_next_term() {
    let mut trio = Trio::led();
    let (now, term) = (trio.now, trio.groups[1].status().term.0);
    for (asked, is_transfer) in [(term + 1, false), (term + 2, true), (term + 2, false)] {
        trio.groups[1].step(vote(asked, is_transfer), now);
        assert!(!trio.groups[1].has_ready(), "{asked} {is_transfer}");
    }
    trio.groups[1].step(vote(term + 1, true), now);
    trio.take(1);
    assert!(matches!(
        trio.sent[0].body,
        MessageBody::VoteAnswer { reject: false, .. }
    ));
}

#[test]
fn who_has_just_started_neither_votes_nor_campaigns() {
    let mut trio = Trio::new();
    let now = trio.now;
    trio.groups[1].step(vote(2, false), now);
    trio.groups[1].step(vote(2, true), now);
    trio.wait(399);
    let now = trio.now;
    trio.groups[1].tick(now);
    trio.groups[1].step(vote(2, false), now);
    assert!(!trio.groups[1].has_ready());
    trio.wait(1);
    let now = trio.now;
    trio.groups[1].step(vote(2, false), now);
    assert!(trio.groups[1].has_ready());
}

#[test]
fn after_a_broken_link_only_the_promise_is_waited_for() {
    let mut trio = Trio::led();
    trio.wait(1);
    let now = trio.now;
    trio.groups[1].leader_link_lost(now);
    trio.groups[2].leader_link_lost(now);
    assert!(trio.groups.iter().all(|group| !group.has_ready()));
    trio.wait(400);
    let now = trio.now;
    trio.groups[1].tick(now);
    trio.groups[2].tick(now);
    trio.settle_where(|from, to| from != 1 && to != 1);
    assert!(trio.groups[1].is_leader());
}

#[test]
fn for_the_time_in_which_its_owner_stood_still_nobody_is_blamed() {
    let mut trio = Trio::led();
    trio.wait(5_000);
    let now = trio.now;
    for group in &mut trio.groups {
        group.stood_still(Duration::from_millis(5_000), now);
        group.tick(now);
    }
    assert!(trio.groups[0].is_leader());
    assert!(trio.groups.iter().all(|group| !group.has_ready()));
    trio.wait(800);
    let now = trio.now;
    trio.groups[1].tick(now);
    assert!(trio.groups[1].has_ready(), "from then on time counts");
}

#[test]
fn of_those_who_notice_late_that_the_leader_is_gone_one_campaigns_before_the_other() {
    let mut trio = Trio::led();
    trio.wait(401);
    let now = trio.now;
    trio.groups[1].leader_link_lost(now);
    trio.groups[2].leader_link_lost(now);
    assert!(trio.groups[1].has_ready() && !trio.groups[2].has_ready());
    trio.settle_where(|from, to| from != 1 && to != 1);
    assert!(trio.groups[1].is_leader());
}

#[test]
fn whoever_campaigned_in_vain_tries_again_before_a_leader_would_be_given_up() {
    let mut trio = Trio::led();
    trio.wait(800);
    let now = trio.now;
    trio.groups[1].tick(now);
    assert!(trio.groups[1].has_ready());
    // Nobody hears of it.
    let _ = trio.groups[1].take_ready(now);
    assert!(!trio.groups[1].has_ready());
    trio.wait(500);
    let now = trio.now;
    trio.groups[1].tick(now);
    assert!(trio.groups[1].has_ready());
}

#[test]
fn leadership_goes_to_whom_it_is_handed_and_the_lease_is_gone_before() {
    let mut trio = Trio::led();
    let now = trio.now;
    trio.groups[0].transfer(Incarnation(3), now).expect("it leads");
    assert_eq!(trio.groups[0].read_permit(now), ReadPermit::ReadIndex);
    trio.settle();
    assert!(trio.groups[2].is_leader() && !trio.groups[0].is_leader());
}

#[test]
fn messages_that_nobody_sends_are_turned_away() {
    let mut trio = Trio::led();
    let (now, term) = (trio.now, trio.groups[1].status().term);
    let bodies = [
        MessageBody::Heartbeat {
            commit: Index(1_000),
            read: 0,
        },
        MessageBody::Append {
            log_term: Term(0),
            index: Index(1_000),
            commit: Index(1_000),
            entries: Vec::new(),
        },
        MessageBody::Snapshot(Config::NOWHERE),
    ];
    for (count, body) in bodies.into_iter().enumerate() {
        let (from, to) = (Incarnation(1), Incarnation(2));
        trio.groups[1].step(RaftMessage { from, to, term, body }, now);
        assert_eq!(trio.groups[1].turned_away(), count as u64 + 1);
    }
}

#[test]
fn a_leader_of_an_earlier_term_hears_of_the_later_one_whatever_it_sends() {
    let mut trio = Trio::led();
    let term = trio.groups[2].status().term;
    let later = Term(term.0 + 1);
    let (leader, me) = (Incarnation(1), Incarnation(3));
    let point = trio.groups[2].point();
    // Its promise is over, and it votes for somebody who is never heard of again.
    trio.wait(10_000);
    let vote = MessageBody::Vote {
        is_pre: false,
        index: Index(1_000),
        log_term: term,
        commit: (Index(0), Term(0)),
        priority: 0,
        is_transfer: false,
    };
    let from_second = RaftMessage {
        from: Incarnation(2),
        to: me,
        term: later,
        body: vote,
    };
    let now = trio.now;
    trio.groups[2].step(from_second, now);
    assert_eq!(trio.groups[2].status().term, later);
    trio.take(2);
    let heartbeat = MessageBody::Heartbeat {
        commit: point.index,
        read: 0,
    };
    // A point that is here already, as of a state that was transferred.
    for body in [heartbeat, MessageBody::Snapshot(point)] {
        trio.sent.clear();
        let late = RaftMessage {
            from: leader,
            to: me,
            term,
            body,
        };
        trio.groups[2].step(late, now);
        trio.take(2);
        let tells = |message: &RaftMessage| message.to == leader && message.term == later;
        assert!(trio.sent.iter().any(tells), "{:?}", trio.sent);
    }
}

/// Entries are proposed and carried out without the third replica, and each time the log of the leader is compacted as far as it may be.
fn write_without_the_third(trio: &mut Trio, leader: usize, hears: fn(u64, u64) -> bool) {
    for _ in 0..40 {
        let entry = Bytes::from(vec![7; 8 << 10]);
        trio.groups[leader].propose(entry).expect("it leads");
        trio.settle_where(hears);
        if let Some(to) = trio.groups[leader].compactable([], || 0) {
            trio.groups[leader].compact(to);
        }
    }
}

#[test]
fn a_follower_that_was_away_is_sent_what_it_lacks_and_no_state() {
    let mut trio = Trio::led();
    let without: fn(u64, u64) -> bool = |from, to| from != 3 && to != 3;
    // More than a log keeps that nobody needs, several times.
    write_without_the_third(&mut trio, 0, without);
    write_without_the_third(&mut trio, 0, without);
    assert!(trio.groups[0].log_bytes() > 4 * LOG_BYTES_KEPT.start());
    for _ in 0..40 {
        trio.wait(20);
        trio.beat(&[1, 2]);
    }
    assert_eq!(
        trio.groups[0].matched(Incarnation(3)),
        Some(trio.groups[0].last_index())
    );
    assert_eq!(trio.wanted, []);
}

#[test]
fn a_leader_keeps_its_log_for_a_voter_that_it_has_never_heard() {
    let mut trio = Trio::led();
    let without: fn(u64, u64) -> bool = |from, to| from != 3 && to != 3;
    write_without_the_third(&mut trio, 0, without);
    let now = trio.now;
    trio.groups[0].transfer(Incarnation(2), now).expect("it leads");
    trio.settle_where(without);
    assert!(trio.groups[1].is_leader());
    let before = trio.groups[1].log_bytes();
    write_without_the_third(&mut trio, 1, without);
    let grown = trio.groups[1].log_bytes() - before;
    assert!(grown > 4 * LOG_BYTES_KEPT.start(), "{grown}");
}

/// A leader with two entries that all have, and a third replica that starts again without them: the answers that it sent before.
fn third_starts_again() -> (Trio, Vec<RaftMessage>) {
    let mut trio = Trio::led();
    let mut answers = Vec::new();
    for data in [b"one", b"two"] {
        trio.groups[0]
            .propose(Bytes::from_static(data))
            .expect("it leads");
        trio.take(0);
        let now = trio.now;
        for message in std::mem::take(&mut trio.sent) {
            trio.groups[message.to.0 as usize - 1].step(message, now);
        }
        trio.take(2);
        answers.extend(trio.sent.iter().cloned());
        trio.settle();
    }
    let now = trio.now;
    assert_eq!(
        trio.groups[0].matched(Incarnation(3)),
        Some(trio.groups[0].last_index())
    );
    assert!(!answers.is_empty());
    let start = Boot(2);
    trio.groups[2] = damaged(&trio.groups[2], Index(2), start, now);
    trio.applied[2].clear();
    assert!(trio.groups[2].is_below_floor());
    (trio, answers)
}

/// Heartbeats to the third replica, in its second start.
fn beat_third(trio: &mut Trio) {
    let now = trio.now;
    for claim in trio.groups[0].claims() {
        if claim.to == Incarnation(3) {
            match trio.groups[2].confirm(&claim, now) {
                true => trio.groups[0].acknowledged(&claim, Boot(2), now, now),
                false => trio.groups[0].refused(&claim, Boot(2), now),
            }
        }
    }
}

/// Whether the third replica is given what it lacks, in a group to which nothing is written. `late` answers of its former start arrive
/// whenever one of the present start has.
fn is_filled(late: bool) -> bool {
    let (mut trio, answers) = third_starts_again();
    for _ in 0..20 {
        trio.wait(100);
        beat_third(&mut trio);
        for message in late.then_some(&answers).into_iter().flatten() {
            let now = trio.now;
            trio.groups[0].step(message.clone(), now);
        }
        trio.settle();
    }
    let is_filled = trio.groups[2].last_index() == trio.groups[0].last_index();
    assert!(!is_filled || !trio.groups[2].is_below_floor() && trio.applied[2].len() == 2);
    is_filled
}

#[test]
fn a_follower_that_starts_again_with_less_is_given_what_it_lacks() {
    assert!(is_filled(false));
}

#[test]
fn late_answers_of_its_former_start_do_not_keep_it_from_that() {
    assert!(is_filled(true));
}

#[test]
fn a_leader_that_goes_on_with_what_a_former_start_has_acknowledged_is_noticed() {
    mutations::plant(Some(Mutation::ProgressKept));
    let is_filled = is_filled(false);
    mutations::plant(None);
    assert!(!is_filled);
}

#[test]
fn answers_of_a_former_start_that_count_are_noticed() {
    mutations::plant(Some(Mutation::FormerAnswersCount));
    let is_filled = is_filled(true);
    mutations::plant(None);
    assert!(!is_filled);
}

#[test]
fn what_a_former_start_has_acknowledged_is_not_counted_once_a_later_one_is_heard_of() {
    let (mut trio, answers) = third_starts_again();
    beat_third(&mut trio);
    assert_eq!(trio.groups[0].matched(Incarnation(3)), Some(Index(0)));
    for answer in answers {
        let now = trio.now;
        trio.groups[0].step(answer, now);
    }
    assert_eq!(trio.groups[0].matched(Incarnation(3)), Some(Index(0)));
    trio.settle();
    assert_eq!(
        trio.groups[0].matched(Incarnation(3)),
        Some(trio.groups[0].last_index())
    );
}

#[test]
fn below_its_floor_a_replica_does_not_campaign_at_its_leaders_wish_either() {
    let (mut trio, _) = third_starts_again();
    trio.take(2);
    trio.wait(10_000);
    let (now, term) = (trio.now, trio.groups[2].status().term);
    trio.groups[2].tick(now);
    let wish = RaftMessage {
        from: Incarnation(1),
        to: Incarnation(3),
        term,
        body: MessageBody::TimeoutNow,
    };
    trio.groups[2].step(wish, now);
    assert!(!trio.groups[2].has_ready() && trio.groups[2].next_timer().is_none());
}

#[test]
fn a_long_log_is_handed_out_in_pieces_until_all_of_it_is_applied() {
    const ENTRIES: u64 = 100;
    let now = Monotonic(1_000 * MS);
    let start = Config::first(Members::of_voters((1..=3).map(Incarnation)));
    let entry = |index| LogEntry {
        term: start.term,
        index: Index(index),
        payload: Payload::Data(Bytes::from(vec![1; COMMITTED_BYTES / 10])),
    };
    let (first, last) = (start.index.0 + 1, start.index.0 + ENTRIES);
    let hard_state = HardState {
        term: start.term,
        vote: None,
        commit: Index(last),
    };
    let config = Config {
        group: GroupId::new(0),
        me: Incarnation(1),
        start: start.clone(),
        saved: Saved {
            hard_state,
            entries: (first..=last).map(entry).collect(),
            floor: None,
        },
        durability: Durability::Durable,
        node_start: START,
        times: Times::DEFAULT,
        seed: 1,
    };
    let mut replica = RaftNode::new(config, now).expect("a valid configuration");
    let (mut applied, mut pieces) = (start.index, 0);
    while applied < Index(last) {
        let ready = replica.take_ready(now);
        assert!(ready.committed.len() <= 11, "{} at once", ready.committed.len());
        for committed in &ready.committed {
            assert_eq!(committed.index.0, applied.0 + 1, "in order, each once");
            applied = committed.index;
        }
        replica.applied(applied);
        pieces += 1;
        assert!(pieces <= ENTRIES, "it comes to an end");
        assert_eq!(replica.is_behind(), applied < Index(last));
    }
    assert!(pieces > 5, "{pieces}");
}
