//! SSTables and ranges of them on their way to another place: what arrives is what was there, and nothing else.

#[allow(dead_code, reason = "only writes are made here")]
#[path = "fragments/world.rs"]
mod world;

use crate::support::*;
use engine::import::{self, Import, ImportOptions};
use engine::streams::directories;
use engine::streams::source::{ReadySstable, joined};
use engine::streams::target::{self, StagedSstable};
use engine::verify::Depth;
use engine::{Component, Descriptor, Error, Options, SstableOptions, Store, Version};
use model::arbitrary::{generator, pick};
use model::digest::{Digest, DigestSink};
use model::query::{EveryRow, Partitions, ReadCommand};
use model::{RingToken, Table, TableId, TokenRange};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{World, retargeted};

const CHUNK: usize = 8 << 10;
const VERSIONS: [Version; 3] = [Version::Da, Version::Oa, Version::Nb];

/// Copies a ready SSTable piece by piece, in an order of its own.
async fn copy(ready: &ReadySstable, to: &Path, below: &mut impl FnMut(u64) -> u64) -> Descriptor {
    let components = ready.components();
    assert_eq!(components[0].0, Component::Helenus);
    let sidecar = read(ready, Component::Helenus).await;
    let staged = StagedSstable::begin(to, ready.descriptor().clone(), sidecar, &components).await.expect("begun");
    let mut pieces: Vec<(Component, u64)> = Vec::new();
    for (component, len) in &components[1..] {
        pieces.extend((0..*len).step_by(CHUNK).map(|offset| (*component, offset)));
    }
    while !pieces.is_empty() {
        let (component, offset) = pieces.swap_remove(below(pieces.len() as u64) as usize);
        let piece = ready.read(component, offset, CHUNK).await.expect("read").expect("a component");
        staged.write(component, offset, &piece).await.expect("good");
    }
    staged.finish().await.expect("complete")
}

async fn read(ready: &ReadySstable, component: Component) -> Vec<u8> {
    let (_, len) = ready.components().into_iter().find(|(known, _)| *known == component).expect("a component");
    ready.read(component, 0, len as usize).await.expect("read").expect("a component").to_vec()
}

/// Streams ranges of a table into another one of the same store, and returns how many SSTables went as they are.
async fn stream(
    store: &Store,
    from: &Table,
    to: &Table,
    ranges: &[TokenRange],
    whole: bool,
    below: &mut impl FnMut(u64) -> u64,
) -> usize {
    let view = store.open_stream(from.id, ranges, whole).await.expect("a view");
    let mut directories: Vec<PathBuf> = Vec::new();
    let mut as_they_are = 0;
    for (number, item) in view.items().iter().enumerate() {
        let out = directories::outgoing(&"/data".into(), 0, "s").join(number.to_string());
        let Some(ready) = view.ready(number, &out).await.expect("ready") else { continue };
        assert_eq!(ready.is_extracted(), !item.is_whole);
        as_they_are += usize::from(item.is_whole);
        let directory = directories::incoming(&"/data".into(), 0, "p").join(number.to_string());
        let name = copy(&ready, &directory, below).await;
        assert_eq!(target::complete(&directory).await.expect("listed"), Some(name.clone()));
        assert_eq!(target::size(&directory, &name).await.expect("measured").1, ready.bytes());
        ready.finish().await.expect("removed");
        view.release(number);
        directories.push(directory);
    }
    let sources = import::list(&directories).await.expect("listed");
    assert_eq!(sources.len(), directories.len());
    if !sources.is_empty() {
        let options = ImportOptions { depth: Depth::Quick, keep_level: false, keep_repaired: true, copy: false };
        for source in &sources {
            source.check(&Arc::new(to.clone()), Depth::Extended).await.expect("a good SSTable");
        }
        let places = [store.log_place().await.expect("a place")];
        let own = [engine::directory_of(Path::new("/data"), to)];
        let mut import = Import::place(&own, sources, &options, &places).await.expect("placed");
        store.open_imported(to.id, &import.placed).await.expect("opened");
        import.commit().await.expect("committed");
        store.end_import(to.id, true);
        import.finish().await.expect("finished");
    }
    directories::clean_outgoing(&"/data".into()).await.expect("clean");
    directories::clean_incoming(&"/data".into(), |_| false).await.expect("clean");
    as_they_are
}

async fn digest(store: &Store, table: &Table, id: TableId, range: &TokenRange) -> Digest {
    let command = ReadCommand::all(id, 1, Partitions::Range(range.clone()));
    let mut digest = DigestSink::new(table, &command);
    store.read_fragments(&command, &mut EveryRow, &mut digest).await.expect("read");
    digest.finish()
}

fn random_ranges(below: &mut impl FnMut(u64) -> u64) -> Vec<TokenRange> {
    const EDGES: [i64; 9] = [i64::MIN, -1 << 62, -1 << 61, -1 << 60, 0, 1 << 60, 1 << 61, 1 << 62, i64::MAX];
    let range = |below: &mut dyn FnMut(u64) -> u64| {
        let edge = |below: &mut dyn FnMut(u64) -> u64| EDGES[below(EDGES.len() as u64) as usize];
        let (one, other) = (edge(below), edge(below));
        TokenRange::between(RingToken::Murmur3(one.min(other)), RingToken::Murmur3(one.max(other)))
    };
    match below(4) {
        0 => vec![TokenRange::FULL],
        _ => (0..1 + below(4)).map(|_| range(below)).collect(),
    }
}

async fn try_world(seed: u64, world: World) -> usize {
    let below = &mut generator(seed);
    let (from, to) = (world.table_of(1), world.table_of(2));
    let sstables = SstableOptions { version: *pick(&VERSIONS, below), ..SstableOptions::default() };
    let store = start(Options { sstables, ..options(1, GROUP) }, &[from.clone(), to.clone()]).await;
    for _ in 0..1 + below(4) {
        for _ in 0..1 + below(20) {
            let mutation = retargeted(&world.write(below), from.id);
            store.apply(mutation, false).await.expect("applied");
        }
        if below(2) == 0 {
            store.flush(from.id).await.expect("flushed");
        }
    }
    let ranges = random_ranges(below);
    let as_they_are = stream(&store, &from, &to, &ranges, below(2) == 0, below).await;
    for range in joined(&ranges) {
        let (sent, came) = (digest(&store, &from, from.id, &range).await, digest(&store, &from, to.id, &range).await);
        assert_eq!(sent, came, "seed {seed}: {range:?}");
    }
    for gap in TokenRange::gaps(&joined(&ranges)) {
        let command = ReadCommand::all(to.id, 1, Partitions::Range(gap.clone()));
        let nothing = DigestSink::new(&from, &command);
        assert_eq!(digest(&store, &from, to.id, &gap).await, nothing.finish(), "seed {seed}: {gap:?}");
    }
    store.close().await.expect("closed");
    as_they_are
}

#[test]
fn ranges_of_random_tables_arrive_as_they_were() {
    let mut as_they_are = 0;
    for seed in 0..150 {
        as_they_are += run(&mut calm(seed), move || async move {
            let below = &mut generator(seed ^ 0x5eed);
            let world = if seed % 5 == 0 { World::of_long_partitions(below) } else { World::new(below) };
            try_world(seed, world).await
        });
    }
    assert!(as_they_are > 10, "{as_they_are} SSTables went as they are");
}

#[test]
fn ranges_are_joined() {
    let range = |after, until| TokenRange::between(RingToken::Murmur3(after), RingToken::Murmur3(until));
    assert_eq!(joined(&[]), []);
    assert_eq!(joined(&[range(5, 9), range(1, 5)]), [range(1, 9)]);
    assert_eq!(joined(&[range(1, 5), range(7, 9), range(2, 3)]), [range(1, 5), range(7, 9)]);
    assert_eq!(joined(&[range(i64::MIN, 5), range(5, i64::MIN)]), [TokenRange::FULL]);
    assert_eq!(joined(&[range(3, i64::MIN), range(1, 4)]), [range(1, i64::MIN)]);
    assert_eq!(joined(&[range(4, 4)]), [], "an empty one");
}

/// One SSTable of a table, ready to be sent.
async fn one_ready(store: &Store) -> ReadySstable {
    for number in 0..40u32 {
        let value = vec![number as u8; 3000];
        store.apply(insert(table(1).id, &number.to_be_bytes(), 1, 1, 1, &value), false).await.expect("applied");
    }
    let view = store.open_stream(table(1).id, &[TokenRange::FULL], true).await.expect("a view");
    view.ready(0, Path::new("/data/streams/out/x")).await.expect("ready").expect("an SSTable")
}

#[test]
fn s5_no_changed_bit_is_taken() {
    run(&mut calm(1), || async {
        let store = start(options(1, GROUP), &[table(1)]).await;
        let ready = one_ready(&store).await;
        let (components, sidecar) = (ready.components(), read(&ready, Component::Helenus).await);
        for at in (0..sidecar.len()).step_by(7) {
            let mut damaged = sidecar.clone();
            damaged[at] ^= 1 << (at % 8);
            let to = PathBuf::from(format!("/data/streams/in/sidecar{at}"));
            let begun = StagedSstable::begin(&to, ready.descriptor().clone(), damaged, &components).await;
            assert!(begun.is_err_and(|error| target::is_damage(&error)), "{at}");
        }
        let to = Path::new("/data/streams/in/pieces");
        let staged = StagedSstable::begin(to, ready.descriptor().clone(), sidecar, &components).await.expect("begun");
        for (component, len) in &components[1..] {
            let good = read(&ready, *component).await;
            for at in (0..good.len()).step_by(1 + good.len() / 50) {
                let mut damaged = good.clone();
                damaged[at] ^= 1 << (at % 8);
                let written = staged.write(*component, 0, &damaged).await;
                assert!(written.is_err_and(|error| target::is_damage(&error)), "{component:?} at {at}");
            }
            let over = [&good[..], &[0; 4096]].concat();
            for (offset, piece) in
                [(0, &over[..]), (1, &good[..]), (4096 * 1000, &good[..]), (0, &good[..good.len() / 2])]
            {
                let fits = offset == 0 && piece.len() as u64 == *len || piece.is_empty();
                let is_page = piece.len().is_multiple_of(4096) && offset == 0 && piece.len() < good.len();
                assert!(fits || is_page || staged.write(*component, offset, piece).await.is_err(), "{component:?}");
            }
        }
        assert!(matches!(staged.finish().await, Err(Error::Corrupt { .. })), "not all of it has come");
        assert_eq!(target::complete(to).await.expect("listed"), None);
        store.close().await.expect("closed");
    });
}

#[test]
fn what_is_announced_must_be_what_helenus_db_lists() {
    run(&mut calm(1), || async {
        let store = start(options(1, GROUP), &[table(1)]).await;
        let ready = one_ready(&store).await;
        let sidecar = read(&ready, Component::Helenus).await;
        let mut wrong = Vec::new();
        let mut fewer = ready.components();
        fewer.pop();
        wrong.push(fewer);
        let mut longer = ready.components();
        longer[1].1 += 1;
        wrong.push(longer);
        let mut twice = ready.components();
        twice[2] = twice[1];
        wrong.push(twice);
        for components in wrong {
            let to = Path::new("/data/streams/in/x");
            let begun = StagedSstable::begin(to, ready.descriptor().clone(), sidecar.clone(), &components).await;
            assert!(matches!(begun, Err(Error::Corrupt { .. })), "{components:?}");
        }
        store.close().await.expect("closed");
    });
}
