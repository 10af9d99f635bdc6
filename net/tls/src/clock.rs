//! The clock by which certificates are valid: the runtime's, which is virtual in the simulator.

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct RuntimeClock;

impl TimeProvider for RuntimeClock {
    fn current_time(&self) -> Option<UnixTime> {
        let micros = u64::try_from(runtime::wall_micros()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_micros(micros)))
    }
}
