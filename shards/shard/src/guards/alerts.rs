//! Alerts: what is close to one of its limits, told before it is there.
//!
//! 1. Whoever knows of a use and its limit tells ([`Alerts::note`]): the core that keeps a bucket of request units, the
//!    writer of SSTables, whoever measures the disk.
//! 2. At [`ALERT_PERCENT`] of the limit it becomes an alert: a row of `system_views.alerts`, one more of the counter of
//!    its kind, and a line of the log unless there was one about the same subject within [`LOG_INTERVAL`].
//!
//! Invariants: a core remembers [`ALERTS_MAX`] subjects, those of late, and logs [`LINES_MAX`] lines in an interval.

use super::tombstones::LOG_INTERVAL;
use runtime::Instant;
use runtime::metrics::Counter;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// From so many percent of a limit on there is an alert.
pub(crate) const ALERT_PERCENT: u64 = 80;
/// Most subjects that a core remembers.
pub(crate) const ALERTS_MAX: usize = 256;
/// Most lines of the log in [`LOG_INTERVAL`] on each core.
const LINES_MAX: u32 = 20;
/// Bytes of a partition that the managed services allow; of a limited table larger ones are told of.
pub(crate) const PARTITION_BYTES_MAX: u64 = 20_000_000_000;

/// What an alert is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum AlertKind {
    /// What a table uses of its provisioned units, reads or writes.
    TableThroughput,
    /// What a physical partition uses of its part of them.
    PhysicalPartitionThroughput,
    /// What a partition key uses of what one key may.
    PartitionThroughput,
    /// How large a partition is.
    PartitionSize,
    /// How full the disks are.
    DiskUsage,
    /// What a keyspace uses or stores of its quota.
    KeyspaceQuota,
    /// What a role uses of its quota.
    RoleQuota,
}

impl AlertKind {
    /// All of them, in their order.
    pub const ALL: [AlertKind; 7] = [
        AlertKind::TableThroughput,
        AlertKind::PhysicalPartitionThroughput,
        AlertKind::PartitionThroughput,
        AlertKind::PartitionSize,
        AlertKind::DiskUsage,
        AlertKind::KeyspaceQuota,
        AlertKind::RoleQuota,
    ];

    /// The name by which tables and metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            AlertKind::TableThroughput => "table_throughput",
            AlertKind::PhysicalPartitionThroughput => "physical_partition_throughput",
            AlertKind::PartitionThroughput => "partition_throughput",
            AlertKind::PartitionSize => "partition_size",
            AlertKind::DiskUsage => "disk_usage",
            AlertKind::KeyspaceQuota => "keyspace_quota",
            AlertKind::RoleQuota => "role_quota",
        }
    }
}

/// What is close to a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alert {
    /// What it is about.
    pub kind: AlertKind,
    /// The keyspace and name of the table; empty if it is about none.
    pub table: (String, String),
    /// Which part of it: a partition key, a physical partition; or what else.
    pub subject: String,
    /// What is used of the limit, percent.
    pub percent: u64,
    /// The limit, with its unit.
    pub limit: String,
    /// When it was told of first and last, milliseconds since 1970.
    pub first_at: i64,
    /// See `first_at`.
    pub last_at: i64,
    /// How often it was told of.
    pub times: u64,
}

/// The alerts of one core.
#[derive(Default)]
pub(crate) struct Alerts {
    /// Those told of last come last.
    entries: RefCell<VecDeque<Entry>>,
    counters: [Counter; AlertKind::ALL.len()],
    /// When the interval of the log began, and the lines since.
    lines: Cell<(Option<Instant>, u32)>,
}

struct Entry {
    alert: Alert,
    logged_at: Option<Instant>,
}

impl Alerts {
    /// Notes that so many percent of a limit are used, which makes an alert from [`ALERT_PERCENT`] on. `is_logged`:
    /// whether it may become a line of the log.
    pub(crate) fn note(
        &self,
        kind: AlertKind,
        (keyspace, name): (&str, &str),
        subject: &str,
        (percent, limit): (u64, &str),
        is_logged: bool,
    ) {
        if percent >= ALERT_PERCENT {
            let times = (runtime::now(), runtime::wall_micros().div_euclid(1_000));
            self.note_at(times, kind, (keyspace, name), subject, (percent, limit), is_logged);
        }
    }

    fn note_at(
        &self,
        (now, millis): (Instant, i64),
        kind: AlertKind,
        (keyspace, name): (&str, &str),
        subject: &str,
        (percent, limit): (u64, &str),
        is_logged: bool,
    ) {
        self.counters[kind as usize].add(1);
        let mut entries = self.entries.borrow_mut();
        let is_it = |entry: &Entry| {
            let alert = &entry.alert;
            alert.kind == kind
                && (alert.table.0.as_str(), alert.table.1.as_str()) == (keyspace, name)
                && alert.subject == subject
        };
        let known = entries.iter().position(is_it).and_then(|at| entries.remove(at));
        let mut entry = known.unwrap_or_else(|| Entry {
            alert: Alert {
                kind,
                table: (keyspace.to_owned(), name.to_owned()),
                subject: subject.to_owned(),
                percent,
                limit: limit.to_owned(),
                first_at: millis,
                last_at: millis,
                times: 0,
            },
            logged_at: None,
        });
        let alert = &mut entry.alert;
        (alert.percent, alert.last_at, alert.times) = (percent, millis, alert.times + 1);
        limit.clone_into(&mut alert.limit);
        if is_logged && entry.logged_at.is_none_or(|at| now.since(at) >= LOG_INTERVAL) && self.may_log(now) {
            entry.logged_at = Some(now);
            let table = if keyspace.is_empty() { String::new() } else { format!(" of {keyspace}.{name}") };
            tracing::warn!("Alert {}: {subject}{table} uses {percent}% of {limit}", kind.name());
        }
        if entries.len() >= ALERTS_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    fn may_log(&self, now: Instant) -> bool {
        let (began, lines) = self.lines.get();
        let (began, lines) = match began {
            Some(began) if now.since(began) < LOG_INTERVAL => (began, lines),
            _ => (now, 0),
        };
        self.lines.set((Some(began), lines + 1));
        lines < LINES_MAX
    }

    /// The alerts, the newest first.
    pub(crate) fn list(&self) -> Vec<Alert> {
        self.entries.borrow().iter().rev().map(|entry| entry.alert.clone()).collect()
    }

    /// How often alerts were told of since the start, in the order of [`AlertKind::ALL`].
    pub(crate) fn counts(&self) -> [u64; AlertKind::ALL.len()] {
        std::array::from_fn(|at| self.counters[at].get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn note(alerts: &Alerts, second: u64, subject: &str) {
        let times = (Instant(second * SECOND), second as i64 * 1000);
        let kind = AlertKind::PartitionThroughput;
        alerts.note_at(times, kind, ("k", "t"), subject, (90 + second % 10, "9 units"), true);
    }

    #[test]
    fn a_subject_is_told_of_once_and_the_newest_comes_first() {
        let alerts = Alerts::default();
        [(1, "a"), (2, "b"), (13, "a")].into_iter().for_each(|(second, subject)| note(&alerts, second, subject));
        let list = alerts.list();
        let shown = |alert: &Alert| (alert.subject.clone(), alert.percent, alert.first_at, alert.last_at, alert.times);
        assert_eq!(
            list.iter().map(shown).collect::<Vec<_>>(),
            [("a".to_owned(), 93, 1_000, 13_000, 2), ("b".to_owned(), 92, 2_000, 2_000, 1)]
        );
        assert_eq!(alerts.counts(), [0, 0, 3, 0, 0, 0, 0]);
        assert_eq!(alerts.lines.get().1, 2, "once a minute for each subject");
        note(&alerts, 62, "a");
        assert_eq!(alerts.lines.get().1, 1);
    }

    #[test]
    fn so_many_are_remembered_and_logged() {
        let alerts = Alerts::default();
        (0..ALERTS_MAX + 5).for_each(|at| note(&alerts, 1, &at.to_string()));
        assert_eq!(alerts.list().len(), ALERTS_MAX);
        assert_eq!(alerts.list()[ALERTS_MAX - 1].subject, "5");
        let logged = alerts.entries.borrow().iter().filter(|entry| entry.logged_at.is_some()).count();
        assert_eq!(logged + 5, LINES_MAX as usize, "five of them are forgotten");
    }
}
