//! Busy connections: each sends a request when it is due, one after the other, and is opened again if it breaks.
//!
//! Arrivals are fixed in advance: a connection whose answer is late sends what was due meanwhile at once, and response
//! times count from when a request was due.

use super::board::{Board, Times};
use super::crowd::Crowd;
use super::{SETTLE, SessionArguments};
use crate::recorder::histogram;
use crate::session::Session;
use hdrhistogram::Histogram;
use runtime::Instant;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Pause before a broken connection is opened again.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

/// What the busy connections share.
struct Busy {
    crowd: Rc<Crowd>,
    times: RefCell<Histogram<u64>>,
    failed: Cell<u64>,
    is_stopped: Cell<bool>,
}

/// Opens the busy connections and keeps them busy until the board says that nothing more is measured. The report is
/// empty, or the error tells of the first failure.
pub(super) async fn serve(settings: &SessionArguments, host: SocketAddr, board: &Board) -> Result<String, String> {
    let opened = match Crowd::new(settings, host) {
        Ok(crowd) => {
            let sessions = crowd.open(settings.busy, settings.at_once).await;
            crowd.failure().map_or(Ok((crowd, sessions)), Err)
        }
        Err(error) => Err(error),
    };
    let (crowd, sessions) = opened.inspect_err(|error| board.fail(error))?;
    let busy =
        Rc::new(Busy { crowd, times: RefCell::new(histogram()), failed: Cell::new(0), is_stopped: Cell::new(false) });
    let interval = Duration::from_secs_f64(settings.busy as f64 / settings.rate);
    let began = runtime::now();
    let mut tasks = Vec::with_capacity(sessions.len());
    for session in sessions {
        let first = began.after(interval.mul_f64(runtime::rng::below(1 << 20) as f64 / (1u64 << 20) as f64));
        tasks.push(runtime::spawn(busy.clone().keep(session, first, interval)));
    }
    runtime::sleep(SETTLE).await;
    board.start();
    while board.waited().await {
        board.answer(|| busy.take());
    }
    busy.is_stopped.set(true);
    for task in tasks {
        task.await;
    }
    busy.crowd.failure().map_or(Ok(String::new()), Err)
}

impl Busy {
    fn take(&self) -> Times {
        let times = Times::of(&self.times.borrow(), self.failed.take());
        self.times.borrow_mut().reset();
        times
    }

    async fn keep(self: Rc<Self>, session: Session, first: Instant, interval: Duration) {
        let mut due = first;
        let mut open = Some(session);
        while !self.is_stopped.get() {
            runtime::sleep_until(due).await;
            if self.is_stopped.get() {
                return;
            }
            let asked = match open.take() {
                Some(session) => Ok(session),
                None => self.crowd.reopen().await,
            };
            let answered = match asked {
                Ok(session) => self.crowd.ask(session).await,
                Err(error) => Err(error),
            };
            match answered {
                Ok(session) => {
                    open = Some(session);
                    self.times.borrow_mut().saturating_record(runtime::now().since(due).as_nanos() as u64);
                }
                Err(error) => {
                    self.failed.set(self.failed.get() + 1);
                    self.crowd.note_failure(error);
                    runtime::sleep(REOPEN_PAUSE).await;
                }
            }
            due = due.after(interval);
        }
    }
}
