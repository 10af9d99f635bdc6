//! What operators change about serving clients while a node runs: the port for clients, the versions that are spoken,
//! the history of clients.
//!
//! The port is opened and closed by the task of `service` that leads, which takes the orders one after the other.

use crate::control::{Control, ControlPort};
use crate::cql::context::Context;
use crate::cql::registry::ConnectionRegistry;
use crate::query_log::options::{AuditOptions, FullQueryOptions};
use runtime::ShardId;
use runtime::sync::Condition;
use shard::AccessOptions;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// What is to happen to the port for clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PortOrder {
    /// It is opened.
    Open,
    /// It is closed once the requests under way are answered, or at once.
    Close { by_force: bool },
}

/// An order that was given.
pub(crate) struct GivenOrder {
    pub(crate) order: PortOrder,
    outcome: Cell<Option<Result<(), String>>>,
}

/// What operators change about serving clients, on shard 0.
pub(crate) struct ClientAdmin {
    control: Rc<ControlPort>,
    context: Rc<Context>,
    registry: Rc<ConnectionRegistry>,
    orders: RefCell<VecDeque<Rc<GivenOrder>>>,
    /// Notified when an order is given or carried out.
    changed: Condition,
    /// Set when the node stops, after which orders are refused.
    closed: Cell<bool>,
    /// The options of the caches of roles, if they were changed.
    role_caches: RefCell<Option<AccessOptions>>,
}

impl ClientAdmin {
    pub(crate) fn new(
        control: Rc<ControlPort>,
        context: Rc<Context>,
        registry: Rc<ConnectionRegistry>,
    ) -> Rc<ClientAdmin> {
        Rc::new(ClientAdmin {
            control,
            context,
            registry,
            orders: RefCell::default(),
            changed: Condition::default(),
            closed: Cell::new(false),
            role_caches: RefCell::default(),
        })
    }

    /// Gives an order and waits until it is carried out. Fails with what operators are told.
    pub(crate) async fn order(&self, order: PortOrder) -> Result<(), String> {
        let given = Rc::new(GivenOrder { order, outcome: Cell::new(None) });
        self.orders.borrow_mut().push_back(given.clone());
        self.changed.notify();
        let stopped = || self.closed.get().then(|| Err("the node stops".to_owned()));
        self.changed.wait(|| given.outcome.take().or_else(stopped)).await
    }

    /// Waits for the next order.
    pub(crate) async fn next_order(&self) -> Rc<GivenOrder> {
        self.changed.wait(|| self.orders.borrow_mut().pop_front()).await
    }

    /// Tells whoever gave an order what has come of it.
    pub(crate) fn answer(&self, given: &GivenOrder, outcome: Result<(), String>) {
        given.outcome.set(Some(outcome));
        self.changed.notify();
    }

    /// Refuses orders that wait or come later, because the node stops.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.changed.notify();
    }

    /// Whether connections that come from now on may speak versions below 5.
    pub(crate) async fn allow_older_protocols(&self, allowed: bool) {
        self.context.allows_older_protocols.set(allowed);
        self.control.broadcast(ShardId(0), || Control::OlderProtocols(allowed)).await;
    }

    /// The options of the caches of roles, as they are now.
    pub(crate) fn role_caches(&self) -> AccessOptions {
        let changed = self.role_caches.borrow().clone();
        changed.unwrap_or_else(|| self.context.config.node.access.clone())
    }

    /// Keeps what is read of roles as these options say, on every core.
    pub(crate) async fn set_role_caches(&self, options: AccessOptions) {
        self.control.broadcast(ShardId(0), || Control::RoleCaches(options.clone())).await;
        self.context.shard.limit_role_caches(&options);
        self.role_caches.replace(Some(options));
    }

    /// Keeps the audit log like this on every core, or no more.
    pub(crate) async fn set_audit(&self, options: Option<AuditOptions>) -> Result<(), String> {
        self.refuse_in_simulation()?;
        self.control.broadcast(ShardId(0), || Control::AuditLog(options.clone())).await;
        self.context.query_logs.set_audit(options).await;
        Ok(())
    }

    /// The same for the log of full queries.
    pub(crate) async fn set_full(&self, options: Option<FullQueryOptions>) -> Result<(), String> {
        self.refuse_in_simulation()?;
        self.control.broadcast(ShardId(0), || Control::FullQueryLog(options.clone())).await;
        self.context.query_logs.set_full(options).await;
        Ok(())
    }

    /// The options of the logs that are kept.
    pub(crate) fn query_logs(&self) -> (Option<AuditOptions>, Option<FullQueryOptions>) {
        self.context.query_logs.options()
    }

    /// The files of these logs are real ones.
    fn refuse_in_simulation(&self) -> Result<(), String> {
        if self.context.simulated { Err("not in simulation".into()) } else { Ok(()) }
    }

    /// Forgets which clients there were.
    pub(crate) async fn clear_history(&self) {
        self.registry.clear_history();
        self.control.broadcast(ShardId(0), || Control::ClearClientHistory).await;
    }
}
