//! CPU time of the generator's thread and of the servers, window by window.

use crate::plan::Plan;
use crate::recorder::Window;
use std::time::Duration;

/// Measures CPU times as differences from window to window.
pub(crate) struct Meters<'a> {
    plan: &'a Plan,
    own: (Duration, Duration),
    servers: &'a [u32],
    server: Duration,
}

impl<'a> Meters<'a> {
    /// The meters of a thread; the first window begins here. Only those of the first thread measure the servers.
    pub(crate) fn new(plan: &'a Plan, thread: usize) -> Meters<'a> {
        let servers = if thread == 0 { &plan.pids[..] } else { &[] };
        let mut meters = Meters { plan, own: Default::default(), servers, server: Duration::ZERO };
        meters.read(&mut Window::default());
        meters
    }

    /// Puts the CPU time used since the last reading into `window`.
    pub(crate) fn read(&mut self, window: &mut Window) {
        if self.plan.own_cpu
            && let Some((ran, waited)) = runtime::machine::thread_cpu()
        {
            window.cpu = ran.saturating_sub(self.own.0);
            window.waited = waited.saturating_sub(self.own.1);
            self.own = (ran, waited);
        }
        let server = self.servers.iter().filter_map(|pid| runtime::machine::process_cpu(*pid)).sum::<Duration>();
        window.server = server.saturating_sub(self.server);
        self.server = server;
    }
}
