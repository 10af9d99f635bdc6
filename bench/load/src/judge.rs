//! Decides when measuring begins and ends. The first thread decides for all, at the end of each window.

use crate::plan::{Length, Plan, Warmup};
use crate::progress::Progress;
use crate::recorder::Window;
use crate::shared::Shared;
use crate::warmup::Steadiness;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The state from which the first thread decides at the end of each window.
pub(crate) struct Judge<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    steadiness: Steadiness,
    /// Whether the warm-up has ended because the run was steady; true if the plan does not ask for that.
    pub(crate) steady: bool,
    ended: u64,
    warmed: Duration,
    progress: Progress,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(plan: &'a Plan, shared: &'a Shared) -> Judge<'a> {
        let judge = Judge {
            plan,
            shared,
            steadiness: Steadiness::default(),
            steady: true,
            ended: 0,
            warmed: Duration::ZERO,
            progress: Progress::new(plan),
        };
        if plan.warmup == Warmup::None {
            judge.measure(0);
        }
        judge
    }

    /// Declares that the windows from `from` on are measured, as many as the plan's length has.
    fn measure(&self, from: u64) {
        if let Length::Time(time) = self.plan.length {
            let windows = time.as_nanos().div_ceil(self.plan.window.as_nanos()) as u64;
            self.shared.end.store(from + windows, Ordering::Release);
        }
        self.shared.measure_from.store(from, Ordering::Release);
    }

    /// Shows a window of the first thread on the progress line and decides.
    pub(crate) fn window(&mut self, window: &Window) {
        let ended = Shared::sum(&self.shared.ended);
        let throughput = (ended - self.ended) as f64 / window.length.as_secs_f64().max(1e-9);
        self.ended = ended;
        let measuring = self.shared.measure_from.load(Ordering::Acquire) != u64::MAX;
        self.progress.show(window, throughput, Shared::sum(&self.shared.failures), measuring);
        if measuring {
            return;
        }
        self.warmed += self.plan.window;
        let over = match self.plan.warmup {
            Warmup::None => true,
            Warmup::Fixed(time) => self.warmed >= time,
            Warmup::Steady(longest) => {
                self.steady = self.steadiness.push(throughput, window.p99);
                self.steady || self.warmed >= longest
            }
        };
        if over {
            self.measure(window.index + 1);
        }
    }
}
