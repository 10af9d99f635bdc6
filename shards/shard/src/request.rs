//! The state of a session, and the answers to its requests.

use crate::ports::SchemaChange;
use crate::roles::Entry;
use crate::rows::block::RowBlock;
use model::tablets::TabletRoute;
use model::{ColumnSpec, Consistency, QueryParameters};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What a connection carries from request to request.
#[derive(Debug, Default)]
pub struct Session {
    /// Set by USE.
    pub keyspace: RefCell<Option<Arc<str>>>,
    /// Whether the client was told once what USE does to prepared statements.
    pub use_warned: Cell<bool>,
    /// Who has logged in; nobody needs to where clients are not authenticated.
    pub user: RefCell<Option<LoggedIn>>,
    /// Whether it is this program's own, which may do everything.
    pub is_internal: bool,
    /// Whether the client wants to be told where tablets are.
    pub knows_tablets: Cell<bool>,
}

impl Session {
    /// A session of this program itself, which may do everything.
    pub fn internal() -> Session {
        Session { is_internal: true, ..Session::default() }
    }
}

/// A role with which a client has logged in.
pub struct LoggedIn {
    /// Its name.
    pub name: Rc<str>,
    /// The address from which the client has connected.
    pub(crate) address: IpAddr,
    /// The identity of the certificate that has shown who it is; `None` if a password has.
    pub(crate) identity: Option<String>,
    /// The hash of the password that it had then.
    pub(crate) salted_hash: RefCell<Option<String>>,
    /// What was last known of it.
    pub(crate) known: RefCell<Option<Rc<Entry>>>,
}

impl LoggedIn {
    /// Whether it has a quota, as far as is known.
    pub(crate) fn has_quota(&self) -> bool {
        self.known.borrow().as_ref().is_some_and(|known| !known.grants.quota.is_empty())
    }
}

impl std::fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedIn").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The second that counts as now for a request, seconds since 1970: its own, or else the wall clock's.
pub(crate) fn request_second(parameters: &QueryParameters<'_>) -> i64 {
    match parameters.now_in_seconds {
        Some(now) => i64::from(now),
        None => runtime::wall_micros().div_euclid(1_000_000),
    }
}

/// The answer to a request, without its warnings.
#[derive(Debug)]
pub enum Response {
    /// No result.
    Void,
    /// USE took effect.
    SetKeyspace(Arc<str>),
    /// DDL took effect.
    SchemaChange(SchemaChange),
    /// Rows.
    Rows(Rows),
}

/// A page of rows.
#[derive(Debug)]
pub struct Rows {
    /// The columns.
    pub columns: Arc<[ColumnSpec]>,
    /// For EXECUTE: the id of the columns. The server compares it with what the client sent (v5).
    pub result_metadata_id: Option<[u8; 16]>,
    /// The rows, already in protocol form.
    pub block: RowBlock,
    /// The paging state of the next page; `None`: this is the last page.
    pub paging_state: Option<Vec<u8>>,
}

/// A response with its client warnings.
#[derive(Debug)]
pub struct Answer {
    /// The response.
    pub response: Response,
    /// Client warnings, sent in v4 and later.
    pub warnings: Vec<String>,
    /// What the request has cost, hundredths of a request unit, if the client is told: because it asks, or because the
    /// throughput of a table is limited.
    pub charge: Option<u64>,
    /// The tablet of the partition that was asked for, if the client wants to know it and this node does not have it.
    pub tablet: Option<Box<TabletRoute>>,
}

/// The answer to a PREPARE.
#[derive(Clone, Debug)]
pub struct PreparedAnswer {
    /// MD5 of keyspace and text, by which clients execute it.
    pub id: [u8; 16],
    /// MD5 of the result columns.
    pub result_metadata_id: [u8; 16],
    /// The statement.
    pub prepared: Rc<cql::Prepared>,
    /// Client warnings.
    pub warnings: Vec<String>,
}

/// The acknowledgements that a request waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckTerms {
    /// The consistency level that the client asked for.
    pub(crate) consistency: Consistency,
    /// How long it may take.
    pub(crate) timeout: Duration,
}
