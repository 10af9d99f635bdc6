//! Operations from their beginning to their end, undone, and begun anew.

use super::*;
use crate::metadata::tests::{after, create, id, join, member, refusal, schema};
use crate::metadata::{Command, SchemaUpdate, UpdatedKind, UpdatedTarget};

/// Three members, the third of which is joining.
pub(crate) fn three() -> Metadata {
    after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }, join(3, &["30"])])
}

pub(crate) fn begin(metadata: &Metadata, kind: OperationKind, receivers: &[u8]) -> Command {
    Command::Begin {
        kind,
        receivers: receivers.iter().map(|n| id(*n)).collect(),
        members_epoch: metadata.members_epoch,
        schema_version: metadata.schema_version,
    }
}

/// Applies a command that is taken, at the next epoch.
pub(crate) fn take(metadata: &mut Metadata, command: Command) {
    let epoch = metadata.epoch + 1;
    assert_eq!(metadata.apply(epoch, &command), Ok(()), "{command:?}");
    let encoded = metadata.encode();
    assert_eq!(Metadata::decode(&encoded).as_ref(), Ok(&*metadata));
    assert!((0..encoded.len()).all(|len| Metadata::decode(&encoded[..len]).is_err()));
}

pub(crate) fn received(metadata: &Metadata, operation: u64, n: u8) -> Command {
    Command::Received { operation, since: metadata.operations[&operation].since, host_id: id(n) }
}

/// Ends an operation that all have reported.
pub(crate) fn settle(metadata: &mut Metadata, operation: u64) {
    let began = &metadata.operations[&operation];
    assert_eq!(began.stage, Stage::Switched);
    let command = Command::Settle { operation, since: began.since };
    assert_eq!(
        refusal(metadata, &Command::Abort { operation }),
        Rejected::NoOperation(operation),
        "data is read there"
    );
    take(metadata, command.clone());
    assert_eq!(refusal(metadata, &command), Rejected::NoOperation(operation));
}

/// The tokens by which data is read.
fn read(metadata: &Metadata) -> Vec<usize> {
    metadata.nodes().iter().map(|node| node.tokens.len()).collect()
}

fn next(metadata: &Metadata) -> Vec<Vec<&str>> {
    metadata.next_tokens().into_iter().map(|tokens| tokens.iter().map(String::as_str).collect()).collect()
}

pub(crate) fn replicate(metadata: &Metadata, version: u8, factor: &str, receivers: &[u8]) -> Command {
    Command::Replicate {
        update: Box::new(SchemaUpdate {
            before: metadata.schema_version,
            after: id(version),
            timestamp: metadata.schema_timestamp + 1,
            kind: UpdatedKind::Updated,
            target: UpdatedTarget::Keyspace,
            keyspace: "k".into(),
            name: String::new(),
            given_id: None,
            rows: Vec::new(),
        }),
        class: "Simple".into(),
        options: BTreeMap::from([("replication_factor".into(), factor.into())]),
        receivers: receivers.iter().map(|n| id(*n)).collect(),
        members_epoch: metadata.members_epoch,
    }
}

#[test]
fn a_node_joins_when_it_has_what_it_gains() {
    let mut metadata = three();
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec!["20"], vec![]], "it has not begun");
    let joins = begin(&metadata, OperationKind::Join { host_id: id(3) }, &[3]);
    take(&mut metadata, joins.clone());
    let began = metadata.epoch;
    assert_eq!((metadata.members_epoch, metadata.operations[&began].since), (began, began));
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec!["20"], vec!["30"]]);
    assert!(metadata.nodes()[2].tokens.is_empty(), "it owns nothing yet");
    assert_eq!(refusal(&metadata, &joins), Rejected::MembersMoved(began));
    let report = received(&metadata, began, 3);
    take(&mut metadata, report.clone());
    assert_eq!(metadata.members[&id(3)].state, MemberState::Joining);
    assert_eq!((metadata.members_epoch, metadata.operations[&began].since), (metadata.epoch, metadata.epoch));
    assert_eq!(read(&metadata), [2, 1, 1], "it is read");
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec!["20"], vec![]], "writes still go to the others");
    settle(&mut metadata, began);
    assert_eq!(metadata.members[&id(3)].state, MemberState::Normal);
    assert_eq!((metadata.members_epoch, metadata.operations.len()), (metadata.epoch, 0));
    assert_eq!(metadata.nodes()[2].tokens.len(), 1);
    assert_eq!(refusal(&metadata, &report), Rejected::NoOperation(began));
}

#[test]
fn one_operation_waits_for_another() {
    let mut metadata = three();
    let joins = OperationKind::Join { host_id: id(3) };
    let command = begin(&metadata, joins.clone(), &[3]);
    take(&mut metadata, command);
    let leaves = begin(&metadata, OperationKind::Leave { host_id: id(2) }, &[1]);
    assert_eq!(refusal(&metadata, &leaves), Rejected::OperationUnderWay(Box::new(joins.clone())));
    let wider = replicate(&metadata, 51, "1", &[2]);
    assert_eq!(refusal(&metadata, &wider), Rejected::OperationUnderWay(Box::new(joins)));
    // A change of the schema that moves nothing does not wait.
    let created = schema(metadata.schema_version, id(60), 2_000);
    take(&mut metadata, created);
    assert!(matches!(refusal(&metadata, &leaves), Rejected::SchemaMoved { .. }));
}

#[test]
fn a_node_does_not_enter_the_ring_beside_an_operation() {
    let mut metadata = three();
    take(&mut metadata, join(4, &["40"]));
    let joins = OperationKind::Join { host_id: id(3) };
    let command = begin(&metadata, joins.clone(), &[3]);
    take(&mut metadata, command);
    let operation = metadata.epoch;
    let enters = Command::FinishJoin { host_id: id(4) };
    assert_eq!(refusal(&metadata, &enters), Rejected::OperationUnderWay(Box::new(joins)));
    let report = received(&metadata, operation, 3);
    take(&mut metadata, report);
    settle(&mut metadata, operation);
    take(&mut metadata, enters);
}

#[test]
fn a_token_to_which_a_node_moves_is_taken() {
    let mut metadata = three();
    let moves = OperationKind::Move { host_id: id(2), tokens: vec!["25".into()] };
    let command = begin(&metadata, moves, &[1]);
    take(&mut metadata, command);
    let owner = metadata.members[&id(2)].address;
    assert_eq!(refusal(&metadata, &join(4, &["25"])), Rejected::TokenTaken { token: "25".into(), owner });
    take(&mut metadata, join(5, &["26"]));
}

/// Hours of fetching do not begin anew because a node that waited for its turn has gone.
#[test]
fn a_node_that_had_no_part_yet_goes_without_a_trace() {
    let mut metadata = three();
    take(&mut metadata, join(4, &["40"]));
    let command = begin(&metadata, OperationKind::Leave { host_id: id(2) }, &[1, 4]);
    take(&mut metadata, command);
    let operation = metadata.epoch;
    take(&mut metadata, Command::Remove { host_id: id(3) });
    let now = &metadata.operations[&operation];
    assert_eq!((now.since, now.stage), (operation, Stage::Fetching));
    assert_eq!(now.receivers, BTreeSet::from([id(1), id(4)]));
    let report = received(&metadata, operation, 1);
    take(&mut metadata, report);
    take(&mut metadata, Command::Remove { host_id: id(4) });
    assert_eq!(metadata.operations[&operation].stage, Stage::Switched, "nobody else has to report");
}

#[test]
fn a_node_that_leaves_is_removed_by_itself() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    let leaves = begin(&metadata, OperationKind::Leave { host_id: id(2) }, &[1]);
    take(&mut metadata, leaves);
    let (began, _) = metadata.operation_of(id(2)).expect("it leaves");
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec![]]);
    assert_eq!(metadata.members[&id(2)].state, MemberState::Leaving);
    let report = received(&metadata, began, 1);
    take(&mut metadata, report);
    assert_eq!((read(&metadata), next(&metadata)), (vec![2, 0], vec![vec!["-5", "10"], vec!["20"]]));
    let removed = begin(&metadata, OperationKind::Remove { host_id: id(2) }, &[1]);
    assert!(matches!(refusal(&metadata, &removed), Rejected::WrongState { .. }), "there is no way back");
    settle(&mut metadata, began);
    assert_eq!(metadata.operations[&began].stage, Stage::Settled, "it has hints to hand on");
    assert_eq!((read(&metadata), next(&metadata)), (vec![2, 0], vec![vec!["-5", "10"], vec![]]));
    take(&mut metadata, Command::Remove { host_id: id(2) });
    assert!(metadata.operations.is_empty() && metadata.left.contains(&id(2)));
    let last = begin(&metadata, OperationKind::Leave { host_id: id(1) }, &[]);
    assert_eq!(refusal(&metadata, &last), Rejected::LastMember);
}

#[test]
fn an_operation_is_undone() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    for kind in
        [OperationKind::Leave { host_id: id(2) }, OperationKind::Move { host_id: id(2), tokens: vec!["7".into()] }]
    {
        let command = begin(&metadata, kind, &[1, 2]);
        take(&mut metadata, command);
        let (began, _) = metadata.operation_of(id(2)).expect("it has begun");
        take(&mut metadata, Command::Abort { operation: began });
        assert_eq!((metadata.members[&id(2)].state, metadata.operations.len()), (MemberState::Normal, 0));
        assert_eq!(refusal(&metadata, &Command::Abort { operation: began }), Rejected::NoOperation(began));
    }
}

#[test]
fn a_node_moves_to_tokens_that_nobody_has() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    let kind = |token: &str| OperationKind::Move { host_id: id(2), tokens: vec![token.into()] };
    let taken = refusal(&metadata, &begin(&metadata, kind("10"), &[2]));
    assert_eq!(taken, Rejected::TokenTaken { token: "10".into(), owner: member(1, &[]).address });
    let command = begin(&metadata, kind("7"), &[1, 2]);
    take(&mut metadata, command);
    let (began, _) = metadata.operation_of(id(2)).expect("it moves");
    assert_eq!((metadata.members[&id(2)].state, next(&metadata)[1].clone()), (MemberState::Moving, vec!["7"]));
    for n in [2, 1] {
        let report = received(&metadata, began, n);
        take(&mut metadata, report);
    }
    assert_eq!(next(&metadata)[1], ["20"], "its old ranges still get writes");
    settle(&mut metadata, began);
    assert_eq!(
        (metadata.members[&id(2)].state, &metadata.members[&id(2)].tokens[..]),
        (MemberState::Normal, &["7".to_owned()][..])
    );
}

#[test]
fn a_replacement_takes_the_tokens() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }, join(3, &[])]);
    let kind = OperationKind::Replace { host_id: id(3), replaced: id(2) };
    let command = begin(&metadata, kind, &[3]);
    take(&mut metadata, command);
    let began = metadata.epoch;
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec![], vec!["20"]]);
    let report = received(&metadata, began, 3);
    take(&mut metadata, report);
    assert_eq!((read(&metadata), next(&metadata)[2].clone()), (vec![2, 0, 1], vec!["20"]), "the dead one gets nothing");
    settle(&mut metadata, began);
    assert_eq!(metadata.members[&id(3)].tokens, ["20"]);
    assert_eq!(metadata.members[&id(3)].state, MemberState::Normal);
    assert!(!metadata.members.contains_key(&id(2)) && metadata.left.contains(&id(2)));
}

#[test]
fn a_leaving_node_that_died_is_removed_by_others() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    let leaves = begin(&metadata, OperationKind::Leave { host_id: id(2) }, &[1, 3]);
    take(&mut metadata, leaves);
    let removed = begin(&metadata, OperationKind::Remove { host_id: id(2) }, &[1]);
    take(&mut metadata, removed);
    assert_eq!(metadata.operations.len(), 1, "one has taken the place of the other");
    let began = metadata.epoch;
    let report = received(&metadata, began, 1);
    take(&mut metadata, report);
    settle(&mut metadata, began);
    assert!(metadata.left.contains(&id(2)) && metadata.operations.is_empty());
}

#[test]
fn what_is_gained_is_another_thing_when_a_member_is_gone() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    let leaves = begin(&metadata, OperationKind::Leave { host_id: id(2) }, &[1, 3]);
    take(&mut metadata, leaves);
    let began = metadata.epoch;
    let report = received(&metadata, began, 1);
    take(&mut metadata, report.clone());
    take(&mut metadata, Command::Remove { host_id: id(3) });
    let operation = &metadata.operations[&began];
    assert_eq!((operation.since, &operation.receivers), (metadata.epoch, &BTreeSet::from([id(1), id(2)])));
    assert_eq!(refusal(&metadata, &report), Rejected::NoOperation(began), "of before");
}

#[test]
fn replicas_change_when_all_have_what_they_gain() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    let wider = replicate(&metadata, 51, "1", &[2]);
    take(&mut metadata, wider);
    let began = metadata.epoch;
    assert_eq!(metadata.schema_version, id(51), "the schema shows the goal");
    let factor = |metadata: &Metadata| {
        let before = &metadata.replication_before()["k"];
        (before.replication.options["replication_factor"].clone(), before.is_read)
    };
    assert_eq!(factor(&metadata), ("1".into(), true));
    // Altered once more before the end: the replicas are still those of the first.
    let again = replicate(&metadata, 52, "2", &[2]);
    take(&mut metadata, again);
    assert_eq!((metadata.operations.len(), factor(&metadata)), (1, ("1".into(), true)));
    assert!(!metadata.operations.contains_key(&began));
    let began = metadata.epoch;
    let report = received(&metadata, began, 2);
    take(&mut metadata, report);
    assert_eq!(factor(&metadata), ("1".into(), false), "it is written as it was before");
    let third = replicate(&metadata, 54, "2", &[1]);
    assert!(matches!(refusal(&metadata, &third), Rejected::OperationUnderWay(_)), "there is no way back");
    settle(&mut metadata, began);
    assert!(metadata.operations.is_empty());
    let narrower = replicate(&metadata, 53, "2", &[]);
    take(&mut metadata, narrower);
    assert_eq!(factor(&metadata), ("2".into(), false), "nobody gains anything");
    let began = metadata.epoch;
    settle(&mut metadata, began);
    assert_eq!(metadata.members_epoch, metadata.epoch);
}

#[test]
fn a_replacement_may_have_the_address_of_the_old_node() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    let address = member(2, &[]).address;
    let replacing = |n: u8, at: u8| Command::JoinToReplace {
        host_id: id(n),
        member: Box::new(Member { address: member(at, &[]).address, ..member(n, &["5"]) }),
        address: address.ip(),
    };
    let nothing =
        Command::JoinToReplace { host_id: id(3), member: Box::new(member(3, &[])), address: [127, 0, 0, 9].into() };
    assert_eq!(refusal(&metadata, &nothing), Rejected::NothingToReplace([127, 0, 0, 9].into()));
    assert_eq!(refusal(&metadata, &replacing(3, 1)), Rejected::AddressTaken(member(1, &[]).address));
    take(&mut metadata, replacing(3, 2));
    assert_eq!(metadata.replaced_at(address.ip(), id(3)), Some(id(2)));
    let command = begin(&metadata, OperationKind::Replace { host_id: id(3), replaced: id(2) }, &[3]);
    take(&mut metadata, command);
    let began = metadata.epoch;
    assert_eq!(metadata.member_at(address).map(|(id, _)| id), Some(id(3)));
    assert!(matches!(refusal(&metadata, &replacing(4, 4)), Rejected::NothingToReplace(_)), "its address has passed on");
    let report = received(&metadata, began, 3);
    take(&mut metadata, report);
    settle(&mut metadata, began);
    assert_eq!((metadata.members.len(), &metadata.members[&id(3)].tokens[..]), (2, &["20".to_owned()][..]));
    assert_eq!(refusal(&metadata, &join(2, &["20"])), Rejected::HasLeft(id(2)), "it does not come back");
}

#[test]
fn a_replacement_that_dies_leaves_the_old_node_as_it_was() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    let address = member(2, &[]).address.ip();
    take(&mut metadata, Command::JoinToReplace { host_id: id(3), member: Box::new(member(3, &[])), address });
    assert_eq!(metadata.replaced_at(address, id(3)), Some(id(2)));
    let command = begin(&metadata, OperationKind::Replace { host_id: id(3), replaced: id(2) }, &[3]);
    take(&mut metadata, command);
    take(&mut metadata, Command::Remove { host_id: id(3) });
    assert!(metadata.operations.is_empty());
    assert_eq!(metadata.members[&id(2)].state, MemberState::Normal);
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec!["20"]]);
}

/// Lets all members have the features of this version.
fn make_able(metadata: &mut Metadata) {
    metadata.members.values_mut().for_each(|member| Arc::make_mut(member).features = features::ALL);
}

/// Of two nodes that are dead neither can fetch what it would gain by the removal of the other.
#[test]
fn two_members_that_are_down_are_removed_together() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    make_able(&mut metadata);
    let removal = |n: u8| OperationKind::Remove { host_id: id(n) };
    let command = begin(&metadata, removal(2), &[1, 3]);
    take(&mut metadata, command);
    let first = metadata.epoch;
    let leaves = begin(&metadata, OperationKind::Leave { host_id: id(3) }, &[1]);
    assert!(matches!(refusal(&metadata, &leaves), Rejected::OperationUnderWay(_)), "nothing else goes beside it");
    let report = received(&metadata, first, 1);
    take(&mut metadata, report.clone());
    let command = begin(&metadata, removal(3), &[1]);
    take(&mut metadata, command);
    let second = metadata.epoch;
    assert_eq!(next(&metadata), [vec!["-5", "10"], vec![], vec![]]);
    assert_eq!(refusal(&metadata, &report), Rejected::NoOperation(first), "it has more to fetch now");
    for operation in [first, second] {
        let it = &metadata.operations[&operation];
        assert_eq!((it.since, it.stage, it.receivers.len()), (second, Stage::Fetching, 1));
    }
    assert_eq!(refusal(&metadata, &begin(&metadata, removal(1), &[])), Rejected::LastMember);
    let report = received(&metadata, first, 1);
    take(&mut metadata, report);
    assert_eq!(read(&metadata), [2, 0, 0], "both have switched");
    settle(&mut metadata, first);
    assert_eq!(metadata.operations[&second].stage, Stage::Switched, "the other one goes on");
    settle(&mut metadata, second);
    assert_eq!((metadata.members.len(), metadata.operations.len()), (1, 0));
    assert!(metadata.left.contains(&id(2)) && metadata.left.contains(&id(3)));
}

#[test]
fn a_member_of_an_older_version_removes_one_after_the_other() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    make_able(&mut metadata);
    let old = metadata.members.get_mut(&id(1)).map(Arc::make_mut).expect("a member");
    old.features &= !features::JOINT_REMOVALS;
    let command = begin(&metadata, OperationKind::Remove { host_id: id(2) }, &[1]);
    take(&mut metadata, command);
    let second = begin(&metadata, OperationKind::Remove { host_id: id(3) }, &[1]);
    assert!(matches!(refusal(&metadata, &second), Rejected::OperationUnderWay(_)));
}

/// It has missed what was written since its ranges are read from their new places.
#[test]
fn d2_a_node_that_is_taken_out_is_not_read_again_when_another_is_removed_by_force() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    take(&mut metadata, join(4, &["40"]));
    take(&mut metadata, Command::FinishJoin { host_id: id(4) });
    make_able(&mut metadata);
    let command = begin(&metadata, OperationKind::Remove { host_id: id(2) }, &[1]);
    take(&mut metadata, command);
    let removal = metadata.epoch;
    let report = received(&metadata, removal, 1);
    take(&mut metadata, report);
    assert_eq!(read(&metadata), [2, 0, 1, 1]);
    take(&mut metadata, Command::Remove { host_id: id(3) });
    let operation = &metadata.operations[&removal];
    assert_eq!((operation.stage, operation.since), (Stage::Switched, metadata.epoch), "a new barrier");
    assert_eq!(read(&metadata), [2, 0, 1], "it is not read again");
    settle(&mut metadata, removal);
}

#[test]
fn whoever_is_taken_out_has_nothing_to_fetch_when_things_begin_anew() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    take(&mut metadata, join(4, &["40"]));
    take(&mut metadata, Command::FinishJoin { host_id: id(4) });
    make_able(&mut metadata);
    let command = begin(&metadata, OperationKind::Remove { host_id: id(2) }, &[1, 3]);
    take(&mut metadata, command);
    let removal = metadata.epoch;
    take(&mut metadata, Command::Remove { host_id: id(3) });
    assert_eq!(metadata.operations[&removal].receivers, BTreeSet::from([id(1), id(4)]), "not the dead one");
}

#[test]
fn two_nodes_are_replaced_at_their_own_addresses_at_the_same_time() {
    let mut metadata = three();
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    make_able(&mut metadata);
    for (old, new) in [(2, 12), (3, 13)] {
        let address = member(old, &[]).address;
        let member = Box::new(Member { address, features: features::ALL, ..member(new, &[]) });
        take(&mut metadata, Command::JoinToReplace { host_id: id(new), member, address: address.ip() });
    }
    for (old, new) in [(2, 12), (3, 13)] {
        assert_eq!(metadata.replaced_at(member(old, &[]).address.ip(), id(new)), Some(id(old)), "{new}");
    }
}
