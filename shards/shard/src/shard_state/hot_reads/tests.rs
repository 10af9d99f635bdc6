//! When partitions are hot, which of their reads are equal, and how many of each there can be.

use super::*;
use crate::schema::system_schema;
use crate::schema::tests::sample;
use cluster::placement::Placement;
use cluster::topology::{Node, NodeIndex, Topology};
use cql::plan::Selector;
use joined::Entered;
use model::query::{Partitions, Position, ReadCommand, Slice};
use model::{Partitioner, RingToken, ShardMap};
use uuid::Uuid;

const TABLE: TableId = TableId([7; 16]);

fn key(number: u32) -> DecoratedKey {
    DecoratedKey::new(Partitioner::Murmur3, &number.to_be_bytes())
}

/// The beginning of a window.
fn window(number: u64) -> Instant {
    Instant(number << WINDOW_BITS)
}

fn is_hot(hot: &HotReads, number: u32, at: u64) -> bool {
    hot.note(TABLE, &key(number), window(at)).is_some()
}

#[test]
fn a_partition_is_hot_from_the_threshold_on() {
    let hot = HotReads::new(Some(100));
    let threshold = hot.threshold;
    assert_eq!(threshold, 107, "a window is longer than a second");
    assert!((1..threshold).all(|_| !is_hot(&hot, 1, 5)));
    assert!(is_hot(&hot, 1, 5));
    assert!(!is_hot(&hot, 2, 5));
    assert!(is_hot(&hot, 1, 6), "by its first read of the next window");
    (0..60).for_each(|_| assert!(is_hot(&hot, 1, 6)));
    (0..10).for_each(|_| assert!(is_hot(&hot, 1, 7)));
    assert!(!is_hot(&hot, 1, 8), "it had less than half of the threshold");
    assert!(hot.relieved(window(8)).is_empty());
    let off = HotReads::new(None);
    assert!((0..10_000).all(|_| !is_hot(&off, 1, 5)));
}

#[test]
fn so_many_partitions_are_hot() {
    let hot = HotReads::new(Some(1));
    let found = (0..4 * PARTITIONS_MAX as u32).filter(|number| is_hot(&hot, *number, 1)).count();
    assert_eq!(found, PARTITIONS_MAX);
    assert_eq!(hot.relieved(window(1)).len(), PARTITIONS_MAX);
    assert!(!is_hot(&hot, 9_999, 2), "all of them were read in the last window");
    assert!(is_hot(&hot, 9_999, 3), "those that nobody reads make room");
    assert_eq!(hot.relieved(window(3)).len(), 1);
    assert!(hot.relieved(window(4 + u64::from(WINDOWS_KEPT))).is_empty());
}

fn placement() -> Rc<TablePlacement> {
    let mut schema = system_schema(Partitioner::Murmur3);
    schema.put_keyspace(Arc::new(sample()));
    let node = Node {
        host_id: Uuid::nil(),
        address: ([127, 0, 0, 1], 7000).into(),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        shards: ShardMap::new(Partitioner::Murmur3, 1),
        tokens: vec![RingToken::Murmur3(0)],
        features: 0,
    };
    let topology = Rc::new(Topology::new(vec![node], NodeIndex(0), 1));
    let table = schema.table("Schema_L", "Tab").expect("there").id;
    Placement::new(topology, &schema).table(table).cloned().expect("it is placed")
}

const TERMS: AckTerms = AckTerms { consistency: Consistency::One, timeout: Duration::from_secs(5) };

fn request(selection: &Arc<[Selector]>) -> ReadRequest {
    ReadRequest {
        command: ReadCommand::all(TABLE, 1_000, Partitions::Key(key(1))),
        selection: selection.clone(),
        filter: None,
        index: None,
        bytes_max: 100,
        places: false,
    }
}

fn partition() -> Rc<HotPartition> {
    HotReads::new(Some(1)).note(TABLE, &key(1), window(1)).expect("it is hot")
}

/// Whatever shapes the answer makes reads different; each changes one thing.
#[test]
fn only_equal_reads_are_joined() {
    let (partition, placed, selection) = (partition(), placement(), Arc::from([Selector::CountRows]));
    let group = |request: &ReadRequest, placed: &Rc<TablePlacement>, terms| {
        partition.equal_reads(request, placed, terms).expect("there is room")
    };
    let first = group(&request(&selection), &placed, TERMS);
    let Entered::Leads(_lead) = first.enter() else { panic!("it is the first") };
    assert!(Rc::ptr_eq(&first, &group(&request(&selection), &placed, TERMS)));
    let changed = |change: &dyn Fn(&mut ReadRequest)| {
        let mut request = request(&selection);
        change(&mut request);
        request
    };
    let position = Position { key: key(1), comparable: Some([1].into()) };
    let different = [
        changed(&|request| request.selection = Arc::from([Selector::CountRows])),
        changed(&|request| request.bytes_max = 101),
        changed(&|request| request.places = true),
        changed(&|request| request.command.now_in_seconds += 1),
        changed(&|request| request.command.rows_max = 10),
        changed(&|request| request.command.resume = Some(position.clone())),
        changed(&|request| request.command.reversed = true),
        changed(&|request| request.command.slices = [Slice { start: [1].into(), end: [2].into() }].into()),
    ];
    for request in &different {
        assert!(!Rc::ptr_eq(&first, &group(request, &placed, TERMS)), "{request:?}");
    }
    let quorum = AckTerms { consistency: Consistency::Quorum, ..TERMS };
    assert!(!Rc::ptr_eq(&first, &group(&request(&selection), &placed, quorum)));
    let patient = AckTerms { timeout: Duration::from_secs(6), ..TERMS };
    assert!(!Rc::ptr_eq(&first, &group(&request(&selection), &placed, patient)));
    assert!(!Rc::ptr_eq(&first, &group(&request(&selection), &placement(), TERMS)), "replicas may have changed");
}

#[test]
fn so_many_different_reads_are_joined() {
    let (partition, placed, selection) = (partition(), placement(), Arc::from([Selector::CountRows]));
    let group = |bytes_max| {
        let request = ReadRequest { bytes_max, ..request(&selection) };
        partition.equal_reads(&request, &placed, TERMS)
    };
    let mut leads = Vec::new();
    for number in 0..GROUPS_MAX {
        let Some(Entered::Leads(lead)) = group(number).map(|reads| reads.enter()) else { panic!("it is the first") };
        leads.push(lead);
    }
    assert!(group(GROUPS_MAX).is_none());
    leads.pop();
    assert!(group(GROUPS_MAX).is_some(), "those that nobody reads make room");
}

#[test]
fn large_answers_are_not_shared_for_a_while() {
    let hot = HotReads::new(Some(1));
    let (placed, selection) = (placement(), Arc::from([Selector::CountRows]));
    let is_joined = |at| {
        let partition = hot.note(TABLE, &key(1), window(at)).expect("it is hot");
        partition.equal_reads(&request(&selection), &placed, TERMS).is_some()
    };
    assert!(is_joined(5));
    hot.note(TABLE, &key(1), window(5)).expect("it is hot").note_unshared();
    assert_eq!([5, 6, 7].map(is_joined), [false, false, true]);
}
