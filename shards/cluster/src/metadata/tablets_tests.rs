//! Tablets from their creation on: moves, what makes them end early, and nodes that go.

use super::*;
use crate::metadata::MemberState;
use crate::metadata::operation::tests::{begin, received, replicate, settle, take, three};
use crate::metadata::tests::{id, refusal, schema};
use crate::tablets::Tablet;

const TABLE: [u8; 16] = [7; 16];

fn nodes(numbers: &[u8]) -> Vec<Uuid> {
    numbers.iter().map(|n| id(*n)).collect()
}

fn with(metadata: &Metadata, command: Option<Command>, changes: Vec<TabletChange>) -> Command {
    Command::Tablets {
        with: command.map(Box::new),
        updates: vec![TabletsUpdate { table: TABLE, changes }],
        members_epoch: metadata.members_epoch,
    }
}

/// Two tablets with these replicas.
pub(crate) fn set(metadata: &Metadata, replicas: &[u8]) -> Command {
    let map = TabletMap::even(2, |_| nodes(replicas));
    with(metadata, None, vec![TabletChange::Set(map)])
}

/// Three members, of which 1 and 2 are normal, and a table whose tablets they have.
fn with_tablets(replicas: &[u8]) -> Metadata {
    let mut metadata = three();
    let table = schema(metadata.schema_version, id(60), metadata.schema_timestamp + 1);
    let map = TabletMap::even(2, |_| nodes(replicas));
    let command = with(&metadata, Some(table), vec![TabletChange::Set(map)]);
    take(&mut metadata, command);
    metadata
}

fn begin_move(metadata: &Metadata, to: &[u8]) -> Command {
    let moves = begin(metadata, OperationKind::Tablets, &[2]);
    with(metadata, Some(moves), vec![TabletChange::Move { until: Some(-1), goal: nodes(to) }])
}

fn replicas(metadata: &Metadata) -> Vec<(Vec<Uuid>, Option<Vec<Uuid>>)> {
    let tablet = |tablet: &Tablet| (tablet.replicas.clone(), tablet.goal.clone());
    metadata.tablets[&TABLE].tablets.iter().map(tablet).collect()
}

#[test]
fn tablets_come_with_their_table_and_go() {
    let mut metadata = with_tablets(&[1]);
    assert_eq!((metadata.schema_version, metadata.members_epoch), (id(60), metadata.epoch), "data has places");
    assert_eq!(replicas(&metadata), [(nodes(&[1]), None), (nodes(&[1]), None)]);
    let dropped = with(&metadata, None, vec![TabletChange::Drop]);
    take(&mut metadata, dropped);
    assert!(metadata.tablets.is_empty());
}

#[test]
fn a_tablet_moves_when_its_receiver_has_it() {
    let mut metadata = with_tablets(&[1]);
    let command = begin_move(&metadata, &[2]);
    take(&mut metadata, command);
    let operation = metadata.epoch;
    assert_eq!(replicas(&metadata), [(nodes(&[1]), Some(nodes(&[2]))), (nodes(&[1]), None)]);
    assert_eq!(metadata.placed_tablets().goals, Goals::Pending);
    let merge = with(&metadata, None, vec![TabletChange::Merge { until: -1 }]);
    assert_eq!(refusal(&metadata, &merge), Rejected::Tablets(TabletError::NotAlike(-1)));
    let report = received(&metadata, operation, 2);
    take(&mut metadata, report);
    assert_eq!(metadata.placed_tablets().goals, Goals::Read);
    settle(&mut metadata, operation);
    assert_eq!(replicas(&metadata), [(nodes(&[2]), None), (nodes(&[1]), None)]);
    assert!(metadata.operations.is_empty());
}

#[test]
fn a_move_of_tablets_makes_room_for_others_until_it_has_switched() {
    let mut metadata = with_tablets(&[1]);
    let command = begin_move(&metadata, &[2]);
    take(&mut metadata, command);
    let moving = metadata.clone();
    let others = [begin(&metadata, OperationKind::Join { host_id: id(3) }, &[3]), replicate(&metadata, 70, "1", &[2])];
    for command in others {
        let mut metadata = moving.clone();
        take(&mut metadata, command);
        assert_eq!(metadata.operations.len(), 1);
        assert!(replicas(&metadata).iter().all(|(_, goal)| goal.is_none()));
    }
    let another = begin_move(&metadata, &[2]);
    assert_eq!(refusal(&metadata, &another), Rejected::OperationUnderWay(Box::new(OperationKind::Tablets)));
    let report = received(&metadata, metadata.epoch, 2);
    take(&mut metadata, report);
    let join = begin(&metadata, OperationKind::Join { host_id: id(3) }, &[3]);
    assert_eq!(refusal(&metadata, &join), Rejected::OperationUnderWay(Box::new(OperationKind::Tablets)));
}

#[test]
fn a_move_that_is_undone_leaves_no_goals() {
    let mut metadata = with_tablets(&[1]);
    let command = begin_move(&metadata, &[2]);
    take(&mut metadata, command);
    let operation = metadata.epoch;
    take(&mut metadata, Command::Abort { operation });
    assert_eq!(replicas(&metadata), [(nodes(&[1]), None), (nodes(&[1]), None)]);
    assert!(metadata.members.values().all(|member| member.state != MemberState::Leaving));
}

#[test]
fn the_tablets_of_a_node_that_leaves_go_with_its_operation() {
    let mut metadata = with_tablets(&[2]);
    let leaves = begin(&metadata, OperationKind::Leave { host_id: id(2) }, &[1]);
    let moves = [Some(-1), None].map(|until| TabletChange::Move { until, goal: nodes(&[1]) });
    let command = with(&metadata, Some(leaves), moves.to_vec());
    take(&mut metadata, command);
    let operation = metadata.epoch;
    let report = received(&metadata, operation, 1);
    take(&mut metadata, report);
    settle(&mut metadata, operation);
    assert_eq!(replicas(&metadata), [(nodes(&[1]), None), (nodes(&[1]), None)]);
    assert_eq!(metadata.operations[&operation].stage, Stage::Settled);
}

#[test]
fn a_dead_node_is_written_to_no_more_once_others_are_read() {
    let mut metadata = with_tablets(&[2]);
    let removal = begin(&metadata, OperationKind::Remove { host_id: id(2) }, &[1]);
    let command = with(&metadata, Some(removal), vec![TabletChange::Move { until: None, goal: nodes(&[1]) }]);
    take(&mut metadata, command);
    let report = received(&metadata, metadata.epoch, 1);
    take(&mut metadata, report);
    assert_eq!(metadata.placed_tablets().goals, Goals::Only);
}

#[test]
fn all_tablets_keep_as_many_replicas_when_a_node_is_forgotten() {
    let mut metadata = with_tablets(&[1, 2]);
    take(&mut metadata, Command::Remove { host_id: id(2) });
    assert_eq!(replicas(&metadata), [(nodes(&[1]), None), (nodes(&[1]), None)], "the third has not joined yet");

    let mut metadata = with_tablets(&[2]);
    take(&mut metadata, Command::FinishJoin { host_id: id(3) });
    take(&mut metadata, Command::Remove { host_id: id(2) });
    assert_eq!(replicas(&metadata), [(nodes(&[1]), None), (nodes(&[3]), None)]);
}

#[test]
fn changes_that_would_break_a_rule_are_refused() {
    let metadata = with_tablets(&[1]);
    let malformed = Rejected::Tablets(TabletError::Malformed);
    let moves = vec![TabletChange::Move { until: None, goal: nodes(&[2]) }];
    assert_eq!(refusal(&metadata, &with(&metadata, None, moves.clone())), malformed, "no operation moves it");
    let leave = Command::Leave { host_id: id(2) };
    assert_eq!(refusal(&metadata, &with(&metadata, Some(leave), Vec::new())), malformed, "no such pair");
    let unknown = TabletMap::even(1, |_| nodes(&[9]));
    assert_eq!(refusal(&metadata, &with(&metadata, None, vec![TabletChange::Set(unknown)])), malformed);
    let older = Metadata { members_epoch: 1, ..metadata.clone() };
    let split = vec![TabletChange::Split { until: None, at: 5 }];
    let moved = Rejected::MembersMoved(metadata.members_epoch);
    assert_eq!(refusal(&metadata, &with(&older, None, split)), moved);
}

#[test]
fn encoded_tablets_keep_their_bytes() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let one = "1000000000000000000000000000000001";
    let tablet = Tablet { until: None, replicas: nodes(&[1]), goal: Some(nodes(&[2])) };
    let map =
        TabletMap { tablets: vec![Tablet { until: Some(-1), goal: Some(nodes(&[1])), ..tablet.clone() }, tablet] };
    let expected = format!("01020101{0}{1}{0}{0}{1}00{0}{1}{0}{0}{2}", "01", one, one.replace("01", "02"));
    assert_eq!(hex(&map.encode()), expected);
    assert_eq!(TabletMap::decode(&map.encode()), Ok(map.clone()));
    let empty = TabletMap { tablets: Vec::new() };
    assert_eq!(TabletMap::decode(&empty.encode()), Err(DecodeError::Malformed));

    let seen = Metadata { members_epoch: 300, ..Metadata::default() };
    let split = with(&seen, None, vec![TabletChange::Split { until: None, at: -5 }]);
    assert_eq!(hex(&split.encode()), format!("01110001{}01020009ac02", "07".repeat(16)));
    assert_eq!(Command::decode(&split.encode()), Ok(split));
}
