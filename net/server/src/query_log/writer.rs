//! Writes the lines of a log of one core to files that roll.
//!
//! 1. Lines are queued; a task takes all that are there and appends them to the file of the present time, on a thread
//!    that may block. Files are named `LOG-TIME.CORE.jsonl`, such as `audit-20261126-12.0.jsonl`.
//! 2. Once a new file is begun the one before is done: it is handed to the command that archives files, or, without
//!    one, the oldest files of the core are removed until the rest is within the limit.
//!
//! Invariants: queued lines are bounded; a line is written whole or not at all. What cannot be written is lost, and the
//! log of the node says so, at most once in [`TOLD_AGAIN`].

use crate::query_log::options::{LogFiles, RollCycle};
use runtime::blocking::RunningCommand;
use runtime::sync::{Condition, Either, Latch, race};
use runtime::{Class, Instant};
use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// After this time the log says again that lines are lost.
const TOLD_AGAIN: Duration = Duration::from_secs(60);
/// Pause before a command that has failed is tried again, as in Cassandra.
const ARCHIVE_RETRY: Duration = Duration::from_secs(300);
/// How often it is checked whether a command has ended.
const COMMAND_CHECK: Duration = Duration::from_millis(100);
/// Pause before an append that found too much work waiting is tried again.
const APPEND_RETRY: Duration = Duration::from_millis(5);

/// The writer of one log of one core.
pub(crate) struct LineWriter {
    log: &'static str,
    options: LogFiles,
    /// The part of the core of all bytes that may wait, and of all bytes of files.
    queue_max: usize,
    files_max: u64,
    queue: RefCell<Vec<u8>>,
    changed: Condition,
    closing: Cell<bool>,
    /// Set once everything is written.
    closed: Latch,
    /// Set to stop trying to archive files again.
    stopped: Latch,
    lost: Cell<u64>,
    told: Cell<Option<Instant>>,
}

impl LineWriter {
    /// Begins to write.
    pub(crate) fn start(log: &'static str, options: LogFiles) -> Rc<LineWriter> {
        let cores = runtime::shard_count() as u64;
        let writer = Rc::new(LineWriter {
            log,
            queue_max: (options.max_queue_weight / cores).max(1) as usize,
            files_max: options.max_log_size / cores,
            options,
            queue: RefCell::default(),
            changed: Condition::default(),
            closing: Cell::new(false),
            closed: Latch::default(),
            stopped: Latch::default(),
            lost: Cell::new(0),
            told: Cell::new(None),
        });
        runtime::spawn_in(Class::Background, writer.clone().run());
        writer
    }

    /// Queues a line. While too many bytes wait it waits too, or drops the line.
    pub(crate) async fn write(&self, line: &str) {
        let is_full = || self.queue.borrow().len() >= self.queue_max && !self.closing.get();
        if is_full() {
            if !self.options.block {
                self.lose(1, "they come faster than they are written");
                return;
            }
            self.changed.wait(|| (!is_full()).then_some(())).await;
        }
        let mut queue = self.queue.borrow_mut();
        queue.extend_from_slice(line.as_bytes());
        queue.push(b'\n');
        drop(queue);
        self.changed.notify();
    }

    /// Writes what is queued and ends.
    pub(crate) async fn close(&self) {
        self.closing.set(true);
        self.changed.notify();
        self.closed.wait().await;
    }

    async fn run(self: Rc<Self>) {
        let mut current: Option<PathBuf> = None;
        loop {
            let ready = || (!self.queue.borrow().is_empty() || self.closing.get()).then_some(());
            self.changed.wait(ready).await;
            let bytes = std::mem::take(&mut *self.queue.borrow_mut());
            self.changed.notify();
            if bytes.is_empty() {
                break;
            }
            let path = self.path(runtime::wall_micros());
            if current.as_ref().is_some_and(|before| *before != path)
                && let Some(before) = current.take()
            {
                self.clone().done_with(before);
            }
            self.append(&path, bytes).await;
            current = Some(path);
        }
        if let Some(path) = current {
            self.clone().done_with(path);
        }
        self.stopped.set();
        self.closed.set();
    }

    /// The file of a time, in microseconds since 1970.
    fn path(&self, micros: i64) -> PathBuf {
        let text = model::text::instant::format(micros.div_euclid(1_000_000) * 1000);
        let digits: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
        let part = |at: usize| digits.get(at).copied().unwrap_or_default();
        let day = format!("{}{}{}", part(0), part(1), part(2));
        let time = match self.options.roll_cycle {
            RollCycle::Daily => day,
            RollCycle::Hourly => format!("{day}-{}", part(3)),
            RollCycle::Minutely => format!("{day}-{}{}", part(3), part(4)),
        };
        let core = runtime::current_shard().0;
        self.options.directory.join(format!("{}-{time}.{core}.jsonl", self.log))
    }

    async fn append(&self, path: &Path, bytes: Vec<u8>) {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let bytes = std::sync::Arc::new(bytes);
        loop {
            let (path, bytes) = (path.to_owned(), bytes.clone());
            match runtime::calculate(move || runtime::blocking::append(&path, &bytes)).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => return self.lose(lines, &error.to_string()),
                Err(_) => runtime::sleep(APPEND_RETRY).await,
            }
        }
    }

    fn lose(&self, lines: u64, why: &str) {
        self.lost.set(self.lost.get() + lines);
        let now = runtime::now();
        if self.told.get().is_none_or(|told| now.since(told) >= TOLD_AGAIN) {
            self.told.set(Some(now));
            tracing::error!(log = self.log, lost = self.lost.get(), why, "lines of a log are lost");
        }
    }

    /// Archives a file that is done, or removes the oldest ones.
    fn done_with(self: Rc<Self>, path: PathBuf) {
        runtime::spawn_in(Class::Background, async move {
            if self.options.archive_command.is_empty() {
                let (directory, suffix) = (self.options.directory.clone(), own_suffix());
                let (log, max) = (self.log, self.files_max);
                let removed = move || runtime::blocking::remove_oldest(&directory, log, &suffix, max);
                if let Ok(Err(error)) = runtime::calculate(removed).await {
                    tracing::warn!(%error, "old files of a log cannot be removed");
                }
                return;
            }
            self.archive(path).await;
        });
    }

    async fn archive(&self, path: PathBuf) {
        let shown = path.display().to_string();
        let command = self.options.archive_command.replace("%path", &shown);
        for _ in 0..=self.options.max_archive_retries {
            match run(&command).await {
                Ok(()) => return,
                Err(error) => tracing::error!("Got error archiving {shown}, retrying in 5 minutes: {error}"),
            }
            if let Either::Left(()) = race(self.stopped.wait(), runtime::sleep(ARCHIVE_RETRY)).await {
                return;
            }
        }
        tracing::error!("Max retries {} reached for {shown}, leaving on disk", self.options.max_archive_retries);
    }
}

/// Runs a command to its end. It may take as long as it likes: no thread waits for it.
async fn run(command: &str) -> io::Result<()> {
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let mut running = runtime::calculate(move || RunningCommand::start(&words)).await??;
    while !running.has_ended()? {
        runtime::sleep(COMMAND_CHECK).await;
    }
    Ok(())
}

/// What the names of the files of this core end with.
fn own_suffix() -> String {
    format!(".{}.jsonl", runtime::current_shard().0)
}
