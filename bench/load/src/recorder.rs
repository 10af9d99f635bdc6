//! Measurements of one thread, window by window.
//!
//! 1. Service time (from send to reply) and, in open loops, response time (from due time to reply) go into a histogram
//!    per kind of operation, in nanoseconds.
//! 2. When a window ends, its histograms are encoded (a few KiB) and emptied. That holds up the loop for some tens of
//!    microseconds, and a long run takes little memory.
//!
//! The histograms hold successful operations, and those that timed out in this client with the time that they waited,
//! because leaving them out would hide the worst times. Other failed operations are only counted.

use crate::errors::{CLASSES, Class, Counts};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use std::time::Duration;

/// The lowest and the highest time that histograms tell apart, nanoseconds.
const LOWEST: u64 = 1_000;
const HIGHEST: u64 = 3_600_000_000_000;
/// Significant decimal digits of histograms.
const DIGITS: u8 = 3;

/// An empty histogram of nanoseconds.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST, HIGHEST, DIGITS).expect("the bounds fit")
}

/// Measurements of one window, by one thread or added up over several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Its number, from the start of the load.
    pub index: u64,
    /// Its length.
    pub length: Duration,
    /// Operations that succeeded.
    pub operations: u64,
    /// Successful operations whose condition did not hold.
    pub not_applied: u64,
    /// Operations that failed.
    pub errors: Counts,
    /// Operations sent.
    pub sent: u64,
    /// Operations sent later than allowed because no request was free.
    pub late_blocked: u64,
    /// Operations sent later than allowed although a request was free: the generator was late itself.
    pub late_own: u64,
    /// The longest time between an operation's due time and its send.
    pub lag_max: Duration,
    /// Service times by kind of operation, in HdrHistogram's V2 encoding.
    pub service: Vec<Vec<u8>>,
    /// Response times by kind of operation; empty unless the loop is open.
    pub response: Vec<Vec<u8>>,
    /// What each server answered, in the order of the plan; empty if there is one server.
    pub hosts: Vec<HostCounts>,
    /// 99th percentile over all kinds: response time if the loop is open, service time otherwise.
    pub p99: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Time that the thread was ready but had no CPU.
    pub waited: Duration,
    /// CPU time of the server processes; only the first thread measures it.
    pub server: Duration,
}

/// What one of several servers answered in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostCounts {
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Response times if the loop is open, service times otherwise, in HdrHistogram's V2 encoding.
    pub times: Vec<u8>,
}

/// The histograms and counts of a thread's current window.
pub struct Recorder {
    open: bool,
    late: Duration,
    service: Vec<Histogram<u64>>,
    response: Vec<Histogram<u64>>,
    all: Histogram<u64>,
    /// The judged times of each server; empty if there is one server.
    by_host: Vec<Histogram<u64>>,
    window: Window,
    serializer: V2Serializer,
}

impl Recorder {
    /// A recorder for `kinds` kinds of operation on `hosts` servers, with response times if the loop is `open`. Sends
    /// later than `late` after their due time are counted.
    pub fn new(kinds: usize, hosts: usize, open: bool, late: Duration) -> Recorder {
        let hosts = if hosts > 1 { hosts } else { 0 };
        let histograms = |count: usize| (0..count).map(|_| histogram()).collect();
        Recorder {
            open,
            late,
            service: histograms(kinds),
            response: histograms(if open { kinds } else { 0 }),
            all: histogram(),
            by_host: histograms(hosts),
            window: Window { hosts: vec![HostCounts::default(); hosts], ..Window::default() },
            serializer: V2Serializer::new(),
        }
    }

    /// Records that an operation was sent `lag` after it was due. `blocked`: it had to wait for a free request.
    pub fn sent(&mut self, lag: Duration, blocked: bool) {
        let window = &mut self.window;
        window.sent += 1;
        window.lag_max = window.lag_max.max(lag);
        if lag > self.late {
            *(if blocked { &mut window.late_blocked } else { &mut window.late_own }) += 1;
        }
    }

    /// Records a successful operation of server `host`. `applied`: its condition held, or it had none.
    pub fn succeeded(&mut self, host: usize, kind: usize, service: Duration, response: Duration, applied: bool) {
        self.window.operations += 1;
        self.window.not_applied += u64::from(!applied);
        if let Some(counts) = self.window.hosts.get_mut(host) {
            counts.operations += 1;
        }
        self.timed(host, kind, service, response);
    }

    /// Records a failed operation of server `host`. Its times count only if it timed out.
    pub fn failed(&mut self, host: usize, kind: usize, class: Class, service: Duration, response: Duration) {
        self.window.errors[class as usize] += 1;
        if let Some(counts) = self.window.hosts.get_mut(host) {
            counts.failed += 1;
        }
        if class == Class::Timeout {
            self.timed(host, kind, service, response);
        }
    }

    fn timed(&mut self, host: usize, kind: usize, service: Duration, response: Duration) {
        self.service[kind].saturating_record(service.as_nanos() as u64);
        if self.open {
            self.response[kind].saturating_record(response.as_nanos() as u64);
        }
        if let Some(times) = self.by_host.get_mut(host) {
            times.saturating_record(if self.open { response } else { service }.as_nanos() as u64);
        }
    }

    /// How many operations have ended in the window so far, including failed ones.
    pub fn ended(&self) -> u64 {
        self.window.operations + self.window.errors.iter().sum::<u64>()
    }

    /// Ends the window: returns it and begins a new one.
    pub fn roll(&mut self, index: u64, length: Duration) -> Window {
        let hosts = vec![HostCounts::default(); self.by_host.len()];
        let mut window = std::mem::replace(&mut self.window, Window { hosts, ..Window::default() });
        (window.index, window.length) = (index, length);
        self.all.reset();
        let judged = if self.open { &self.response } else { &self.service };
        for histogram in judged {
            self.all.add(histogram).expect("equal bounds");
        }
        window.p99 = Duration::from_nanos(self.all.value_at_quantile(0.99));
        window.service = encode(&mut self.serializer, &mut self.service);
        window.response = encode(&mut self.serializer, &mut self.response);
        let times = encode(&mut self.serializer, &mut self.by_host);
        window.hosts.iter_mut().zip(times).for_each(|(counts, times)| counts.times = times);
        window
    }
}

fn encode(serializer: &mut V2Serializer, histograms: &mut [Histogram<u64>]) -> Vec<Vec<u8>> {
    let mut encode = |histogram: &mut Histogram<u64>| {
        let mut bytes = Vec::new();
        if !histogram.is_empty() {
            serializer.serialize(histogram, &mut bytes).expect("memory takes it");
        }
        histogram.reset();
        bytes
    };
    histograms.iter_mut().map(&mut encode).collect()
}

/// Decodes a histogram of a [`Window`]; no bytes stand for an empty one.
pub fn decode(bytes: &[u8]) -> Histogram<u64> {
    match bytes {
        [] => histogram(),
        mut bytes => Deserializer::new().deserialize(&mut bytes).expect("encoded here"),
    }
}

impl Window {
    /// Adds another thread's window, or answers that arrived after this one had ended.
    pub fn add(&mut self, other: Window) {
        self.length = self.length.max(other.length);
        self.operations += other.operations;
        self.not_applied += other.not_applied;
        (0..CLASSES).for_each(|class| self.errors[class] += other.errors[class]);
        self.sent += other.sent;
        self.late_blocked += other.late_blocked;
        self.late_own += other.late_own;
        self.lag_max = self.lag_max.max(other.lag_max);
        merge(&mut self.service, other.service);
        merge(&mut self.response, other.response);
        if self.hosts.is_empty() {
            self.hosts = other.hosts;
        } else {
            for (into, from) in self.hosts.iter_mut().zip(other.hosts) {
                into.operations += from.operations;
                into.failed += from.failed;
                merge(std::slice::from_mut(&mut into.times), vec![from.times]);
            }
        }
        self.p99 = self.p99.max(other.p99);
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.server += other.server;
    }

    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.errors.iter().sum()
    }
}

fn merge(into: &mut [Vec<u8>], from: Vec<Vec<u8>>) {
    for (into, from) in into.iter_mut().zip(from) {
        if into.is_empty() {
            *into = from;
        } else if !from.is_empty() {
            let mut sum = decode(into);
            sum.add(decode(&from)).expect("equal bounds");
            into.clear();
            V2Serializer::new().serialize(&sum, into).expect("memory takes it");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn service_and_response_are_apart() {
        let mut recorder = Recorder::new(2, 1, true, micros(100));
        recorder.sent(micros(50), false);
        recorder.sent(micros(150), true);
        recorder.sent(micros(250), false);
        recorder.succeeded(0, 1, micros(10), micros(60), true);
        recorder.succeeded(0, 1, micros(20), micros(170), false);
        recorder.failed(0, 0, Class::Overloaded, micros(5), micros(5));
        recorder.failed(0, 0, Class::Timeout, micros(900), micros(1000));
        let window = recorder.roll(4, micros(1_000_000));
        assert_eq!((window.operations, window.failed(), window.not_applied), (2, 2, 1));
        assert_eq!((window.sent, window.late_blocked, window.late_own), (3, 1, 1));
        let (service, response) = (decode(&window.service[1]), decode(&window.response[1]));
        assert_eq!(service.len(), 2);
        assert!(service.max().abs_diff(20_000) < 600 && response.max().abs_diff(170_000) < 600);
        assert_eq!(decode(&window.service[0]).len(), 1, "the timeout is in, the refusal is not");
        let empty = recorder.roll(5, micros(1));
        assert_eq!((empty.operations, empty.service[1].len()), (0, 0));
    }

    #[test]
    fn windows_of_threads_add_up() {
        let roll = |micros: u64| {
            let mut recorder = Recorder::new(1, 2, false, Duration::from_secs(1));
            (0..100)
                .for_each(|at| recorder.succeeded(at % 4 / 3, 0, Duration::from_micros(micros), Duration::ZERO, true));
            recorder.failed(1, 0, Class::Overloaded, Duration::ZERO, Duration::ZERO);
            recorder.roll(0, Duration::from_secs(1))
        };
        let mut sum = roll(10);
        sum.add(roll(1000));
        let service = decode(&sum.service[0]);
        assert_eq!((sum.operations, service.len()), (200, 200));
        let hosts: Vec<_> =
            sum.hosts.iter().map(|host| (host.operations, host.failed, decode(&host.times).len())).collect();
        assert_eq!(hosts, [(150, 0, 150), (50, 2, 50)]);
        assert!(service.value_at_quantile(0.4) < 11_000 && service.value_at_quantile(0.6) > 990_000);
    }
}
