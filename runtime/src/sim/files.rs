//! The disk of a node: its names, operations in flight, and what a crash leaves. It outlives the node.
//!
//! 1. There are two name spaces, a visible and a durable one. A change of names is visible when its call completes; it
//!    is durable when a later `sync_dir` of its directory completes, or after some time.
//! 2. A crash treats every write in flight as unsynced and every change in flight as pending; then it keeps or loses,
//!    by the seed, each pending change (in order) and each sector that is not durable.
//! 3. Creating a directory is durable when the call completes.
//!
//! Invariants: after a crash both name spaces are equal and nothing is pending or in flight.

use super::inode::{Inode, Loss, Page};
use crate::generator::Rng;
use crate::hash::hash64;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// A change of names becomes durable by itself after this many nanoseconds, as file systems write their journals.
const NAMES_AGE_NANOS: u64 = 30_000_000_000;

pub(crate) type File = Rc<RefCell<Inode>>;

#[derive(Clone)]
pub(crate) enum Entry {
    Directory,
    File(File),
}

/// A directory and a name in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Name {
    pub(crate) directory: PathBuf,
    pub(crate) name: OsString,
}

/// The path without `.` and `..`; relative paths start at the root.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

impl Name {
    /// The directory and name of a path; `None` for the root.
    pub(crate) fn of(path: &Path) -> Option<Name> {
        let path = normal(path);
        Some(Name { directory: path.parent()?.to_owned(), name: path.file_name()?.to_owned() })
    }
}

/// A change of names.
#[derive(Clone)]
pub(crate) enum Change {
    Link(Name, File),
    Unlink(Name, File),
    Rename(Name, Name, File),
    MakeDirectory(PathBuf),
    RemoveDirectory(PathBuf),
}

impl Change {
    fn touches(&self, directory: &Path) -> bool {
        match self {
            Change::Link(name, _) | Change::Unlink(name, _) => name.directory == directory,
            Change::Rename(from, to, _) => from.directory == directory || to.directory == directory,
            Change::MakeDirectory(_) => false,
            Change::RemoveDirectory(path) => path.parent() == Some(directory),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Names {
    directories: BTreeMap<PathBuf, BTreeMap<OsString, Entry>>,
}

impl Default for Names {
    fn default() -> Names {
        Names { directories: BTreeMap::from([(PathBuf::from("/"), BTreeMap::new())]) }
    }
}

impl Names {
    pub(crate) fn get(&self, name: &Name) -> Option<&Entry> {
        self.directories.get(&name.directory)?.get(&name.name)
    }

    pub(crate) fn directory(&self, path: &Path) -> Option<&BTreeMap<OsString, Entry>> {
        self.directories.get(path)
    }

    /// All files with their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (PathBuf, &File)> {
        self.directories.iter().flat_map(|(directory, entries)| {
            entries.iter().filter_map(move |(name, entry)| match entry {
                Entry::File(file) => Some((directory.join(name), file)),
                Entry::Directory => None,
            })
        })
    }

    fn unlink(&mut self, name: &Name, file: &File) {
        if let Some(entries) = self.directories.get_mut(&name.directory)
            && matches!(entries.get(&name.name), Some(Entry::File(found)) if Rc::ptr_eq(found, file))
        {
            entries.remove(&name.name);
        }
    }

    fn link(&mut self, name: &Name, file: &File) {
        if let Some(entries) = self.directories.get_mut(&name.directory) {
            entries.insert(name.name.clone(), Entry::File(file.clone()));
        }
    }

    /// Applies a change, as far as it is possible if earlier changes were lost.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Link(name, file) => self.link(name, file),
            Change::Unlink(name, file) => self.unlink(name, file),
            Change::Rename(from, to, file) => {
                self.unlink(from, file);
                self.link(to, file);
            }
            Change::MakeDirectory(path) => {
                if let Some(name) = Name::of(path)
                    && !self.directories.contains_key(path)
                    && let Some(entries) = self.directories.get_mut(&name.directory)
                {
                    entries.insert(name.name, Entry::Directory);
                    self.directories.insert(path.clone(), BTreeMap::new());
                }
            }
            Change::RemoveDirectory(path) => {
                if let Some(name) = Name::of(path)
                    && self.directories.get(path).is_some_and(BTreeMap::is_empty)
                {
                    self.directories.remove(path);
                    if let Some(entries) = self.directories.get_mut(&name.directory) {
                        entries.remove(&name.name);
                    }
                }
            }
        }
    }
}

/// An operation in flight, as far as a crash may leave traces of it.
pub(crate) enum InFlight {
    Write { file: File, first: u64, pages: Vec<Page>, end: u64 },
    Change(Change),
}

/// A test's function that makes calls on a disk fail by returning an error.
pub(crate) type Fault = Box<dyn FnMut(super::DiskCall, &Path) -> Option<io::Error>>;

/// The default size of a disk, in bytes.
const SIZE: u64 = 1 << 40;

pub(crate) struct Disk {
    pub(crate) visible: Names,
    durable: Names,
    pending: VecDeque<(u64, u64, Change)>,
    changes: u64,
    in_flight: BTreeMap<u64, InFlight>,
    operations: u64,
    pub(crate) used: Rc<Cell<u64>>,
    /// Paths locked by the running node.
    pub(crate) locks: BTreeSet<PathBuf>,
    pub(crate) fault: Option<Fault>,
    /// The latency of calls, if it is not that of all disks.
    pub(crate) latency: Option<(Duration, Duration)>,
    pub(crate) failing_syncs: u32,
    /// The size that the system reports. Writes beyond it do not fail.
    pub(crate) size: u64,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            visible: Names::default(),
            durable: Names::default(),
            pending: VecDeque::new(),
            changes: 0,
            in_flight: BTreeMap::new(),
            operations: 0,
            used: Rc::default(),
            locks: BTreeSet::new(),
            fault: None,
            latency: None,
            failing_syncs: 0,
            size: SIZE,
        }
    }
}

impl Disk {
    /// Creates an empty file without a name.
    pub(crate) fn new_file(&self) -> File {
        Rc::new(RefCell::new(Inode::new(self.used.clone())))
    }

    /// Notes an operation in flight and returns its number.
    pub(crate) fn begin(&mut self, operation: InFlight) -> u64 {
        self.operations += 1;
        self.in_flight.insert(self.operations, operation);
        self.operations
    }

    /// Removes an operation from those in flight. `None` if a crash has removed it.
    pub(crate) fn finish(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.remove(&number)
    }

    /// Makes a change of names visible.
    pub(crate) fn change(&mut self, now: u64, change: Change) {
        self.visible.apply(&change);
        if let Change::MakeDirectory(_) = change {
            self.durable.apply(&change);
            return;
        }
        self.changes += 1;
        self.pending.push_back((now, self.changes, change));
        self.age(now);
    }

    fn age(&mut self, now: u64) {
        while let Some((at, _, _)) = self.pending.front()
            && at.saturating_add(NAMES_AGE_NANOS) < now
            && let Some((_, _, change)) = self.pending.pop_front()
        {
            self.durable.apply(&change);
        }
    }

    /// The number of the latest change, for [`Disk::sync_directory`].
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Makes the changes in a directory durable, up to number `changes`.
    pub(crate) fn sync_directory(&mut self, directory: &Path, changes: u64) {
        let durable = &mut self.durable;
        self.pending.retain(|(_, number, change)| {
            let synced = *number <= changes && change.touches(directory);
            if synced {
                durable.apply(change);
            }
            !synced
        });
    }

    /// Loses power. Returns a hash of what is left.
    pub(crate) fn crash(&mut self, now: u64, rng: &mut Rng) -> u64 {
        self.age(now);
        for (_, operation) in std::mem::take(&mut self.in_flight) {
            match operation {
                InFlight::Write { file, first, pages, end } => {
                    file.borrow_mut().write(first, &pages, end, false);
                }
                InFlight::Change(change) => {
                    if rng.below(2) == 0 {
                        self.pending.push_back((now, 0, change));
                    }
                }
            }
        }
        let loss = Loss::pick(rng);
        for (_, _, change) in std::mem::take(&mut self.pending) {
            if loss.keeps(rng) {
                self.durable.apply(&change);
            }
        }
        self.visible = self.durable.clone();
        let loss = Loss::pick(rng);
        let mut hash = 0u64;
        for (path, file) in self.visible.files() {
            let mut file = file.borrow_mut();
            file.lose(loss, rng);
            hash = hash64(path.as_os_str().as_bytes()).rotate_left(7) ^ hash.wrapping_mul(31) ^ file.len();
        }
        self.locks.clear();
        hash
    }
}
