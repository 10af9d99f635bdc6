//! Crash sweep: crashes a run at every call that writes to the disk, and starts from several of the disk images that
//! each crash may leave.
//!
//! 1. One run of a seed is repeated: from the first start of the node, clients change data and schema while an operator
//!    flushes, compacts and takes snapshots, until the `n`-th call of a [writing kind](runtime::sim::DiskCall::writes).
//! 2. The node crashes before that call has its effect. What this call and others under way leave on the disk is
//!    drawn at random for each image.
//! 3. The node starts with a random number of cores. Everything is read and compared with the model; no file of an
//!    unfinished flush or compaction may be left; snapshots that were taken must exist with all the files they name.

use crate::run::{Run, SERVER};
use runtime::rng::Rng;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// How many clients the run has.
const CLIENTS: u8 = 2;
/// How long a node may settle after its start before its files are checked, virtual time.
const QUIET: Duration = Duration::from_secs(2);
/// Simulator events after which a run that has not reached its crash counts as stuck.
const EVENTS_MAX: u64 = 20_000_000;

/// Which crashes to try.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// The seed of the run that is repeated.
    pub seed: u64,
    /// The first call to crash at, from 1.
    pub first: u64,
    /// The last call to crash at.
    pub last: u64,
    /// The distance from one call to crash at to the next; 1 for every call.
    pub every: u64,
    /// Disk images per call.
    pub images: u64,
}

/// The result of a sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Crashes tried, each followed by a start.
    pub crashes: u64,
    /// Reads checked after these starts.
    pub reads_checked: u64,
    /// How many of the operator's commands were carried out before the last crash, by name.
    pub commands: BTreeMap<String, u64>,
    /// The crashes after which a rule was broken: call, image and what was wrong.
    pub broken: Vec<(u64, u64, String)>,
}

/// Runs a sweep.
pub fn sweep(plan: Sweep) -> Swept {
    let mut swept = Swept::default();
    for call in (plan.first.max(1)..=plan.last).step_by(plan.every.max(1) as usize) {
        for image in 0..plan.images {
            match crash_at(plan.seed, call, image) {
                Ok((reads_checked, commands)) => {
                    swept.reads_checked += reads_checked;
                    swept.commands = commands;
                }
                Err(text) => swept.broken.push((call, image, text)),
            }
            swept.crashes += 1;
        }
    }
    swept
}

/// Crashes at a call and starts from an image. Returns how many reads were checked, and how many of the operator's
/// commands had been carried out before the crash.
fn crash_at(seed: u64, call: u64, image: u64) -> Result<(u64, BTreeMap<String, u64>), String> {
    let mut run = Run::new(Rng::new(seed), "group", CLIENTS, true);
    let began = run_to(&mut run, call)?;
    let commands = run.world.borrow().commands.clone();
    run.sim.clear_disk_fault(SERVER);
    run.halt.set(false);
    run.sim.crash_to(SERVER, image);
    run.rng = Rng::new(call ^ image << 32);
    run.start_server()?;
    let now = run.sim.now().0;
    run.world.borrow_mut().restarted(now, None);
    run.check("the crash")?;
    if !began {
        run.start_clients();
    }
    run.leave()?;
    // Files that were replaced are deleted only once no reader uses them.
    run.sim.run_until(QUIET, || false);
    let left = leftovers(&run);
    if !left.is_empty() {
        return Err(format!("files are left: {left:?}"));
    }
    whole_snapshots(&run)?;
    run.stop()?;
    if let Some(violation) = run.world.borrow().violation.clone() {
        return Err(violation);
    }
    Ok((run.world.borrow().reads_checked, commands))
}

/// Runs until the `call`-th writing call is about to take effect. Returns whether clients had started by then.
fn run_to(run: &mut Run, call: u64) -> Result<bool, String> {
    let (seen, halt) = (Rc::new(Cell::new(0)), run.halt.clone());
    run.sim.set_disk_fault(SERVER, move |kind, _| {
        seen.set(seen.get() + u64::from(kind.writes()));
        if seen.get() == call {
            halt.set(true);
        }
        None
    });
    let mut began = false;
    let begun = run.start_server().and_then(|()| {
        run.check("the first start")?;
        run.start_clients();
        began = true;
        for _ in 0..EVENTS_MAX {
            if run.halt.get() || !run.sim.step() || run.world.borrow().violation.is_some() {
                break;
            }
        }
        Ok(())
    });
    match (run.halt.get(), run.world.borrow().violation.clone()) {
        (true, None) => Ok(began),
        (_, Some(violation)) => Err(violation),
        (false, None) => Err(begun.err().unwrap_or_else(|| "the crash was not reached".into())),
    }
}

/// Files that unfinished flushes and compactions have left.
fn leftovers(run: &Run) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = run.sim.files(SERVER).into_iter().map(|(path, _)| path).collect();
    let in_snapshot = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "snapshots");
    let of_tables = files.iter().filter(|path| path.starts_with("/data/data") && !in_snapshot(path));
    let unfinished = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let orphaned = name.ends_with("-Data.db") && {
            let contents = path.with_file_name(name.replace("-Data.db", "-TOC.txt"));
            !files.contains(&contents)
        };
        name.ends_with(".tmp") || name.ends_with(".log") || orphaned
    };
    of_tables.filter(unfinished).cloned().collect()
}

/// Checks that every snapshot that was taken has a manifest, and that every file a manifest names exists.
fn whole_snapshots(run: &Run) -> Result<(), String> {
    let files: BTreeSet<PathBuf> = run.sim.files(SERVER).into_iter().map(|(path, _)| path).collect();
    let manifests: Vec<&PathBuf> = files.iter().filter(|path| path.ends_with("manifest.json")).collect();
    for tag in &run.world.borrow().snapshots {
        let of_tag = |path: &&&PathBuf| path.parent().is_some_and(|directory| directory.ends_with(tag));
        if manifests.iter().filter(of_tag).count() == 0 {
            return Err(format!("snapshot {tag} was taken and is not there"));
        }
    }
    for manifest in manifests {
        let text = run.sim.read_file(SERVER, manifest).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let named = text.split('"').filter(|word| word.ends_with("-Data.db"));
        for name in named {
            for name in [name.to_owned(), name.replace("-Data.db", "-TOC.txt")] {
                if !files.contains(&manifest.with_file_name(&name)) {
                    return Err(format!("{manifest:?} names {name}, which is not there"));
                }
            }
        }
    }
    Ok(())
}
