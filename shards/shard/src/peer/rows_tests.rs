//! Rows as bytes: the bytes of version 1, and damage.

use super::*;
use model::DecoratedKey;
use model::arbitrary::generator;
use model::clustering::Clustering;
use model::query::{LiveRow, Position, Resume};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn reply() -> ReadReply {
    let key = DecoratedKey::new(Partitioner::Murmur3, b"k");
    let resume = Resume { position: Position { key, comparable: None }, partition_rows: 2 };
    let mut places = RowPlaces::default();
    for (comparable, static_only) in [(&b"c"[..], false), (b"", true)] {
        let row = LiveRow {
            token: Token(-1),
            key: b"k",
            clustering: Clustering(&[]),
            comparable,
            liveness: None,
            cells: &[],
            static_cells: &[],
            static_only,
        };
        places.push(&row, 3);
    }
    ReadReply {
        block: RowBlock { bytes: vec![1, 2, 3], rows: 2, ends: vec![(Token(-1), 1), (Token(-1), 3)] },
        end: ReadEnd::Paused(Box::new(resume.clone())),
        last: Some(resume),
        places,
        scanned: ScanCounts { live: 4, dead: 5, token: Token(6) },
    }
}

#[test]
fn golden_bytes() {
    let mut bytes = Vec::new();
    push(&mut bytes, &reply());
    let resume = "0101006b000200000000000000";
    let minus = "ffffffffffffffff";
    let place =
        |comparable: &str, is_static: &str| format!("{minus}000000000100{comparable}{is_static}0300000000000000");
    let places = format!("02000000{}{}6b63", place("0100000001000000", "00"), place("0200000000000000", "01"));
    let expected = format!("02{resume}{resume}040000000000000005000000000000000600000000000000")
        + "02000000"
        + &format!("02000000{minus}01000000{minus}03000000")
        + &hex(&(places.len() as u32 / 2).to_le_bytes())
        + &places
        + "03000000010203";
    assert_eq!(hex(&bytes), expected);
    let read = decode(Partitioner::Murmur3, &bytes).expect("rows");
    let mut again = Vec::new();
    push(&mut again, &read);
    assert_eq!(again, bytes);
    assert!((0..bytes.len()).all(|len| decode(Partitioner::Murmur3, &bytes[..len]).is_none()));
    assert!(decode(Partitioner::Murmur3, &[&bytes[..], &[0]].concat()).is_none());
}

#[test]
fn ends_outside_of_the_block_are_refused() {
    let refused = |change: fn(&mut ReadReply)| {
        let mut reply = reply();
        change(&mut reply);
        let mut bytes = Vec::new();
        push(&mut bytes, &reply);
        assert!(decode(Partitioner::Murmur3, &bytes).is_none());
    };
    refused(|reply| reply.block.ends[1].1 = 4);
    refused(|reply| reply.block.ends[0].1 = 5);
    refused(|reply| reply.block.rows = 3);
    refused(|reply| reply.block.ends.truncate(1));
}

#[test]
fn damage_never_panics() {
    for seed in 0..5_000 {
        let mut below = generator(seed);
        let mut bytes = Vec::new();
        push(&mut bytes, &reply());
        for _ in 0..1 + below(4) {
            let at = below(bytes.len() as u64) as usize;
            bytes[at] = below(256) as u8;
        }
        if let Some(read) = decode(Partitioner::Murmur3, &bytes) {
            (0..read.places.len()).for_each(|at| drop(read.places.resume(Partitioner::Murmur3, at)));
        }
    }
}
