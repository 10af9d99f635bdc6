//! Commands in order, and those that are refused.

use super::tablets::tests as tablets_tests;
use super::*;
use crate::sub_partitions::{GrowthReason, SubPartitionsChange, SubPartitionsError};
use crate::topology::{NodeIndex, Topology};

pub(crate) fn member(n: u8, tokens: &[&str]) -> Member {
    Member {
        state: MemberState::Leaving,
        address: SocketAddr::from(([127, 0, 0, n], 7000)),
        native_address: SocketAddr::from(([127, 0, 0, n], 9042)),
        data_center: "dc".into(),
        rack: format!("r{n}"),
        tokens: tokens.iter().map(|token| token.to_string()).collect(),
        shards: 2,
        ignore_msb: 12,
        release_version: "5.0.9".into(),
        messages: (1, 1),
        features: 0,
    }
}

pub(crate) fn id(n: u8) -> Uuid {
    Uuid::from_u128(u128::from(n))
}

pub(crate) fn create() -> Command {
    Command::Create {
        cluster_id: id(99),
        cluster_name: "Test Cluster".into(),
        partitioner: "Murmur3Partitioner".into(),
        schema_version: id(50),
        schema_timestamp: 1_000,
        keyspaces: vec![4],
        host_id: id(1),
        member: Box::new(member(1, &["-5", "10"])),
    }
}

pub(crate) fn join(n: u8, tokens: &[&str]) -> Command {
    Command::Join { host_id: id(n), member: Box::new(member(n, tokens)) }
}

pub(crate) fn schema(before: Uuid, after: Uuid, timestamp: i64) -> Command {
    Command::Schema(Box::new(SchemaUpdate {
        before,
        after,
        timestamp,
        kind: UpdatedKind::Created,
        target: UpdatedTarget::Table,
        keyspace: "k".into(),
        name: "t".into(),
        given_id: Some([7; 16]),
        rows: vec![1, 2, 3],
    }))
}

/// The metadata after these commands, all of which are taken.
pub(crate) fn after(commands: &[Command]) -> Metadata {
    let mut metadata = Metadata::default();
    for (at, command) in commands.iter().enumerate() {
        assert_eq!(metadata.apply(at as u64 + 1, command), Ok(()), "{command:?}");
    }
    metadata
}

/// What `command` is refused for; the metadata stays as it is but for its epoch.
pub(crate) fn refusal(metadata: &Metadata, command: &Command) -> Rejected {
    let mut changed = metadata.clone();
    let rejected = changed.apply(metadata.epoch + 1, command).expect_err("a refusal");
    assert_eq!(changed, Metadata { epoch: metadata.epoch + 1, ..metadata.clone() });
    rejected
}

#[test]
fn a_cluster_is_created_once() {
    let metadata = after(&[create()]);
    assert_eq!((metadata.epoch, metadata.members[&id(1)].state), (1, MemberState::Normal));
    assert_eq!(refusal(&metadata, &create()), Rejected::Created);
    assert_eq!(refusal(&Metadata::default(), &join(2, &["1"])), Rejected::NotCreated);
}

#[test]
fn a_node_joins_becomes_normal_leaves_and_never_comes_back() {
    let mut metadata = after(&[create(), join(2, &["20"])]);
    let rings = |metadata: &Metadata| {
        let topology = Topology::new(metadata.nodes(), NodeIndex(0), metadata.members_epoch);
        topology.ring().iter().map(|(token, node)| (token.token().0, node.0)).collect::<Vec<_>>()
    };
    assert_eq!(rings(&metadata), [(-5, 0), (10, 0)], "a joining node owns nothing");
    metadata.apply(3, &Command::FinishJoin { host_id: id(2) }).expect("joined");
    assert_eq!(rings(&metadata), [(-5, 0), (10, 0), (20, 1)]);
    let again = refusal(&metadata, &Command::FinishJoin { host_id: id(2) });
    assert_eq!(again, Rejected::WrongState { host_id: id(2), state: MemberState::Normal });
    metadata.apply(4, &Command::Leave { host_id: id(2) }).expect("leaving");
    assert_eq!(refusal(&metadata, &Command::Leave { host_id: id(1) }), Rejected::LastMember);
    assert_eq!(refusal(&metadata, &Command::Remove { host_id: id(1) }), Rejected::LastMember);
    metadata.apply(5, &Command::AbortLeave { host_id: id(2) }).expect("stays");
    metadata.apply(6, &Command::Leave { host_id: id(2) }).expect("leaving");
    assert_eq!(rings(&metadata).len(), 3, "a leaving node owns its ranges");
    metadata.apply(7, &Command::Remove { host_id: id(2) }).expect("left");
    assert_eq!(rings(&metadata), [(-5, 0), (10, 0)]);
    assert_eq!(refusal(&metadata, &join(2, &["20"])), Rejected::HasLeft(id(2)));
    let restart = Command::Restart { host_id: id(2), member: Box::new(member(2, &[])) };
    assert_eq!(refusal(&metadata, &restart), Rejected::HasLeft(id(2)));
    assert_eq!(refusal(&metadata, &Command::Remove { host_id: id(2) }), Rejected::UnknownMember(id(2)));
}

#[test]
fn addresses_and_tokens_belong_to_one_member() {
    let metadata = after(&[create(), join(2, &["20"])]);
    let mut other = member(3, &["30"]);
    other.address = member(1, &[]).address;
    let taken = Command::Join { host_id: id(3), member: Box::new(other.clone()) };
    assert_eq!(refusal(&metadata, &taken), Rejected::AddressTaken(other.address));
    let taken = refusal(&metadata, &join(3, &["30", "20"]));
    assert_eq!(taken, Rejected::TokenTaken { token: "20".into(), owner: member(2, &[]).address });
    assert_eq!(refusal(&metadata, &join(2, &["40"])), Rejected::KnownMember(id(2)));
    let moved = Command::Restart { host_id: id(2), member: Box::new(other.clone()) };
    assert_eq!(refusal(&metadata, &moved), Rejected::AddressTaken(other.address));
}

#[test]
fn a_member_that_restarts_keeps_its_place() {
    let mut metadata = after(&[create(), join(2, &["20"])]);
    let mut now = member(9, &["77"]);
    (now.shards, now.data_center) = (7, "other".into());
    metadata.apply(3, &Command::Restart { host_id: id(2), member: Box::new(now.clone()) }).expect("restarted");
    let kept = &metadata.members[&id(2)];
    assert_eq!((kept.address, kept.shards), (now.address, 7));
    assert_eq!((kept.state, &*kept.data_center, &*kept.rack), (MemberState::Joining, "dc", "r2"));
    assert_eq!(kept.tokens, ["20"]);
}

#[test]
fn a_schema_change_names_the_version_that_it_changes() {
    let mut metadata = after(&[create()]);
    let moved = Rejected::SchemaMoved { version: id(50), timestamp: 1_000 };
    assert_eq!(refusal(&metadata, &schema(id(51), id(52), 2_000)), moved);
    assert_eq!(refusal(&metadata, &schema(id(50), id(52), 1_000)), moved, "its timestamp must be above the last");
    metadata.apply(2, &schema(id(50), id(52), 1_001)).expect("changed");
    assert_eq!((metadata.schema_version, metadata.schema_timestamp), (id(52), 1_001));
    assert_eq!((metadata.epoch, metadata.members_epoch), (2, 1), "the members are as before");
}

#[test]
fn a_cluster_has_at_most_so_many_members() {
    let mut metadata = after(&[create()]);
    for n in 1..MEMBERS_MAX as u128 {
        metadata.members.insert(Uuid::from_u128(1_000 + n), std::sync::Arc::new(member(4, &[])));
    }
    assert_eq!(refusal(&metadata, &join(2, &["20"])), Rejected::TooManyMembers);
    metadata.members.remove(&Uuid::from_u128(1_001));
    assert_eq!(metadata.apply(2, &join(2, &["20"])), Ok(()));
}

#[test]
fn encoded_forms_keep_their_bytes() {
    let commands = [create(), join(2, &["20"]), Command::Leave { host_id: id(1) }, schema(id(1), id(2), -3)];
    for command in &commands {
        let bytes = command.encode();
        assert_eq!(Command::decode(&bytes).as_ref(), Ok(command));
        for cut in 0..bytes.len() {
            assert!(Command::decode(&bytes[..cut]).is_err(), "{command:?} cut at {cut}");
        }
        assert_eq!(Command::decode(&[&bytes[..], &[0]].concat()), Err(DecodeError::Malformed));
    }
    for answer in [Ok(()), Err(Rejected::TokenTaken { token: "7".into(), owner: member(3, &[]).address })] {
        assert_eq!(Rejected::decode_answer(&Rejected::encode_answer(&answer)), Ok(answer));
    }
    let metadata = after(&commands[..2]);
    assert_eq!(metadata.encode()[0], 1);
    assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata));
    let metadata = after(&[commands[0].clone(), commands[1].clone(), owe(&[2])]);
    let bytes = metadata.encode();
    assert_eq!((bytes[0], Metadata::decode(&bytes).as_ref()), (2, Ok(&metadata)));
    for cut in 0..bytes.len() {
        assert!(Metadata::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert_eq!(Metadata::decode(&[&bytes[..], &[0]].concat()), Err(DecodeError::Malformed));
    assert_eq!(Command::decode(&[2, 0]), Err(DecodeError::Version(2)));
    // Version 1: a change here makes nodes of different releases disagree.
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&commands[2].encode()), "01041000000000000000000000000000000001");
    let before_and_after = "1000000000000000000000000000000001".to_owned() + "1000000000000000000000000000000002";
    let rest = "050001016b017401".to_owned() + &"07".repeat(16) + "03010203";
    assert_eq!(hex(&commands[3].encode()), format!("0107{before_and_after}{rest}"));
    let owed = "09".repeat(16) + "01" + "1000000000000000000000000000000002";
    assert_eq!(hex(&owe(&[2]).encode()), format!("0108{owed}"));
    let finished = Command::FinishTruncations { host_id: id(2), epoch: 300 };
    assert_eq!(hex(&finished.encode()), "01091000000000000000000000000000000002ac02");
    assert_eq!(hex(&relocate(2).encode()), "010a1000000000000000000000000000000002036463320172");
}

fn spread(change: SubPartitionsChange) -> Command {
    Command::SubPartitions { table: [7; 16], change }
}

fn grow_key() -> Command {
    let (key, reason) = (vec![9], GrowthReason::Load);
    spread(SubPartitionsChange::GrowKey { key, token: -2, shards: 4, reason })
}

/// Why keys have grown comes behind all else, in metadata of a version of their own.
#[test]
fn reasons_of_growths_keep_their_bytes() {
    let keep = spread(SubPartitionsChange::Keep { shards: 2, is_random: false });
    let metadata = after(&[create(), keep, grow_key()]);
    let bytes = metadata.encode();
    assert_eq!(bytes[0], 7);
    assert!(bytes.ends_with(&[&[1][..], &[7; 16], &[1, 3, 1]].concat()), "{bytes:?}");
    assert_eq!(Metadata::decode(&bytes), Ok(metadata.clone()));
    for cut in 0..bytes.len() {
        assert!(Metadata::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut of_nothing = bytes.clone();
    let at = bytes.len() - 2;
    of_nothing[at] = 5;
    assert_eq!(Metadata::decode(&of_nothing), Err(DecodeError::Malformed), "no key with that token has grown");
    of_nothing[bytes.len() - 4] = 8;
    assert_eq!(Metadata::decode(&of_nothing), Err(DecodeError::Malformed), "nor does a table with that id");
}

/// Requests are planned by sub-partitions, so each change begins an epoch of the members.
#[test]
fn sub_partitions_change_and_keep_their_bytes() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let keep = spread(SubPartitionsChange::Keep { shards: 300, is_random: true });
    let grow = spread(SubPartitionsChange::Grow { key: Some(vec![9]), token: -2, shards: 4 });
    let advance = |token| spread(SubPartitionsChange::Advance { token, since: 300 });
    for (command, rest) in [
        (keep, "00ac0201"),
        (grow, "010101090304"),
        (advance(None), "0200ac02"),
        (advance(Some(1)), "020102ac02"),
        (spread(SubPartitionsChange::Drop), "03"),
        (spread(SubPartitionsChange::Reopen { token: None, since: 300 }), "0400ac02"),
        (grow_key(), "050109030401"),
    ] {
        assert_eq!(hex(&command.encode()), format!("0113{}{rest}", "07".repeat(16)));
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
    let mut metadata = after(&[
        create(),
        spread(SubPartitionsChange::Keep { shards: 2, is_random: false }),
        spread(SubPartitionsChange::Grow { key: None, token: 0, shards: 4 }),
    ]);
    assert_eq!(metadata.members_epoch, 3);
    let bytes = metadata.encode();
    // No truncations, operations, tablets, tables on their way to the ring, and nodes that are emptied.
    let maps = format!("01{}0000020104040003{}", "07".repeat(16), "0000");
    assert_eq!((bytes[0], hex(&bytes).ends_with(&format!("0000000000{maps}"))), (6, true), "{}", hex(&bytes));
    assert_eq!(Metadata::decode(&bytes), Ok(metadata.clone()));
    for cut in 0..bytes.len() {
        assert!(Metadata::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let refused = |change| refusal(&metadata, &spread(change));
    assert_eq!(
        refused(SubPartitionsChange::Grow { key: None, token: 0, shards: 8 }),
        Rejected::SubPartitions(SubPartitionsError::UnderWay)
    );
    metadata.apply(4, &spread(SubPartitionsChange::Advance { token: None, since: 3 })).expect("the stage has ended");
    metadata.apply(5, &spread(SubPartitionsChange::Drop)).expect("the table is gone");
    assert!(metadata.sub_partitions.is_empty() && metadata.members_epoch == 5);
}

#[test]
fn a_member_alone_is_encoded_as_within_its_command() {
    let two = member(2, &["20"]);
    assert_eq!(Member::decode(&two.encode()), Ok(two.clone()));
    assert!(join(2, &["20"]).encode().ends_with(&two.encode()[1..]));
    for cut in 0..two.encode().len() {
        assert!(Member::decode(&two.encode()[..cut]).is_err(), "cut at {cut}");
    }
    assert_eq!(Member::decode(&[9, 0]), Err(DecodeError::Version(9)));
}

#[test]
fn members_that_an_entry_leaves_alone_are_shared() {
    let before = after(&[create(), join(2, &["20"])]);
    let mut metadata = before.clone();
    metadata.apply(3, &Command::FinishJoin { host_id: id(2) }).expect("joined");
    assert!(std::sync::Arc::ptr_eq(&before.members[&id(1)], &metadata.members[&id(1)]));
    assert_eq!(before.members[&id(2)].state, MemberState::Joining, "the value before is as it was");
    assert_eq!(metadata.members[&id(2)].state, MemberState::Normal);
}

/// The truncation of a table, owed by these nodes.
fn owe(nodes: &[u8]) -> Command {
    Command::OweTruncation { table: [9; 16], host_ids: nodes.iter().map(|node| id(*node)).collect() }
}

/// A member in another data centre and rack than before.
fn relocate(node: u8) -> Command {
    Command::Relocate { host_id: id(node), data_center: "dc2".into(), rack: "r".into() }
}

#[test]
fn a_member_is_in_another_data_centre_by_the_operators_word() {
    let mut metadata = after(&[create(), join(2, &["20"])]);
    assert_eq!(refusal(&metadata, &relocate(3)), Rejected::UnknownMember(id(3)));
    metadata.apply(3, &relocate(2)).expect("relocated");
    let member = &metadata.members[&id(2)];
    assert_eq!((&*member.data_center, &*member.rack, metadata.members_epoch), ("dc2", "r", 3));
}

#[test]
fn truncations_are_owed_until_the_node_has_made_the_last() {
    let mut metadata = after(&[create(), join(2, &["20"]), owe(&[2, 3])]);
    let members_epoch = metadata.members_epoch;
    let finish = |epoch| Command::FinishTruncations { host_id: id(2), epoch };
    let owed = |metadata: &Metadata| metadata.owed_truncations.clone();
    assert_eq!(owed(&metadata), BTreeMap::from([(id(2), BTreeMap::from([([9; 16], 3)]))]), "3 is no member");
    assert_eq!(metadata.apply(4, &owe(&[2])), Ok(()));
    assert_eq!(metadata.apply(5, &finish(3)), Ok(()));
    assert_eq!(owed(&metadata)[&id(2)][&[9; 16]], 4);
    assert_eq!(metadata.apply(6, &finish(4)), Ok(()));
    assert_eq!((owed(&metadata), metadata.members_epoch), (BTreeMap::new(), members_epoch));
    assert_eq!(metadata.apply(7, &owe(&[2])), Ok(()));
    assert_eq!(metadata.apply(8, &Command::FinishJoin { host_id: id(2) }), Ok(()));
    assert_eq!(metadata.apply(9, &Command::Remove { host_id: id(2) }), Ok(()));
    assert_eq!(owed(&metadata), BTreeMap::new());
}

#[test]
fn a_member_is_emptied_by_the_operators_word_until_it_goes() {
    let mut metadata = after(&[create(), join(2, &["20"]), Command::FinishJoin { host_id: id(2) }]);
    let members_epoch = metadata.members_epoch;
    let empty = |n, is_emptied| Command::Empty { host_id: id(n), is_emptied };
    assert_eq!(refusal(&metadata, &empty(3, true)), Rejected::UnknownMember(id(3)));
    for (epoch, is_emptied) in [(4, true), (5, true), (6, false), (7, true)] {
        assert_eq!(metadata.apply(epoch, &empty(2, is_emptied)), Ok(()));
        assert_eq!(metadata.emptied, is_emptied.then_some(id(2)).into_iter().collect());
        assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata.clone()));
        assert_eq!(metadata.encode()[0], if is_emptied { 5 } else { 1 }, "others keep the form that they had");
    }
    assert_eq!(metadata.members_epoch, members_epoch, "nobody has other data for it");
    assert_eq!(metadata.apply(8, &Command::Remove { host_id: id(2) }), Ok(()));
    assert!(metadata.emptied.is_empty());
}

/// Changes, drops and repeats bytes.
fn damage(random: &mut impl FnMut() -> u64, bytes: &mut Vec<u8>) {
    for _ in 0..=random() % 3 {
        if bytes.is_empty() {
            return;
        }
        let at = (random() % bytes.len() as u64) as usize;
        match random() % 5 {
            0 => bytes[at] ^= 1 << (random() % 8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][(random() % 5) as usize],
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random() as u8),
            _ => drop(bytes.drain(at..(at + 8).min(bytes.len()))),
        }
    }
}

#[test]
fn damaged_commands_and_metadata_never_panic_and_keep_the_invariants() {
    let mut random = crate::gossip::simulation_tests::generator(3);
    let host_id = id(2);
    let commands = [
        create(),
        join(2, &["7", "8"]),
        Command::FinishJoin { host_id },
        Command::Restart { host_id, member: Box::new(member(2, &["7"])) },
        Command::Leave { host_id },
        Command::AbortLeave { host_id },
        Command::Remove { host_id },
        schema(id(50), id(51), 2_000),
        owe(&[2]),
        Command::FinishTruncations { host_id, epoch: 7 },
        relocate(2),
        Command::Empty { host_id, is_emptied: true },
        tablets_tests::set(&Metadata { members_epoch: 1, ..Metadata::default() }, &[1]),
        tablets_tests::set(&Metadata { members_epoch: 2, ..Metadata::default() }, &[1, 2]),
        spread(SubPartitionsChange::Keep { shards: 2, is_random: false }),
        spread(SubPartitionsChange::Grow { key: None, token: 0, shards: 4 }),
        spread(SubPartitionsChange::Grow { key: Some(vec![9]), token: -2, shards: 4 }),
        spread(SubPartitionsChange::Advance { token: None, since: 7 }),
        grow_key(),
    ];
    let mut metadata = Metadata::default();
    let mut taken = 0;
    for epoch in 0..50_000 {
        let mut bytes = commands[(random() % commands.len() as u64) as usize].encode();
        damage(&mut random, &mut bytes);
        if let Ok(command) = Command::decode(&bytes) {
            assert_eq!(Command::decode(&command.encode()), Ok(command.clone()));
            taken += u64::from(metadata.apply(epoch, &command).is_ok());
        }
        let addresses: BTreeSet<_> = metadata.members.values().map(|member| member.address).collect();
        assert_eq!(addresses.len(), metadata.members.len(), "no two members have an address in common");
        assert!(metadata.has_sound_tablets());
        assert!(metadata.sub_partitions.values().all(|map| map.is_sound()));
        assert!(metadata.left.iter().all(|id| !metadata.members.contains_key(id)), "nobody who has left is back");
        let mut bytes = metadata.encode();
        damage(&mut random, &mut bytes);
        if let Ok(decoded) = Metadata::decode(&bytes) {
            decoded.nodes();
        }
        if epoch % 500 == 0 {
            metadata = Metadata::default();
        }
    }
    assert!(taken > 100, "{taken} commands were taken");
}
