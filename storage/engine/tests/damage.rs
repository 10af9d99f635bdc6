//! Damaged segments: how a start treats bytes that differ from what was written.

use crate::support::*;
use engine::commitlog::segment_reader::scan_bytes;
use engine::{Error, Options, Store};
use runtime::rng::Rng;
use std::path::PathBuf;

#[test]
fn s1_a_flipped_bit_in_an_old_group_is_corruption() {
    let mut rng = Rng::new(1);
    let (mut sim, segments) = some_segments(1);
    // The newest segment that holds groups.
    let groups = |bytes: &[u8]| bytes.chunks(4096).skip(1).filter(|block| block[..4] == *b"GRUP").count();
    let holding: Vec<&PathBuf> =
        segments.iter().filter(|path| groups(&sim.read_file(NODE, path).expect("a file")) > 0).collect();
    let newest = *holding.last().expect("a segment");
    for _ in 0..60 {
        let path = holding[rng.below(holding.len() as u64) as usize].clone();
        let bytes = sim.read_file(NODE, &path).expect("a file");
        let count = groups(&bytes);
        let group = rng.below(count as u64 + 1) as usize;
        // Group 0 stands for the header block. The payloads have about 200 bytes each.
        let at = group * 4096 + rng.below(if group == 0 { 40 } else { 150 }) as usize;
        let bit = 1 << rng.below(8);
        sim.mutate_file(NODE, &path, |bytes| bytes[at] ^= bit);
        let result = run(&mut sim, || replayed_rows(small()));
        let last_group = path == *newest && group == count;
        match result {
            Err(Error::Corrupt { path: named, .. }) => {
                assert_eq!(named, path);
                assert!(!last_group, "it cannot be told from a torn tail");
            }
            Ok(rows) => {
                assert!(last_group, "{path:?} group {group} at {at}: damage went unnoticed");
                assert_eq!(rows, (0..29).collect::<Vec<_>>(), "all but the last");
            }
            Err(error) => panic!("{error}"),
        }
        sim.mutate_file(NODE, &path, |bytes| bytes[at] ^= bit);
    }
    assert_eq!(run(&mut sim, || replayed_rows(small())).expect("whole again"), (0..30).collect::<Vec<_>>());
}

#[test]
fn s1_a_group_lost_from_a_segment_that_a_later_start_knows_is_corruption() {
    let (mut sim, _) = some_segments(2);
    // A second run records where the segments of the first run end.
    run(&mut sim, || async {
        let (store, _) = replay(small()).await.expect("replay");
        store.start(store.highest_counter()).await.expect("start");
        write_rows(&store, 30..31, 10).await;
    });
    assert_eq!(run(&mut sim, || replayed_rows(small())).expect("replay").len(), 31);
    let mut damaged = 0;
    for (path, _) in sim.files(NODE) {
        let before = sim.read_file(NODE, &path).expect("a file");
        let last = before.chunks(4096).rposition(|block| block[..4] == *b"GRUP");
        let Some(last) = last else { continue };
        sim.mutate_file(NODE, &path, |bytes| bytes[last * 4096 + 50] ^= 1);
        let result = run(&mut sim, || replayed_rows(small()));
        damaged += usize::from(matches!(result, Err(Error::Corrupt { .. })));
        sim.mutate_file(NODE, &path, |bytes| bytes.clone_from(&before));
    }
    assert!(damaged >= 4, "{damaged}");
}

#[test]
fn s1_every_tear_of_the_last_group_is_a_torn_tail() {
    let mut sim = calm(3);
    run(&mut sim, || async {
        let store = start(Options { segment_bytes: 64 << 10, ..small() }, &[table(1)]).await;
        write_rows(&store, 0..2, 10).await;
        write_rows(&store, 2..3, 9000).await;
    });
    let path = sim.files(NODE).into_iter().map(|(path, _)| path).next().expect("a segment");
    let whole = sim.read_file(NODE, &path).expect("a file");
    let start = whole.chunks(4096).rposition(|block| block[..4] == *b"GRUP").expect("a group") * 4096;
    for cut in (start..start + 9000 + 512).step_by(512) {
        sim.mutate_file(NODE, &path, |bytes| bytes[cut..].fill(0));
        let (rows, torn) = run(&mut sim, || async {
            let (store, stats) = replay(Options { segment_bytes: 64 << 10, ..small() }).await.expect("replay");
            (read_all(&store, table(1).id).await.len(), stats.torn_tails)
        });
        let whole_group = cut >= start + 9000 + 200;
        assert_eq!(rows, if whole_group { 3 } else { 2 }, "cut at {cut}");
        assert_eq!(torn, u64::from(!whole_group && cut > start), "cut at {cut}");
        sim.mutate_file(NODE, &path, |bytes| bytes.clone_from(&whole));
    }
}

#[test]
fn s1_mutated_segments_never_panic_and_never_give_what_was_not_written() {
    let (sim, segments) = some_segments(4);
    let mut rng = Rng::new(4);
    for round in 0..4000 {
        let path = &segments[rng.below(segments.len() as u64) as usize];
        let mut bytes = sim.read_file(NODE, path).expect("a file");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let id = u64::from_str_radix(&name, 16).expect("an id");
        let mut original = Vec::new();
        scan_bytes(&bytes, id, |offset, record| original.push((offset, format!("{record:?}")))).expect("whole");
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(6) {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => bytes[at % 4200] = rng.below(256) as u8,
                3 => bytes.copy_within(4096..8192, (at / 4096 * 4096).min(28 << 10)),
                4 => bytes[at..].fill(0),
                _ => {
                    let other = rng.below(bytes.len() as u64) as usize;
                    bytes.swap(at, other);
                }
            }
            if bytes.len() < (32 << 10) {
                bytes.resize(if rng.chance(0.5) { 32 << 10 } else { bytes.len() + 1 }, 0);
                if bytes.len() < (32 << 10) {
                    break;
                }
            }
        }
        let mut found = Vec::new();
        let _ = scan_bytes(&bytes, id, |offset, record| found.push((offset, format!("{record:?}"))));
        assert!(original.starts_with(&found), "round {round}");
    }
}

#[test]
fn s1_bytes_that_a_client_chose_are_never_a_group() {
    // A value that contains a whole segment, with the groups at block boundaries, behind a torn tail.
    let (sim, segments) = some_segments(5);
    let image = sim.read_file(NODE, &segments[0]).expect("a file");
    let mut sim = calm(6);
    let options = Options { segment_bytes: 256 << 10, ..small() };
    let (first, value) = (options.clone(), image);
    run(&mut sim, move || {
        let (options, value) = (first.clone(), value.clone());
        async move {
            let store = start(options, &[table(1)]).await;
            write_rows(&store, 0..1, 10).await;
            // Room for the shifts below, one of which brings the value's groups to block boundaries.
            let mut aligned = vec![0; 4096];
            aligned.extend_from_slice(&value);
            store.apply(insert(table(1).id, b"p", 1, 0, 1, &aligned), false).await.expect("apply");
        }
    });
    let path = sim.files(NODE).into_iter().map(|(path, _)| path).next().expect("a segment");
    for shift in 0..4096usize {
        if shift % 97 != 0 && shift > 300 {
            continue;
        }
        let before = sim.read_file(NODE, &path).expect("a file");
        sim.mutate_file(NODE, &path, |bytes| {
            let end = bytes.len();
            bytes.copy_within(8192 + shift..end, 8192);
        });
        let options = options.clone();
        let rows = run(&mut sim, move || replayed_rows(options.clone()));
        let expected = if shift == 0 { vec![0, 1] } else { vec![0] };
        assert_eq!(rows.expect("a torn tail"), expected, "shift {shift}");
        sim.mutate_file(NODE, &path, |bytes| bytes.clone_from(&before));
    }
}

#[test]
fn s1_cassandras_own_segments_are_refused_unless_empty() {
    let cassandra = |body: &[u8]| {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&8i32.to_be_bytes());
        bytes.extend_from_slice(&1234i64.to_be_bytes());
        bytes.extend_from_slice(&2i16.to_be_bytes());
        bytes.extend_from_slice(b"{}");
        bytes.extend_from_slice(&[1, 2, 3, 4, 0, 0, 1, 0, 5, 6, 7, 8]);
        bytes.extend_from_slice(body);
        bytes.resize(600 << 10, 0);
        bytes
    };
    for (body, refused) in [(&b""[..], false), (&[0, 0, 1][..], true)] {
        let mut sim = calm(1);
        let bytes = cassandra(body);
        let result = run(&mut sim, move || {
            let bytes = bytes.clone();
            async move {
                let path = PathBuf::from("/data/commitlog/CommitLog-8-1234.log");
                runtime::file::create_dir_all(path.parent().expect("a directory")).await.expect("create");
                runtime::file::replace_small(&path, &bytes).await.expect("write");
                Store::open(small()).await.map(|_| ())
            }
        });
        match result {
            Err(error @ Error::ForeignLog { .. }) if refused => assert!(error.to_string().contains("nodetool drain")),
            Ok(()) if !refused => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn s1_what_a_start_has_shown_survives_a_power_failure() {
    for seed in 0..20 {
        let mut sim = calm(seed);
        run(&mut sim, || async {
            let store = start(small(), &[table(1)]).await;
            write_rows(&store, 0..2, 10).await;
        });
        // The last group is in the file but not durable, as after a write whose process was killed before the disk's
        // cache was flushed.
        let path = sim.files(NODE).into_iter().map(|(path, _)| path).next().expect("a segment");
        let whole = sim.read_file(NODE, &path).expect("a file");
        let last = whole.chunks(4096).rposition(|block| block[..4] == *b"GRUP").expect("a group") * 4096;
        sim.mutate_file(NODE, &path, |bytes| bytes[last..last + 4096].fill(0));
        run(&mut sim, move || {
            let (path, block) = (path.clone(), whole[last..last + 4096].to_vec());
            async move {
                let options = runtime::file::OpenOptions { write: true, ..Default::default() };
                let file = runtime::File::open(&path, options).await.expect("open");
                let mut buffer = runtime::AlignedBuf::zeroed(4096);
                buffer.copy_from_slice(&block);
                file.write_at(buffer, last as u64).await.0.expect("write");
            }
        });
        let shown = run(&mut sim, || async {
            let store = start(small(), &[table(1)]).await;
            read_all(&store, table(1).id).await.len()
        });
        sim.crash(NODE);
        assert_eq!((shown, run(&mut sim, || replayed_rows(small())).expect("replay").len()), (2, 2), "seed {seed}");
    }
}
