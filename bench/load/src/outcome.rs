//! The result of a run: the windows of all threads added up, totals over the measured ones, the verdict.

use crate::driver::ThreadResult;
use crate::errors::{CLASSES, Class, Counts};
use crate::plan::{Pace, Plan};
use crate::recorder::{HostCounts, Window, decode, histogram};
use crate::verdict::{Figures, Verdict};
use crate::workload;
use hdrhistogram::Histogram;
use std::net::SocketAddr;
use std::time::Duration;

/// The measurements of one kind of operation over all measured windows.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Service times, nanoseconds.
    pub service: Histogram<u64>,
    /// Response times, nanoseconds; `None` unless the loop is open.
    pub response: Option<Histogram<u64>>,
}

impl Kind {
    /// Response times if there are any, service times otherwise. Service levels are about these.
    pub fn judged(&self) -> &Histogram<u64> {
        self.response.as_ref().unwrap_or(&self.service)
    }
}

/// The measurements of one of several servers over all measured windows.
pub struct Host {
    /// Where it serves.
    pub address: SocketAddr,
    /// Operations that succeeded.
    pub operations: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Response times if the loop is open, service times otherwise, nanoseconds.
    pub times: Histogram<u64>,
}

/// The result of a run.
pub struct Outcome {
    /// The plan that was run.
    pub plan: Plan,
    /// All windows, warm-up included.
    pub windows: Vec<Window>,
    /// The first measured window.
    pub measure_from: usize,
    /// Whether the warm-up ended because the run was steady; also true if the plan does not ask for that.
    pub steady: bool,
    /// The kinds of operation that occurred.
    pub kinds: Vec<Kind>,
    /// The servers, in the order of the plan; empty if there is one.
    pub hosts: Vec<Host>,
    /// Length of all measured windows together.
    pub length: Duration,
    /// Sums over the measured windows.
    pub total: Window,
    /// The facts that the verdict is based on.
    pub figures: Figures,
    /// The verdict.
    pub verdict: Verdict,
    /// An example text for each class of server errors.
    pub error_texts: Vec<(Class, String)>,
    /// Microseconds since 1970 at the start of the first window.
    pub started_micros: i64,
}

impl Outcome {
    /// Adds up what the threads of `plan` measured.
    pub fn new(plan: &Plan, threads: Vec<ThreadResult>) -> Outcome {
        let measure_from = threads.iter().map(|thread| thread.measure_from).min().unwrap_or(0);
        let busy = threads.iter().map(|thread| busy(&thread.windows, measure_from)).fold(0.0, f64::max);
        let steady = threads.first().is_none_or(|thread| thread.steady);
        let started_micros = threads.iter().map(|thread| thread.started_micros).min().unwrap_or(0);
        let unsent = threads.iter().map(|thread| thread.unsent).sum();
        let mut windows: Vec<Window> = Vec::new();
        let mut error_texts: Vec<(Class, String)> = Vec::new();
        for thread in threads {
            for window in thread.windows {
                match windows.iter_mut().find(|known| known.index == window.index) {
                    Some(known) => known.add(window),
                    None => windows.push(window),
                }
            }
            for (class, text) in thread.error_texts {
                if !error_texts.iter().any(|(known, _)| *known == class) {
                    error_texts.push((class, text));
                }
            }
        }
        windows.sort_by_key(|window| window.index);
        let measure_from = usize::try_from(measure_from).unwrap_or(usize::MAX).min(windows.len());
        let open = matches!(plan.pace, Pace::Open { .. });
        let (mut total, mut length) = (Window::default(), Duration::ZERO);
        let mut kinds: Vec<Kind> = workload::of(&plan.data)
            .kinds()
            .iter()
            .map(|kind| Kind { name: kind.name, service: histogram(), response: open.then(histogram) })
            .collect();
        for window in &windows[measure_from..] {
            length += window.length;
            for (at, kind) in kinds.iter_mut().enumerate() {
                kind.service.add(decode(&window.service[at])).expect("equal bounds");
                if let Some(response) = &mut kind.response {
                    response.add(decode(&window.response[at])).expect("equal bounds");
                }
            }
            total.add(Window { service: Vec::new(), response: Vec::new(), ..window.clone() });
        }
        let of_host = |(address, counts): (&SocketAddr, &HostCounts)| Host {
            address: *address,
            operations: counts.operations,
            failed: counts.failed,
            times: decode(&counts.times),
        };
        let hosts = plan.hosts.iter().zip(&total.hosts).map(of_host).collect();
        kinds.retain(|kind| !kind.service.is_empty());
        let figures = Figures {
            open,
            operations: total.operations,
            errors: total.errors,
            errors_max: plan.errors_max,
            sent: total.sent,
            unsent,
            late_blocked: total.late_blocked,
            late_own: total.late_own,
            busy,
        };
        let verdict = Verdict::of(&figures);
        let plan = plan.clone();
        Outcome {
            plan,
            windows,
            measure_from,
            steady,
            kinds,
            hosts,
            length,
            total,
            figures,
            verdict,
            error_texts,
            started_micros,
        }
    }

    /// The measured windows.
    pub fn measured(&self) -> &[Window] {
        &self.windows[self.measure_from..]
    }

    /// Successful operations per second.
    pub fn throughput(&self) -> f64 {
        self.total.operations as f64 / self.length.as_secs_f64().max(1e-9)
    }

    /// All kinds of operation in one histogram: response times if the loop is open, service times otherwise.
    pub fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.kinds.iter().for_each(|kind| all.add(kind.judged()).expect("equal bounds"));
        all
    }

    /// CPU time of the generator per operation, microseconds; `None` if it was not measured or no operation ended.
    pub fn own_micros(&self) -> Option<f64> {
        let ended = self.total.operations + self.total.failed();
        (!self.total.cpu.is_zero() && ended > 0).then(|| self.total.cpu.as_secs_f64() * 1e6 / ended as f64)
    }

    /// Successful operations per CPU-second of the server processes; `None` if none were named or they used no CPU.
    pub fn per_cpu_second(&self) -> Option<f64> {
        (!self.total.server.is_zero()).then(|| self.total.operations as f64 / self.total.server.as_secs_f64())
    }

    /// Failed operations as a share of all operations, 0 to 1.
    pub fn error_share(&self) -> f64 {
        let failed = self.total.failed();
        failed as f64 / (self.total.operations + failed).max(1) as f64
    }

    /// Failed operations by class.
    pub fn errors(&self) -> &Counts {
        const { assert!(CLASSES == Class::ALL.len()) };
        &self.total.errors
    }
}

/// The share of the time that a thread was running, or ready without a CPU.
fn busy(windows: &[Window], measure_from: u64) -> f64 {
    let measured = || windows.iter().filter(|window| window.index >= measure_from);
    let time: Duration = measured().map(|window| window.length).sum();
    let used: Duration = measured().map(|window| window.cpu + window.waited).sum();
    if time.is_zero() { 0.0 } else { used.as_secs_f64() / time.as_secs_f64() }
}
