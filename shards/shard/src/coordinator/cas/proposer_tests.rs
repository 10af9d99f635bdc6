//! The proposer alone, and several of them against acceptors whose messages are lost, late and out of order.

use super::*;
use crate::paxos::Acceptor;
use crate::paxos::ballot::Scope;

fn at(micros: i64) -> Ballot {
    Ballot::new(micros, Scope::Global, 0)
}

fn fresh<U>() -> Promise<U> {
    Promise::Promised { accepted: None, committed: None }
}

#[test]
fn one_replica_goes_straight_through() {
    let (mut proposer, command) = Proposer::begin(Quorum::majority_of(1), 1, at(5));
    assert_eq!(command, Command::Prepare(at(5)));
    assert_eq!(proposer.promised(0, at(5), fresh()), Some(Command::Read));
    let proposal = Proposal { ballot: at(5), update: Some(7) };
    assert_eq!(proposer.decided(Some(7)), Some(Command::Propose(proposal.clone())));
    assert_eq!(proposer.accepted(0, at(5), Acceptance::Accepted), Some(Command::Commit { proposal, to: vec![0] }));
    assert_eq!(proposer.committed(0, at(5)), Some(Command::End(RoundEnd::Applied)));
    assert_eq!(proposer.contentions(), 0);
}

#[test]
fn the_only_replica_settles_in_one_step() {
    let (mut proposer, command) = Proposer::alone(at(5));
    assert_eq!(command, Command::Prepare(at(5)));
    let left = Proposal { ballot: at(4), update: Some(3) };
    let promise = Promise::Promised { accepted: Some(left), committed: None };
    let again = Proposal { ballot: at(5), update: Some(3) };
    assert_eq!(proposer.promised(0, at(5), promise), Some(Command::Propose(again)));
    assert_eq!(proposer.accepted(0, at(5), Acceptance::Accepted), Some(Command::Begin(at(5))));
    assert_eq!(proposer.prepare(at(6)), Command::Prepare(at(6)));
    assert_eq!(proposer.promised(0, at(6), fresh()), Some(Command::Read));
    let proposal = Proposal { ballot: at(6), update: Some(7) };
    assert_eq!(proposer.decided(Some(7)), Some(Command::Propose(proposal)));
    assert_eq!(proposer.accepted(0, at(6), Acceptance::Accepted), Some(Command::End(RoundEnd::Applied)));
}

#[test]
fn what_the_only_replica_may_have_settled_is_unknown() {
    let (mut proposer, _) = Proposer::alone(at(5));
    proposer.promised(0, at(5), fresh());
    proposer.decided(Some(7));
    assert_eq!(proposer.failed(0, at(5)), Some(Command::End(RoundEnd::Unknown { accepted: 0 })));
    let (mut proposer, _) = Proposer::alone(at(5));
    proposer.promised(0, at(5), fresh());
    proposer.decided(Some(7));
    assert_eq!(proposer.accepted(0, at(5), Acceptance::Refused(at(6))), Some(Command::Begin(at(6))));
}

#[test]
fn nothing_to_change_is_proposed_to_several_alone() {
    let (mut proposer, _) = Proposer::<u32>::begin(Quorum::majority_of(1), 1, at(5));
    proposer.promised(0, at(5), fresh());
    assert_eq!(proposer.decided(None), Some(Command::End(RoundEnd::Unchanged)));
    let (mut proposer, _) = Proposer::<u32>::begin(Quorum::majority_of(3), 2, at(5));
    assert_eq!(proposer.promised(0, at(5), fresh()), None);
    assert_eq!(proposer.promised(2, at(5), fresh()), Some(Command::Read));
    assert_eq!(proposer.decided(None), Some(Command::Propose(Proposal { ballot: at(5), update: None })));
    assert_eq!(proposer.accepted(0, at(5), Acceptance::Accepted), None);
    assert_eq!(proposer.accepted(2, at(5), Acceptance::Accepted), Some(Command::End(RoundEnd::Unchanged)));
}

#[test]
fn what_was_left_is_finished_first() {
    let (mut proposer, _) = Proposer::begin(Quorum::majority_of(1), 1, at(5));
    let left = Proposal { ballot: at(4), update: Some(3) };
    let promise = Promise::Promised { accepted: Some(left), committed: None };
    let again = Proposal { ballot: at(5), update: Some(3) };
    assert_eq!(proposer.promised(0, at(5), promise), Some(Command::Propose(again.clone())));
    assert_eq!(
        proposer.accepted(0, at(5), Acceptance::Accepted),
        Some(Command::Commit { proposal: again, to: vec![0] })
    );
    assert_eq!(proposer.committed(0, at(5)), Some(Command::Begin(at(5))));
    assert_eq!(proposer.prepare(at(6)), Command::Prepare(at(6)));
    assert_eq!(proposer.promised(0, at(5), fresh()), None, "an answer to the ballot before");
    assert_eq!(proposer.promised(0, at(6), fresh()), Some(Command::Read));
}

#[test]
fn an_empty_proposal_is_not_worth_finishing() {
    let (mut proposer, _) = Proposer::<u32>::begin(Quorum::majority_of(1), 1, at(5));
    let accepted = Some(Proposal { ballot: at(4), update: None });
    let promise = Promise::Promised { accepted, committed: None };
    assert_eq!(proposer.promised(0, at(5), promise), Some(Command::Read));
}

#[test]
fn who_misses_the_last_commit_gets_it() {
    let (mut proposer, _) = Proposer::begin(Quorum::majority_of(3), 2, at(5));
    let last = Proposal { ballot: at(3), update: Some(1) };
    let knows = Promise::Promised { accepted: None, committed: Some(last.clone()) };
    assert_eq!(proposer.promised(1, at(5), knows), None);
    assert_eq!(proposer.promised(2, at(5), fresh()), Some(Command::Commit { proposal: last, to: vec![2] }));
    assert_eq!(proposer.committed(2, at(2)), None);
    assert_eq!(proposer.committed(2, at(3)), Some(Command::Read));
    let (mut proposer, _) = Proposer::begin(Quorum::majority_of(3), 2, at(5));
    let last = Proposal { ballot: at(3), update: Some(1) };
    proposer.promised(1, at(5), Promise::Promised { accepted: None, committed: Some(last) });
    proposer.promised(2, at(5), fresh());
    assert_eq!(proposer.failed(2, at(3)), Some(Command::End(RoundEnd::Unprepared)));
}

#[test]
fn a_refusal_asks_for_a_higher_ballot() {
    let (mut proposer, _) = Proposer::<u32>::begin(Quorum::majority_of(1), 1, at(5));
    assert_eq!(proposer.promised(0, at(5), Promise::Refused(at(9))), Some(Command::Begin(at(9))));
    assert_eq!(proposer.contentions(), 1);
}

#[test]
fn a_proposal_that_some_accepted_is_unknown() {
    let proposing = || {
        let (mut proposer, _) = Proposer::begin(Quorum::majority_of(3), 2, at(5));
        proposer.promised(0, at(5), fresh());
        proposer.promised(1, at(5), fresh());
        proposer.decided(Some(1));
        proposer
    };
    let refused = || Acceptance::Refused(at(8));
    let mut proposer = proposing();
    assert_eq!(proposer.accepted(0, at(5), Acceptance::Accepted), None);
    assert_eq!(proposer.accepted(1, at(5), refused()), None);
    assert_eq!(proposer.accepted(2, at(5), refused()), Some(Command::End(RoundEnd::Unknown { accepted: 1 })));
    let mut proposer = proposing();
    assert_eq!(proposer.accepted(0, at(5), refused()), None);
    assert_eq!(proposer.accepted(1, at(5), refused()), None, "the third may accept it");
    assert_eq!(
        proposer.accepted(2, at(5), Acceptance::Accepted),
        Some(Command::End(RoundEnd::Unknown { accepted: 1 }))
    );
    let mut proposer = proposing();
    proposer.accepted(0, at(5), refused());
    proposer.accepted(1, at(5), refused());
    assert_eq!(proposer.accepted(2, at(5), refused()), Some(Command::Begin(at(8))), "refused by all");
    let mut proposer = proposing();
    assert_eq!(proposer.failed(0, at(5)), None);
    assert_eq!(proposer.failed(1, at(5)), Some(Command::End(RoundEnd::Unknown { accepted: 0 })));
}

#[test]
fn too_few_answers_change_nothing() {
    let (mut proposer, _) = Proposer::<u32>::begin(Quorum::majority_of(3), 2, at(5));
    assert_eq!(proposer.failed(0, at(5)), None);
    assert_eq!(proposer.failed(1, at(5)), Some(Command::End(RoundEnd::Unprepared)));
}

/// The tests keep a counter on three replicas, the last of which another one is going to replace; each proposer adds
/// one to the value that it reads.
const REPLICAS: usize = 4;

/// Who decides before the change.
fn before() -> Quorum {
    Quorum::majority_of(REPLICAS - 1)
}

/// Who decides during the change.
fn during() -> Quorum {
    Quorum::of([(1, 1), (1, 1), (1, 0), (0, 1)].map(|(now, next)| Votes { now, next }))
}

#[test]
fn a_majority_of_either_set_is_needed_while_replicas_change() {
    let (mut proposer, _) = Proposer::<u32>::begin(during(), 2, at(5));
    assert_eq!(proposer.promised(2, at(5), fresh()), None);
    assert_eq!(proposer.promised(3, at(5), fresh()), None, "two, but one of each");
    assert_eq!(proposer.promised(0, at(5), fresh()), Some(Command::Read));
    let (mut proposer, _) = Proposer::<u32>::begin(during(), 2, at(5));
    assert_eq!(proposer.failed(3, at(5)), None);
    assert_eq!(proposer.failed(2, at(5)), None, "the two that stay are enough");
    assert_eq!(proposer.promised(0, at(5), fresh()), None);
    assert_eq!(proposer.failed(1, at(5)), Some(Command::End(RoundEnd::Unprepared)));
}

/// A small generator of random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[derive(Default)]
struct Replica {
    acceptor: Acceptor<u32>,
    /// The value with the ballot of its write.
    value: (Option<Ballot>, u32),
}

#[derive(Clone)]
enum Message {
    Prepare(Ballot),
    Propose(Proposal<u32>),
    Commit(Proposal<u32>),
}

/// A client that reads the counter, or adds one to it.
struct Client {
    proposer: Proposer<u32>,
    quorum: Quorum,
    adds: bool,
    /// The value that it read.
    read: u32,
    began: usize,
}

/// One run: clients come one after another and concurrently, and their messages are lost or late.
fn run(seed: u64, quorums: &[Quorum]) {
    let mut dice = Dice(seed * 2 + 1);
    let mut replicas: [Replica; REPLICAS] = Default::default();
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut messages: Vec<(usize, usize, Message)> = Vec::new();
    let (mut applied, mut committed, mut unknown, mut clock) = (Vec::new(), 0, 0, 1);
    // For each read and addition that ended: when, and the value that it showed.
    let mut seen: Vec<(usize, u32)> = Vec::new();
    let loss = dice.below(4);
    for step in 0..400 {
        let mut commands = Vec::new();
        if step % 9 == 0 && step < 250 {
            clock += 1 + dice.below(3) as i64;
            let ballot = Ballot::new(clock - dice.below(2) as i64, Scope::Global, (step as u64) << 8);
            let quorum = quorums[dice.below(quorums.len() as u64) as usize].clone();
            let (proposer, command) = Proposer::begin(quorum.clone(), 2, ballot);
            clients.push(Some(Client { proposer, quorum, adds: dice.below(3) > 0, read: 0, began: step }));
            commands.push((clients.len() - 1, command));
        }
        if !messages.is_empty() {
            let (client, to, message) = messages.swap_remove(dice.below(messages.len() as u64) as usize);
            let lost = dice.below(10) < loss;
            let half = dice.below(2) == 0;
            let replica = &mut replicas[to];
            let ballot = match &message {
                Message::Prepare(ballot) => *ballot,
                Message::Propose(proposal) | Message::Commit(proposal) => proposal.ballot,
            };
            // The message is lost on the way there, or its answer on the way back.
            let delivered = (!lost || half).then(|| match message {
                Message::Prepare(ballot) => (Some(replica.acceptor.prepare(ballot)), None),
                Message::Propose(proposal) => (None, Some(replica.acceptor.accept(proposal))),
                Message::Commit(proposal) => {
                    if let Some(update) = proposal.update
                        && Some(proposal.ballot) > replica.value.0
                    {
                        replica.value = (Some(proposal.ballot), update);
                    }
                    replica.acceptor.commit(proposal);
                    (None, None)
                }
            });
            let answer = delivered.filter(|_| !lost);
            let Some(Some(asker)) = clients.get_mut(client) else { continue };
            let proposer = &mut asker.proposer;
            let command = match answer {
                None => proposer.failed(to, ballot),
                Some((Some(promise), _)) => proposer.promised(to, ballot, promise),
                Some((_, Some(acceptance))) => proposer.accepted(to, ballot, acceptance),
                Some((None, None)) => proposer.committed(to, ballot),
            };
            commands.extend(command.map(|command| (client, command)));
        }
        while let Some((client, command)) = commands.pop() {
            let Some(asker) = clients[client].as_mut() else { continue };
            match command {
                Command::Prepare(ballot) => {
                    let all = 0..asker.quorum.replicas();
                    messages.extend(all.map(|to| (client, to, Message::Prepare(ballot))));
                }
                Command::Propose(proposal) => {
                    let all = 0..asker.quorum.replicas();
                    messages.extend(all.map(|to| (client, to, Message::Propose(proposal.clone()))));
                }
                Command::Commit { proposal, to } => {
                    messages.extend(to.into_iter().map(|to| (client, to, Message::Commit(proposal.clone()))));
                }
                Command::Read => {
                    // A read asks as many replicas as are needed, in any order.
                    let mut unread: Vec<usize> = (0..asker.quorum.replicas()).collect();
                    let (mut votes, mut read) = (Votes::default(), (None, 0));
                    while !asker.quorum.is_met_by(votes) {
                        let at = unread.swap_remove(dice.below(unread.len() as u64) as usize);
                        votes += asker.quorum.votes_of(at);
                        read = read.max(replicas[at].value);
                    }
                    asker.read = read.1;
                    let update = asker.adds.then_some(asker.read + 1);
                    commands.extend(asker.proposer.decided(update).map(|command| (client, command)));
                }
                Command::Begin(above) => {
                    clock = clock.max(above.micros()) + 1;
                    let command = asker.proposer.prepare(Ballot::new(clock, Scope::Global, (client as u64) << 8));
                    commands.push((client, command));
                }
                Command::End(over) => {
                    let shows = asker.read + u32::from(asker.adds);
                    match over {
                        RoundEnd::Applied => {
                            applied.push(shows);
                            committed = shows.max(committed);
                        }
                        // It is decided, but perhaps on no replica yet.
                        RoundEnd::Uncommitted { .. } => applied.push(shows),
                        RoundEnd::Unchanged => {}
                        RoundEnd::Unknown { .. } => unknown += 1,
                        RoundEnd::Unprepared => {}
                    }
                    if matches!(over, RoundEnd::Applied | RoundEnd::Unchanged) {
                        // The result is not older than that of any operation that ended before this one began.
                        let newest =
                            seen.iter().filter(|(ended, _)| *ended < asker.began).map(|(_, value)| *value).max();
                        let before = asker.read;
                        assert!(newest.unwrap_or(0) <= shows, "seed {seed}: {newest:?} then {shows}");
                        assert!(newest.unwrap_or(0) <= before || !asker.adds, "seed {seed}: {newest:?} then {before}");
                        seen.push((step, shows));
                    }
                    clients[client] = None;
                }
            }
        }
    }
    // Each addition must have produced a different value.
    let count = applied.len();
    applied.sort_unstable();
    applied.dedup();
    assert_eq!(applied.len(), count, "seed {seed}: two additions made the same value");
    let last = replicas.iter().map(|replica| replica.value).max().map_or(0, |(_, value)| value);
    let open = clients.iter().flatten().filter(|client| client.adds).count();
    assert!(last as usize <= count + unknown + open, "seed {seed}: {last} of {count} and {unknown} unknown");
    assert!(committed <= last, "seed {seed}: {committed} of {applied:?} but {last}");
}

#[test]
fn decisions_of_many_proposers_are_in_one_order_whatever_is_lost() {
    (0..3000).for_each(|seed| run(seed, &[before()]));
}

#[test]
fn decisions_before_and_during_a_change_of_replicas_are_in_one_order() {
    (0..3000).for_each(|seed| run(seed, &[before(), during()]));
}

/// Runs a round that changes nothing, with the acceptors that are alive, which answer at once. Returns how it ended.
fn finish(acceptors: &mut [Acceptor<u32>], alive: &[bool], mut micros: i64) -> RoundEnd {
    let (mut proposer, first) = Proposer::begin(Quorum::majority_of(acceptors.len()), 0, at(micros));
    let mut commands = vec![first];
    while let Some(command) = commands.pop() {
        let answers: Vec<Option<Command<u32>>> = match command {
            Command::Prepare(ballot) => (0..acceptors.len())
                .map(|number| match alive[number] {
                    true => proposer.promised(number, ballot, acceptors[number].prepare(ballot)),
                    false => proposer.failed(number, ballot),
                })
                .collect(),
            Command::Propose(proposal) => (0..acceptors.len())
                .map(|number| match alive[number] {
                    true => {
                        let answer = acceptors[number].accept(proposal.clone());
                        proposer.accepted(number, proposal.ballot, answer)
                    }
                    false => proposer.failed(number, proposal.ballot),
                })
                .collect(),
            Command::Commit { proposal, to } => to
                .into_iter()
                .map(|number| match alive[number] {
                    true => {
                        acceptors[number].commit(proposal.clone());
                        proposer.committed(number, proposal.ballot)
                    }
                    false => proposer.failed(number, proposal.ballot),
                })
                .collect(),
            Command::Read => vec![proposer.decided(None)],
            Command::Begin(above) => {
                micros = micros.max(above.micros()) + 1;
                vec![Some(proposer.prepare(at(micros)))]
            }
            Command::End(end) => return end,
        };
        commands.extend(answers.into_iter().flatten());
    }
    panic!("the round came to a halt")
}

/// The ballot and the change of the last commit that some of the acceptors know.
fn latest_commit(acceptors: &[Acceptor<u32>]) -> Option<(Ballot, u32)> {
    let commits = acceptors.iter().filter_map(|acceptor| acceptor.committed.as_ref());
    let latest = commits.max_by_key(|proposal| proposal.ballot)?;
    latest.update.map(|update| (latest.ballot, update))
}

/// What a repair relies on: a round that changes nothing leaves nothing unfinished with those who took part, brings the
/// last change that a majority has accepted to a majority, and makes no other of them come back later.
#[test]
fn a_round_that_changes_nothing_leaves_nothing_unfinished() {
    let mut random = 0x9e37_79b9_u64;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    let (mut finished, mut decided) = (0, 0);
    for case in 0..5000 {
        let mut acceptors = vec![Acceptor::<u32>::default(); 3];
        // Rounds that ended in the middle: each was accepted by some, and committed by some of a majority.
        let mut last = None;
        for micros in 1..=1 + below(4) as i64 {
            let promised: Vec<usize> = (0..3)
                .filter(|_| below(4) > 0)
                .filter(|number| acceptors[*number].prepare(at(micros)) != Promise::Refused(at(micros)))
                .collect();
            let (left, committed) = promised.iter().fold((None, None), |(left, committed), number| {
                let of: &Acceptor<u32> = &acceptors[*number];
                (later(left, of.accepted.clone()), later(committed, of.committed.clone()))
            });
            if promised.len() < 2 {
                continue;
            }
            let after: Option<Ballot> = committed.map(|proposal: Proposal<u32>| proposal.ballot);
            let left = left.filter(|proposal: &Proposal<u32>| Some(proposal.ballot) > after);
            let update = left.and_then(|proposal| proposal.update).unwrap_or(micros as u32);
            let proposal = Proposal { ballot: at(micros), update: Some(update) };
            let accepted: Vec<usize> = promised.into_iter().filter(|_| below(3) > 0).collect();
            for number in &accepted {
                assert_eq!(acceptors[*number].accept(proposal.clone()), Acceptance::Accepted);
            }
            if accepted.len() >= 2 {
                last = Some(update);
                for number in accepted.iter().filter(|_| below(2) > 0) {
                    acceptors[*number].commit(proposal.clone());
                }
            }
        }
        let dead = below(4) as usize;
        let alive: Vec<bool> = (0..3).map(|number| number != dead).collect();
        finished += usize::from((0..3).any(|number| alive[number] && acceptors[number].unfinished().is_some()));
        assert_eq!(finish(&mut acceptors, &alive, 100), RoundEnd::Unchanged, "case {case}");
        let took_part = || (0..3).filter(|number| alive[*number]);
        assert!(took_part().all(|number| acceptors[number].unfinished().is_none()), "case {case}: {acceptors:?}");
        // A majority has the last change that was decided; whoever lacks it has nothing unfinished all the same.
        let latest = latest_commit(&acceptors);
        let have = took_part().filter(|number| latest_commit(&acceptors[*number..=*number]) == latest).count();
        assert!(have >= 2, "case {case}: {acceptors:?}");
        if let Some(last) = last {
            // A later change may have been accepted by fewer than a majority: then that one may have been finished.
            assert!(latest.is_some_and(|(_, update)| update >= last), "case {case}: {latest:?}");
            decided += 1;
        }
        // Whoever did not take part cannot bring an older change back.
        assert_eq!(finish(&mut acceptors, &[true; 3], 200), RoundEnd::Unchanged);
        assert_eq!(latest_commit(&acceptors), latest, "case {case}");
        assert!(acceptors.iter().all(|acceptor| acceptor.unfinished().is_none()), "case {case}");
    }
    assert!(finished > 500 && decided > 1000, "{finished} and {decided}");
}
