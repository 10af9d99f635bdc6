//! Read repair: after a reconciling read each store has what the others had of what was read.

use super::*;
use model::query::Slice;
use model::shape::lacking::{Answer, lacking};

/// Reads by reconciling all parts, and writes to each of them what it lacks.
async fn read_and_repair(stores: &Stores, command: &ReadCommand, below: &mut impl FnMut(u64) -> u64) -> Vec<String> {
    let mut read = ReconcilingRead::new(command.clone());
    let mut told = Told::default();
    for _ in 0..ROUNDS_MAX {
        let mut answers: Vec<Answer> = Vec::new();
        for (number, part) in stores.parts().enumerate() {
            let bytes_max = if below(2) == 0 { 1 + below(600) as usize } else { usize::MAX };
            answers.push((number, stores.block(part, read.command(), bytes_max, below(2) == 0).await));
        }
        let missing = lacking(&stores.world.table, read.command(), &answers, stores.parts().count());
        let blocks: Vec<&FragmentBlock> = answers.iter().map(|(_, block)| block).collect();
        let end = read.take(&stores.world.table, &blocks, &mut told);
        for (part, mutations) in stores.parts().zip(missing) {
            for mutation in mutations {
                let bytes = mutation.into_bytes();
                let mutation = Mutation::decode(Partitioner::Murmur3, bytes).expect("a well-formed mutation");
                stores.apply(&mutation, part).await;
            }
        }
        if end.is_some() {
            return told.rows;
        }
    }
    panic!("a reconciling read does not end: {command:?}");
}

async fn try_repair(seed: u64) {
    let below = &mut generator(seed);
    let parts = 2 + below(3);
    let stores = stores(World::new(below), parts, below).await;
    for _ in 0..1 + below(40) {
        let mutation = stores.world.write(below);
        stores.apply(&mutation, WHOLE).await;
        let certain = FIRST_PART + below(parts) as u8;
        for part in stores.parts() {
            if part == certain || below(3) == 0 {
                stores.apply(&mutation, part).await;
            }
        }
        let flushed = stores.table(1 + below(stores.tables.len() as u64) as u8).id;
        if below(10) == 0 {
            stores.store.flush(flushed).await.expect("flush");
        }
    }
    for _ in 0..12 {
        let mut command = ReadCommand { row_columns: None, ..stores.world.command(below) };
        limit(&mut command, below);
        let mut expected = Told::default();
        stores.read(WHOLE, &command, &mut expected, false).await;
        assert_eq!(read_and_repair(&stores, &command, below).await, expected.rows, "seed {seed}: {command:?}");
        let (whole, _) = stores.digest(WHOLE, &command, &mut Told::default(), false).await;
        let is_everything = *command.slices == [Slice::all()];
        for part in stores.parts() {
            let mut found = Told::default();
            let (digest, _) = stores.digest(part, &command, &mut found, false).await;
            assert_eq!(found.rows, expected.rows, "seed {seed}, part {part}: {command:?}");
            if is_everything && command.wants_static && command.resume.is_none() && !stores.world.has_equal_keys() {
                assert_eq!(digest, whole, "seed {seed}, part {part}: {command:?}");
            }
        }
    }
    stores.store.close().await.expect("close");
}

#[test]
fn what_each_lacked_is_written_to_it() {
    let first = variable("FRAGMENT_SEED", 1);
    for seed in first..first + variable("FRAGMENT_COMMANDS", 2400) / 20 {
        run(&mut calm(seed), move || try_repair(seed));
    }
}
