//! The requests of a shard that are waiting for something: the rows of `system_views.queries`, and the source of the
//! log of slow requests.
//!
//! A request that never waits cannot be observed, as nothing else runs on its core meanwhile. So a request is
//! registered when it waits for the first time, and costs nothing before that.

use super::Metrics;
use cql::without_passwords;
use model::{BatchEntry, BatchStatement, Consistency};
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Longest text of a request that is kept, bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// A request, described so that its text can be made later.
pub(crate) enum Task {
    /// A text as it appears in the log.
    Text(String),
    /// EXECUTE: the id, the number of values, the consistency level.
    Execute([u8; 16], usize, Consistency),
}

impl Task {
    /// Describes a QUERY.
    pub(crate) fn query(text: &str, page_size: Option<i32>, consistency: Consistency) -> Task {
        let rows = page_size.unwrap_or(-1);
        let text = without_passwords(text);
        Task::Text(format!("QUERY {} [pageSize = {rows}] at consistency {}", cut(&text), consistency.name()))
    }

    /// Describes a PREPARE.
    pub(crate) fn prepare(text: &str) -> Task {
        Task::Text(format!("PREPARE {}", cut(&without_passwords(text))))
    }

    /// Describes an EXECUTE.
    pub(crate) fn execute(id: &[u8], values: usize, consistency: Consistency) -> Task {
        match id.try_into() {
            Ok(id) => Task::Execute(id, values, consistency),
            Err(_) => Task::Text("EXECUTE".into()),
        }
    }

    /// Describes a BATCH.
    pub(crate) fn batch(entries: &[BatchEntry<'_>], consistency: Consistency) -> Task {
        let mut text = String::from("BATCH of [");
        for (at, entry) in entries.iter().enumerate() {
            if text.len() > TEXT_BYTES_MAX {
                text.push_str("...");
                break;
            }
            text.push_str(if at == 0 { "" } else { ", " });
            match entry.statement {
                BatchStatement::Text(statement) => text.push_str(cut(&without_passwords(statement))),
                BatchStatement::Id(id) => push_hex(id, &mut text),
            }
            let _ = write!(text, " with {} values", entry.values.len());
        }
        let _ = write!(text, "] at consistency {}", consistency.name());
        Task::Text(text)
    }

    fn describe(&self) -> String {
        match self {
            Task::Text(text) => text.clone(),
            Task::Execute(id, values, consistency) => {
                let mut text = String::from("EXECUTE ");
                push_hex(id, &mut text);
                let _ = write!(text, " with {values} values at consistency {}", consistency.name());
                text
            }
        }
    }
}

/// The beginning of a text, at most [`TEXT_BYTES_MAX`] bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

fn push_hex(bytes: &[u8], out: &mut String) {
    bytes.iter().for_each(|byte| write!(out, "{byte:02x}").unwrap_or_default());
}

/// The waiting requests of a shard, by slot.
#[derive(Default)]
pub(crate) struct Running {
    places: RefCell<Vec<Option<(Task, Instant)>>>,
    /// How long a request may take without being logged; `None`: none is logged.
    slow_after: Cell<Option<Duration>>,
    logged: Cell<LoggedSlow>,
}

/// How many slow requests were logged recently.
#[derive(Clone, Copy, Default)]
struct LoggedSlow {
    began: Option<Instant>,
    lines: u32,
    dropped: u64,
}

/// Slow requests that a shard logs per interval, as many as Cassandra.
const SLOW_LINES_MAX: u32 = 50;
/// The interval to which [`SLOW_LINES_MAX`] applies.
const SLOW_INTERVAL: Duration = Duration::from_secs(5);

/// A request under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningRequest {
    /// Its slot in the list of its shard.
    pub place: usize,
    /// The request in Cassandra's words.
    pub task: String,
    /// How long it has run, microseconds.
    pub running_micros: u64,
}

/// Removes a request from the list when dropped. A crash of a simulated node drops it outside of any shard, where there
/// is no clock: only a request that has ended by itself is looked at for being slow.
struct RunningPass {
    metrics: Rc<Metrics>,
    place: usize,
}

impl Drop for RunningPass {
    fn drop(&mut self) {
        self.metrics.running.remove(self.place);
    }
}

impl Running {
    fn begin(&self, task: Task) -> usize {
        let entry = Some((task, runtime::now()));
        let mut places = self.places.borrow_mut();
        match places.iter().position(Option::is_none) {
            Some(place) => {
                places[place] = entry;
                place
            }
            None => {
                places.push(entry);
                places.len() - 1
            }
        }
    }

    fn remove(&self, place: usize) -> Option<(Task, Instant)> {
        self.places.borrow_mut().get_mut(place).and_then(Option::take)
    }

    /// Removes a request that has ended from the list, and logs it if it was slow.
    fn end(&self, place: usize) {
        let (Some((task, began)), Some(slow_after)) = (self.remove(place), self.slow_after.get()) else { return };
        let now = runtime::now();
        let took = now.since(began);
        if took < slow_after {
            return;
        }
        let mut logged = self.logged.get();
        if logged.began.is_none_or(|began| now.since(began) >= SLOW_INTERVAL) {
            if logged.dropped > 0 {
                tracing::info!("... ({} slow requests were not logged)", logged.dropped);
            }
            logged = LoggedSlow { began: Some(now), ..LoggedSlow::default() };
        }
        if logged.lines < SLOW_LINES_MAX {
            logged.lines += 1;
            let (took, slow) = (took.as_millis(), slow_after.as_millis());
            tracing::info!("<{}>, time {took} msec - slow timeout {slow} msec", task.describe());
        } else {
            logged.dropped += 1;
        }
        self.logged.set(logged);
    }

    /// Sets after how long requests are logged as slow; `None`: never.
    pub(crate) fn log_slow(&self, after: Option<Duration>) {
        self.slow_after.set(after);
    }

    /// All waiting requests.
    pub(crate) fn list(&self) -> Vec<RunningRequest> {
        let now = runtime::now();
        let places = self.places.borrow();
        let shown = places.iter().enumerate().filter_map(|(place, entry)| {
            let (task, began) = entry.as_ref()?;
            let running_micros = now.since(*began).as_micros() as u64;
            Some(RunningRequest { place, task: task.describe(), running_micros })
        });
        shown.collect()
    }
}

/// Serves a request; while it waits it is in its shard's list.
pub(crate) async fn watched<F: Future>(
    metrics: &Rc<Metrics>,
    mut served: Pin<&mut F>,
    task: impl Fn() -> Task,
) -> F::Output {
    let mut place = None;
    std::future::poll_fn(move |cx| {
        let polled = served.as_mut().poll(cx);
        match (&polled, &place) {
            (Poll::Pending, None) => {
                let metrics = metrics.clone();
                place = Some(RunningPass { place: metrics.running.begin(task()), metrics });
            }
            (Poll::Ready(_), Some(pass)) => pass.metrics.running.end(pass.place),
            (Poll::Pending, Some(_)) | (Poll::Ready(_), None) => {}
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_in_cassandras_words() {
        let query = Task::query("SELECT 1", Some(5000), Consistency::LocalOne);
        assert_eq!(query.describe(), "QUERY SELECT 1 [pageSize = 5000] at consistency LOCAL_ONE");
        let execute = Task::execute(&[0xab; 16], 2, Consistency::One);
        assert_eq!(execute.describe(), format!("EXECUTE {} with 2 values at consistency ONE", "ab".repeat(16)));
        assert_eq!(Task::execute(b"short", 2, Consistency::One).describe(), "EXECUTE");
        let entries = [
            BatchEntry { statement: BatchStatement::Text("INSERT a"), values: Vec::new() },
            BatchEntry { statement: BatchStatement::Id(&[1, 255]), values: Vec::new() },
        ];
        let batch = Task::batch(&entries, Consistency::Quorum);
        assert_eq!(batch.describe(), "BATCH of [INSERT a with 0 values, 01ff with 0 values] at consistency QUORUM");
    }

    #[test]
    fn a_request_that_a_crash_drops_asks_no_clock() {
        let metrics = Rc::new(Metrics::default());
        metrics.running.log_slow(Some(Duration::ZERO));
        metrics.running.places.borrow_mut().push(Some((Task::prepare("SELECT 1"), Instant::default())));
        drop(RunningPass { metrics: metrics.clone(), place: 0 });
        assert!(metrics.running.places.borrow()[0].is_none());
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        assert_eq!(cut(&long).len(), TEXT_BYTES_MAX);
        assert_eq!(cut(&long[..TEXT_BYTES_MAX]).len(), TEXT_BYTES_MAX);
        let entries = vec![BatchEntry { statement: BatchStatement::Text(&long), values: Vec::new() }; 9];
        assert!(Task::batch(&entries, Consistency::One).describe().contains("with 0 values...] at"));
    }
}
