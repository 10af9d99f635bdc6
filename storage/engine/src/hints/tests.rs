//! Files of hints on the simulator's disk.

use super::record::BLOCK_BYTES;
use super::{Hint, HintReader, HintWriter, Next, RECORD_HEADER_BYTES, push};
use runtime::file::{OpenOptions, list_dir};
use runtime::mesh::NodeId;
use runtime::sim::{Options, Sim, Stop};
use runtime::{AlignedBuf, File};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

const DIRECTORY: &str = "/data/hints";
const HOST: Uuid = Uuid::from_u128(9);

/// Runs `main` on a node of one core.
fn on_node<Fut: Future<Output = ()> + 'static>(main: impl Fn() -> Fut + 'static) {
    let mut sim = Sim::new(1, Options::default());
    let done = Rc::new(Cell::new(false));
    let (finished, main) = (done.clone(), Rc::new(main));
    sim.start_node(NodeId(1), 1, move |_| {
        let (finished, main) = (finished.clone(), main.clone());
        async move {
            main().await;
            finished.set(true);
        }
    });
    assert_eq!(sim.run_until(Duration::from_secs(600), || done.get()), Stop::Condition);
}

/// A mutation of a length that follows from its number.
fn mutation(number: u32) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(4 + (number as usize * 797) % 9000, number as u8);
    bytes
}

/// Writes hints with these numbers, as many at a time as each item has. Returns the path.
async fn write(groups: &[&[u32]]) -> PathBuf {
    let mut writer = HintWriter::create(Path::new(DIRECTORY), HOST, 3).await.expect("created");
    for group in groups {
        let mut records = Vec::new();
        for number in *group {
            let mutation = mutation(*number);
            push(&mut records, &Hint { written_at: i64::from(*number), gc_grace_seconds: 1, mutation: &mutation });
        }
        writer.append(&records).await.expect("appended");
    }
    let path = Path::new(DIRECTORY).join(writer.name().to_string());
    let file = File::open(&path, OpenOptions::default()).await.expect("there");
    assert_eq!(file.len().await.expect("a length"), writer.bytes());
    path
}

/// The numbers of the hints that are read, and the stretches of damage.
async fn read(reader: &mut HintReader) -> (Vec<u32>, usize) {
    let (mut numbers, mut damaged) = (Vec::new(), 0);
    loop {
        match reader.next().await.expect("readable") {
            Next::Hint(hint) => {
                let number = u32::from_le_bytes(*hint.mutation.first_chunk().expect("a number"));
                assert_eq!((hint.mutation, hint.written_at), (&mutation(number)[..], i64::from(number)));
                numbers.push(number);
            }
            Next::Damaged { .. } => damaged += 1,
            Next::End => return (numbers, damaged),
        }
    }
}

async fn read_all(path: &Path) -> (Vec<u32>, usize) {
    read(&mut HintReader::open(path).await.expect("opened")).await
}

/// Changes a byte of a file.
async fn damage(path: &Path, at: u64) {
    let file = File::open(path, OpenOptions { write: true, ..OpenOptions::default() }).await.expect("there");
    let block = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let (read, mut buffer) = file.read_at(AlignedBuf::zeroed(BLOCK_BYTES), block).await;
    read.expect("readable");
    buffer[(at - block) as usize] ^= 0x40;
    file.write_durable(buffer, block).await.0.expect("written");
}

#[test]
fn what_is_written_is_read_in_order() {
    on_node(|| async {
        let many: Vec<u32> = (10..400).collect();
        let path = write(&[&[1], &[2, 3, 4], &many]).await;
        let all: Vec<u32> = (1..5).chain(10..400).collect();
        assert_eq!(read_all(&path).await, (all.clone(), 0));
        // From every record on.
        let mut reader = HintReader::open(&path).await.expect("opened");
        assert_eq!(reader.host_id(), HOST);
        let mut positions = Vec::new();
        while reader.next().await.expect("readable") != Next::End {
            positions.push(reader.position());
        }
        for (at, position) in positions.into_iter().enumerate().step_by(37) {
            reader.seek(position);
            assert_eq!(read(&mut reader).await, (all[at + 1..].to_vec(), 0));
        }
        reader.seek(0);
        assert_eq!(read(&mut reader).await.0, all);
    });
}

#[test]
fn damage_costs_the_record_or_the_rest_of_its_group() {
    on_node(|| async {
        let first = BLOCK_BYTES as u64;
        let second = first + (RECORD_HEADER_BYTES + mutation(1).len()) as u64;
        let groups: [&[u32]; 3] = [&[1, 2, 3], &[4], &[5]];
        for (at, left) in [
            (first, vec![4, 5]),
            (first + RECORD_HEADER_BYTES as u64 - 1, vec![4, 5]),
            (first + RECORD_HEADER_BYTES as u64, vec![2, 3, 4, 5]),
            (second + 1, vec![1, 4, 5]),
            (second + RECORD_HEADER_BYTES as u64 + 100, vec![1, 3, 4, 5]),
        ] {
            let path = write(&groups).await;
            damage(&path, at).await;
            assert_eq!(read_all(&path).await, (left, 1), "byte {at}");
        }
        let path = write(&groups).await;
        damage(&path, 40).await;
        let refused = HintReader::open(&path).await.err().expect("refused");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    });
}

#[test]
fn a_file_that_was_cut_short_gives_what_it_has() {
    on_node(|| async {
        let path = write(&[&[1, 2], &[11, 12]]).await;
        let file = File::open(&path, OpenOptions { write: true, ..OpenOptions::default() }).await.expect("there");
        let len = file.len().await.expect("a length");
        file.trim(len - 100).await.expect("shorter");
        // What is cut off is padding, or the end of the last record.
        let (numbers, damaged) = read_all(&path).await;
        assert!(numbers == [1, 2, 11, 12] || numbers == [1, 2, 11] && damaged == 1, "{numbers:?}, {damaged}");
        let empty = Path::new(DIRECTORY).join("empty");
        File::open(&empty, OpenOptions { write: true, create: true, exclusive: true }).await.expect("created");
        assert_eq!(HintReader::open(&empty).await.err().expect("no header").kind(), io::ErrorKind::InvalidData);
    });
}

#[test]
fn files_of_one_moment_have_names_of_their_own() {
    on_node(|| async {
        for _ in 0..5 {
            write(&[&[1]]).await;
        }
        assert_eq!(list_dir(Path::new(DIRECTORY)).await.expect("listed").len(), 5);
    });
}
