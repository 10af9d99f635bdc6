//! What a node keeps about another one.

use super::clock::ClockOffset;
use super::failure_detector::ArrivalWindow;
use super::state::EndpointState;
use std::time::Duration;

/// How long an echo may be under way before another is sent.
pub(super) const ECHO_TIMEOUT: Duration = Duration::from_secs(2);

/// Another node.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) state: EndpointState,
    pub(super) is_alive: bool,
    /// When it was last taken for dead: only echoes sent since then prove that it lives.
    pub(super) dead_since: Duration,
    /// When its state was last seen to change.
    pub(super) updated: Duration,
    /// When the last echo was sent that it has not answered.
    pub(super) echo_sent: Option<Duration>,
    pub(super) arrivals: ArrivalWindow,
    /// phi at the last round.
    pub(super) phi: f64,
    pub(super) clock: Option<ClockOffset>,
    pub(super) is_skewed: bool,
}

impl Endpoint {
    pub(super) fn new(state: EndpointState, now: Duration) -> Endpoint {
        Endpoint {
            state,
            is_alive: false,
            dead_since: now,
            updated: now,
            echo_sent: None,
            arrivals: ArrivalWindow::new(now),
            phi: 0.0,
            clock: None,
            is_skewed: false,
        }
    }

    /// Whether an echo is to be sent now: the node may live, and none is under way.
    pub(super) fn wants_echo(&self, now: Duration) -> bool {
        let is_under_way = self.echo_sent.is_some_and(|sent| now.saturating_sub(sent) < ECHO_TIMEOUT);
        !self.is_alive && !self.state.is_dead_state() && !is_under_way
    }
}
