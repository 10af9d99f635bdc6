//! Counter contexts: their bytes, merging, and the errors for damaged ones.

use super::*;

fn shard(kind: CounterShardKind, id: u8, clock: i64, count: i64) -> CounterShard {
    CounterShard { id: [id; 16], clock, count, kind }
}

fn context(shards: &[CounterShard]) -> Vec<u8> {
    let mut out = Vec::new();
    push_context(|| shards.iter().copied(), &mut out);
    out
}

fn merged(a: &[u8], b: &[u8]) -> Vec<CounterShard> {
    let mut out = Vec::new();
    merge(a, b, &mut out);
    let context = CounterContext::parse(&out).expect("well formed");
    context.shards().collect()
}

const KINDS: [CounterShardKind; 3] = [CounterShardKind::Remote, CounterShardKind::Local, CounterShardKind::Global];

#[test]
fn bytes_are_those_of_cassandra() {
    let bytes = context(&[
        shard(CounterShardKind::Local, 1, 5, 1),
        shard(CounterShardKind::Remote, 2, 6, -1),
        shard(CounterShardKind::Global, 3, 7, 40),
    ]);
    assert_eq!(bytes[..6], [0, 2, 0, 0, 0x80, 2]);
    assert_eq!(bytes.len(), 6 + 3 * 32);
    assert_eq!(bytes[6 + 32..6 + 64], [[2; 16].as_slice(), &[0, 0, 0, 0, 0, 0, 0, 6], &[0xff; 8]].concat());
    let parsed = CounterContext::parse(&bytes).expect("well formed");
    assert_eq!((parsed.total(), parsed.has_legacy_shards()), (40, true));
    assert_eq!(parsed.shard(&[3; 16]), Some(shard(CounterShardKind::Global, 3, 7, 40)));
    assert_eq!(parsed.shard(&[4; 16]), None);
    assert_eq!(global([3; 16], 7, 40).to_vec(), context(&[shard(CounterShardKind::Global, 3, 7, 40)]));
    assert_eq!(change(-4).to_vec(), context(&[shard(CounterShardKind::Local, 0, 1, -4)]));
    assert!(!CounterContext::trusted(&global([3; 16], 7, 40)).has_legacy_shards());
}

#[test]
fn a_negative_number_of_marks_makes_local_shards_remote() {
    let mut bytes = context(&[shard(CounterShardKind::Local, 1, 5, 1), shard(CounterShardKind::Global, 3, 7, 40)]);
    bytes[..2].copy_from_slice(&(-2i16).to_be_bytes());
    let shards: Vec<CounterShard> = CounterContext::parse(&bytes).expect("well formed").shards().collect();
    assert_eq!(shards, [shard(CounterShardKind::Remote, 1, 5, 1), shard(CounterShardKind::Global, 3, 7, 40)]);
}

#[test]
fn totals_wrap_around() {
    let bytes = context(&[shard(CounterShardKind::Global, 1, 1, i64::MAX), shard(CounterShardKind::Global, 2, 1, 1)]);
    assert_eq!(CounterContext::trusted(&bytes).total(), i64::MIN);
    assert_eq!(CounterContext::trusted(&[]).total(), 0);
}

#[test]
fn a_stronger_kind_wins_whatever_its_clock() {
    for (weak, strong) in [(0, 1), (0, 2), (1, 2)] {
        let weak = shard(KINDS[weak], 1, 100, 7);
        let strong = shard(KINDS[strong], 1, 1, 3);
        assert_eq!(merged(&context(&[weak]), &context(&[strong])), [strong]);
        assert_eq!(merged(&context(&[strong]), &context(&[weak])), [strong]);
    }
}

#[test]
fn of_one_kind_the_later_clock_wins_and_local_shards_add_up() {
    for kind in [CounterShardKind::Remote, CounterShardKind::Global] {
        let ladder = [shard(kind, 1, 1, 9), shard(kind, 1, 2, -5), shard(kind, 1, 2, 4)];
        for (i, a) in ladder.iter().enumerate() {
            for (j, b) in ladder.iter().enumerate() {
                assert_eq!(merged(&context(&[*a]), &context(&[*b])), [ladder[i.max(j)]]);
            }
        }
    }
    let [a, b] = [shard(CounterShardKind::Local, 1, 2, 5), shard(CounterShardKind::Local, 1, 3, -7)];
    assert_eq!(merged(&context(&[a]), &context(&[b])), [shard(CounterShardKind::Local, 1, 5, -2)]);
}

#[test]
fn negative_clocks_of_remote_shards_are_later() {
    let ladder = [
        shard(CounterShardKind::Remote, 1, 9, 1),
        shard(CounterShardKind::Remote, 1, -1, 0),
        shard(CounterShardKind::Remote, 1, -2, 0),
    ];
    for (i, a) in ladder.iter().enumerate() {
        for (j, b) in ladder.iter().enumerate() {
            assert_eq!(merged(&context(&[*a]), &context(&[*b])), [ladder[i.max(j)]]);
        }
    }
}

#[test]
fn shards_of_different_nodes_are_kept_by_id() {
    let [a, b, c] = [(1, CounterShardKind::Global), (2, CounterShardKind::Remote), (3, CounterShardKind::Local)]
        .map(|(id, kind)| shard(kind, id, 1, id.into()));
    assert_eq!(merged(&context(&[a, c]), &context(&[b])), [a, b, c]);
    assert_eq!(merged(&context(&[b]), &context(&[a, c])), [a, b, c]);
    assert_eq!(merged(&context(&[a, b]), &[]), [a, b]);
}

#[test]
fn damage_has_a_name() {
    let good = context(&[shard(CounterShardKind::Global, 1, 1, 1), shard(CounterShardKind::Global, 2, 1, 1)]);
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        CounterContext::parse(&bad).map(|context| context.shards().count())
    };
    assert_eq!(with(0, &[0, 2]), Ok(2));
    assert_eq!(with(2, &[0x80, 1]), Err(CounterContextError::Mark));
    assert_eq!(with(4, &[0x80, 2]), Err(CounterContextError::Mark));
    assert_eq!(with(6, &[2; 16]), Err(CounterContextError::Order));
    assert_eq!(with(6, &[3]), Err(CounterContextError::Order));
    assert_eq!(with(0, &[0x7f, 0xff]), Err(CounterContextError::Header));
    assert_eq!(with(0, &[0x80, 0]), Err(CounterContextError::Header));
    assert_eq!(with(0, &[0, 1]), Err(CounterContextError::Body));
    assert_eq!(CounterContext::parse(&good[..1]).err(), Some(CounterContextError::Header));
    for len in 1..good.len() {
        assert!(CounterContext::parse(&good[..len]).is_err(), "{len}");
        CounterContext::trusted(&good[..len]).total();
    }
}

#[test]
fn the_number_of_shards_is_limited() {
    let of = |count: usize| {
        let mut bytes = vec![0, 0];
        for id in 0..count as u128 {
            bytes.extend_from_slice(&id.to_be_bytes());
            bytes.extend_from_slice(&[0; 16]);
        }
        CounterContext::parse(&bytes).map(|context| context.shards().count())
    };
    assert_eq!(of(SHARDS_MAX), Ok(SHARDS_MAX));
    assert_eq!(of(SHARDS_MAX + 1), Err(CounterContextError::TooManyShards));
}
