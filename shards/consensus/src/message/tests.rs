//! The bytes of messages: golden ones, all kinds there and back, and bytes that nobody sent.

use super::{Answer, Ballot, MemberChange, Request};
use crate::limits::{COMMAND_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX, NUMBER_MAX, SNAPSHOT_PART_BYTES};
use crate::testing::{MemoryStore, Nothing};
use crate::types::{Applied, Entry, Membership, Payload, Proposal, Vote, log_id};
use crate::{Config, Group, Timings};
use openraft::EmptyNode;
use runtime::NodeId;
use runtime::rng::Rng;
use runtime::sim::{Options, Sim, Stop};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

const NODE: Uuid = Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn members() -> BTreeSet<Uuid> {
    BTreeSet::from([NODE, Uuid::from_u128(5)])
}

fn proposal(command: &[u8]) -> Proposal {
    Proposal { id: Uuid::from_u128(9), command: command.to_vec() }
}

fn entries() -> Vec<Entry> {
    let nodes: BTreeMap<_, _> = members().into_iter().map(|node| (node, EmptyNode::new())).collect();
    let joint = vec![BTreeSet::from([NODE]), members()];
    vec![
        Entry { log_id: log_id(2, 8), payload: Payload::Blank },
        Entry { log_id: log_id(2, 9), payload: Payload::Normal(proposal(b"ab")) },
        Entry {
            log_id: log_id(3, 10),
            payload: Payload::Membership(Membership::new(joint, nodes).expect("a membership")),
        },
    ]
}

fn requests() -> Vec<Request> {
    let vote = Vote::new_committed(3, NODE);
    let ballot = Ballot { vote: Vote::new(4, NODE), last: Some(log_id(3, 10)), transfer: true };
    let wait = Duration::from_millis(1_500);
    vec![
        Request::Append { vote, before: Some(log_id(2, 7)), decided: None, entries: entries() },
        Request::Append { vote, before: None, decided: None, entries: Vec::new() },
        Request::Vote(ballot.clone()),
        Request::PreVote(Ballot { last: None, transfer: false, ..ballot }),
        Request::SnapshotPart { vote, hash: 7, len: 3, offset: 0, bytes: vec![1, 2, 3] },
        Request::Transfer { vote, target: NODE, last: Some(log_id(1, 2)) },
        Request::Propose { wait, proposal: proposal(b"command") },
        Request::ChangeMembers { wait, change: MemberChange::AddLearners(members()) },
        Request::ChangeMembers { wait, change: MemberChange::Remove(members()) },
        Request::ChangeMembers { wait, change: MemberChange::SetVoters(BTreeSet::new()) },
        Request::ReadIndex { wait },
    ]
}

fn answers() -> Vec<Answer> {
    let vote = Vote::new(4, NODE);
    vec![
        Answer::Appended,
        Answer::AppendedInPart(Some(log_id(1, 2))),
        Answer::Conflict,
        Answer::HigherVote(vote),
        Answer::Voted { vote, granted: true, last: None },
        Answer::SendOnFrom(1 << 20),
        Answer::Installed(vote),
        Answer::Transferred,
        Answer::NotTransferred,
        Answer::Applied(Applied { index: 12, answer: b"ok".to_vec() }),
        Answer::Index(9),
        Answer::NotLeader,
        Answer::NoMajority,
        Answer::UnknownOutcome,
        Answer::NotAMember(NODE),
        Answer::ChangeUnderWay,
        Answer::Stopped,
        Answer::BadMessage,
        Answer::NoVoter,
    ]
}

#[test]
fn messages_have_the_bytes_of_version_1() {
    let expected = concat!(
        "0101",
        "0000000000000003",
        "0102030405060708090a0b0c0d0e0f10",
        "01",
        "01",
        "0000000000000002",
        "0000000000000007",
        "00",
        "00000003",
        "0000000000000002",
        "0000000000000008",
        "00",
        "0000000000000002",
        "0000000000000009",
        "01",
        "00000000000000000000000000000009",
        "00000002",
        "6162",
        "0000000000000003",
        "000000000000000a",
        "02",
        "00000002",
        "00000001",
        "0102030405060708090a0b0c0d0e0f10",
        "00000002",
        "00000000000000000000000000000005",
        "0102030405060708090a0b0c0d0e0f10",
        "00000002",
        "00000000000000000000000000000005",
        "0102030405060708090a0b0c0d0e0f10",
    );
    assert_eq!(hex(&requests()[0].encode()), expected);
    let propose = "0106000005dc0000000000000000000000000000000900000007636f6d6d616e64";
    assert_eq!(hex(&requests()[6].encode()), propose);
    assert_eq!(hex(&answers()[9].encode()), "010a000000000000000c000000026f6b");
}

#[test]
fn messages_come_back() {
    for request in requests() {
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    for answer in answers() {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
}

#[test]
fn messages_that_are_cut_or_too_long_are_refused() {
    for bytes in requests().iter().map(Request::encode) {
        (0..bytes.len()).for_each(|len| assert_eq!(Request::decode(&bytes[..len]), None));
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Request::decode(&[&[2], &bytes[1..]].concat()), None, "another version");
    }
    for bytes in answers().iter().map(Answer::encode) {
        (0..bytes.len()).for_each(|len| assert_eq!(Answer::decode(&bytes[..len]), None));
        assert_eq!(Answer::decode(&[&bytes[..], &[0]].concat()), None);
    }
}

#[test]
fn limits_hold() {
    let wait = Duration::ZERO;
    let propose = |len| Request::Propose { wait, proposal: proposal(&vec![1; len]) }.encode();
    assert!(
        Request::decode(&propose(COMMAND_BYTES_MAX)).is_some() && propose(COMMAND_BYTES_MAX).len() < MESSAGE_BYTES_MAX
    );
    assert_eq!(Request::decode(&propose(COMMAND_BYTES_MAX + 1)), None);
    let part = |len| {
        let (vote, bytes) = (Vote::new_committed(1, NODE), vec![0; len]);
        Request::SnapshotPart { vote, hash: 0, len: 0, offset: 0, bytes }.encode()
    };
    assert!(Request::decode(&part(SNAPSHOT_PART_BYTES)).is_some());
    assert_eq!(Request::decode(&part(SNAPSHOT_PART_BYTES + 1)), None);
    let remove = |count| {
        let nodes = (0..count).map(|n| Uuid::from_u128(n as u128)).collect();
        Request::ChangeMembers { wait, change: MemberChange::Remove(nodes) }.encode()
    };
    assert!(Request::decode(&remove(MEMBERS_MAX)).is_some());
    assert_eq!(Request::decode(&remove(MEMBERS_MAX + 1)), None);
    let vote = |term, index| {
        let last = Some(log_id(1, index));
        Request::decode(&Request::Vote(Ballot { vote: Vote::new(term, NODE), last, transfer: false }).encode())
    };
    assert!(vote(NUMBER_MAX, NUMBER_MAX).is_some());
    assert_eq!((vote(NUMBER_MAX + 1, 1), vote(1, NUMBER_MAX + 1)), (None, None));
}

#[test]
fn entries_that_no_leader_sends_are_refused() {
    let append = |term, before, entries: Vec<Entry>| {
        let vote = Vote::new_committed(term, NODE);
        Request::decode(&Request::Append { vote, before, decided: None, entries }.encode())
    };
    assert!(append(3, Some(log_id(2, 7)), entries()).is_some());
    assert!(append(2, Some(log_id(2, 7)), entries()).is_none(), "an entry of a later term");
    assert!(append(3, Some(log_id(2, 6)), entries()).is_none(), "a hole");
    assert!(append(3, Some(log_id(3, 7)), entries()).is_none(), "terms that go back");
    assert!(append(3, Some(log_id(4, 7)), Vec::new()).is_none(), "a place of a later term");
    assert!(append(3, None, entries()).is_none(), "a log that does not begin at its beginning");
    let candidate = Request::Append { vote: Vote::new(3, NODE), before: None, decided: None, entries: Vec::new() };
    assert_eq!(Request::decode(&candidate.encode()), None, "a leader has won its term");
}

#[test]
fn damaged_messages_never_panic() {
    let mut rng = Rng::new(11);
    let messages: Vec<_> = requests().iter().map(Request::encode).chain(answers().iter().map(Answer::encode)).collect();
    for _ in 0..20_000 {
        let mut bytes = messages[rng.below(messages.len() as u64) as usize].clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        // What is read at all has the same bytes again, or at least is read in the same way.
        if let Some(request) = Request::decode(&bytes) {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        if let Some(answer) = Answer::decode(&bytes) {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }
}

/// Starts a member that leads a group of its own, or belongs to none, and gives it damaged requests.
fn give_damaged_requests(seed: u64) {
    let mut sim = Sim::new(seed, Options::default());
    let ended = Rc::new(Cell::new(false));
    let told = ended.clone();
    sim.start_node(NodeId(1), 1, move |_| {
        let (told, mut rng) = (told.clone(), Rng::new(seed));
        async move {
            let config = Config { me: NODE, timings: Timings::default() };
            let store = MemoryStore::new(Duration::from_micros(10));
            let group = Group::start(config, store, Nothing, Nothing).await.expect("it starts");
            if seed.is_multiple_of(2) {
                group.create().await.expect("it leads");
            }
            let messages: Vec<_> = requests().iter().map(Request::encode).collect();
            for _ in 0..100 {
                let mut bytes = messages[rng.below(messages.len() as u64) as usize].clone();
                for _ in 0..rng.below(4) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] = [0, 1, 0x7f, 0x80, 0xff, rng.next_u64() as u8][rng.below(6) as usize];
                }
                let answered = runtime::timeout(Duration::from_secs(5), group.handle(&bytes)).await;
                assert!(answered.is_none_or(|answer| Answer::decode(&answer).is_some()));
            }
            told.set(true);
        }
    });
    assert_eq!(sim.run_until(Duration::from_secs(3_600), || ended.get()), Stop::Condition);
}

#[test]
fn damaged_requests_never_end_the_process_of_a_member() {
    (0..100).for_each(give_damaged_requests);
}
