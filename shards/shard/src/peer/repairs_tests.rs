//! The bytes of what a repair asks, and of the answers.

use super::*;
use model::{DecoratedKey, RingToken};

const M3: Partitioner = Partitioner::Murmur3;

fn request(wanted: Wanted) -> ValidationRequest {
    let range = TokenRange::between(RingToken::Murmur3(-2), RingToken::Murmur3(i64::MIN));
    let leaves = Leaves::new(M3, range, 300);
    ValidationRequest { table: TableId([7; 16]), now_in_seconds: 1_700_000_000, leaves, wanted, set: None }
}

fn listed() -> Wanted {
    let after = Some(DecoratedKey::new(M3, b"k"));
    Wanted::Partitions(WantedPartitions { leaves: vec![0, 299], after, partitions_max: 5 })
}

fn bytes_of(request: &ValidationRequest) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, request);
    out
}

fn answer_bytes(answer: &Validation) -> Vec<u8> {
    let mut out = Vec::new();
    push_answer(&mut out, answer);
    out
}

fn partition(key: &[u8], digest: u64, bytes: u64) -> PartitionDigest {
    PartitionDigest { key: DecoratedKey::new(M3, key), digest, bytes }
}

#[test]
fn golden_bytes_of_requests() {
    let mut segment = vec![7; 16];
    segment.extend_from_slice(&1_700_000_000i64.to_le_bytes());
    segment.extend_from_slice(&[2, 8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 254, 0, 44, 1]);
    assert_eq!(bytes_of(&request(Wanted::Tree)), segment);
    let rest = [1, 1, 0, b'k', 5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 43, 1];
    assert_eq!(bytes_of(&request(listed())), [&segment[..], &rest].concat());
    let decoded = decode(M3, &[&segment[..], &rest].concat(), true).expect("a request");
    assert_eq!(bytes_of(&decoded), bytes_of(&request(listed())));
    assert!(matches!(decode(M3, &segment, false).expect("a request").wanted, Wanted::Tree));
    assert!(decode(M3, &segment, true).is_none());
    assert!(decode(M3, &bytes_of(&request(listed())), false).is_none());
    let whole = bytes_of(&request(listed()));
    assert!((0..whole.len()).all(|len| decode(M3, &whole[..len], true).is_none()));
}

#[test]
fn leaves_that_are_none_are_refused() {
    let of = |leaves: &[u16]| {
        let wanted = WantedPartitions { leaves: leaves.to_vec(), after: None, partitions_max: 1 };
        decode(M3, &bytes_of(&request(Wanted::Partitions(wanted))), true).is_some()
    };
    assert!(of(&[]) && of(&[0, 1, 299]));
    assert!(!of(&[300]) && !of(&[1, 1]) && !of(&[2, 1]));
    for (count, is_one) in [(0, false), (1, true), (LEAVES_MAX, true), (LEAVES_MAX + 1, false)] {
        let mut bytes = bytes_of(&request(Wanted::Tree));
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(&count.to_le_bytes());
        assert_eq!(decode(M3, &bytes, false).is_some(), is_one, "{count} leaves");
    }
}

#[test]
fn golden_bytes_of_answers() {
    let none = Validation::Tree(Tree::default());
    assert_eq!(answer_bytes(&none), [0; 16]);
    let tree = Validation::Tree(Tree { partitions: 3, bytes: 258, sums: (0..300).collect() });
    let bytes = answer_bytes(&tree);
    assert_eq!(bytes[..24], [3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), 16 + 300 * 8);
    for (answer, bytes) in [(&none, answer_bytes(&none)), (&tree, bytes)] {
        assert_eq!(decode_answer(M3, &bytes, &request(Wanted::Tree)).as_ref(), Some(answer));
        assert!((0..bytes.len()).all(|len| decode_answer(M3, &bytes[..len], &request(Wanted::Tree)).is_none()));
    }
    let mut partitions = vec![partition(b"a", 9, 1), partition(b"b", 10, 2)];
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    let list = Validation::Partitions(PartitionList { partitions: partitions.clone(), is_cut: true });
    let bytes = answer_bytes(&list);
    assert_eq!(bytes[..5], [1, 2, 0, 0, 0]);
    assert_eq!(bytes[5..8], [1, 0, partitions[0].key.key[0]]);
    assert_eq!(bytes.len(), 5 + 2 * (3 + 16));
    assert_eq!(decode_answer(M3, &bytes, &request(listed())), Some(list));
    assert!((0..bytes.len()).all(|len| decode_answer(M3, &bytes[..len], &request(listed())).is_none()));
    partitions.reverse();
    let unordered = Validation::Partitions(PartitionList { partitions, is_cut: false });
    assert_eq!(decode_answer(M3, &answer_bytes(&unordered), &request(listed())), None);
    let endless = Validation::Partitions(PartitionList { partitions: Vec::new(), is_cut: true });
    assert_eq!(decode_answer(M3, &answer_bytes(&endless), &request(listed())), None, "it would never get on");
}
