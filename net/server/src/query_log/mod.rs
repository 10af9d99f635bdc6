//! The audit log and the log of full queries: what clients do, for those who must know later.
//!
//! `options` says what is kept, `audit` and `full` how it reads, `writer` puts lines into files. A connection that has
//! answered a request calls `QueryLogs::note`, if a log is on. `nodetool` switches logs on and off on every core.
//! Tools read the files with [`reader`]; [`logged`] and [`audit::text_of_line`] understand the lines.
//!
//! Invariants: passwords are in no line. A log that is off costs one look at a flag.

pub mod audit;
mod full;
pub mod logged;
pub mod options;
pub mod reader;
mod writer;

use crate::query_log::audit::{AuditEntry, AuditLog};
use crate::query_log::full::FullQueryLog;
use crate::query_log::options::{AuditOptions, FullQueryOptions};
use model::{BatchEntry, BatchStatement, ErrorCode, Failure};
use shard::{Session, Shard, statement_facts};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use wire::request::Request;

/// The logs of one core.
#[derive(Default)]
pub(crate) struct QueryLogs {
    is_on: Cell<bool>,
    audit: RefCell<Option<Rc<AuditLog>>>,
    full: RefCell<Option<Rc<FullQueryLog>>>,
}

/// Who has asked for something, and where.
pub(crate) struct Asker<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) session: &'a Session,
    pub(crate) source: SocketAddr,
    pub(crate) version: u8,
}

impl QueryLogs {
    /// Whether any log is on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Switches the audit log on with these options, or off. What is queued is written.
    pub(crate) async fn set_audit(&self, options: Option<AuditOptions>) {
        let next = options.map(|options| Rc::new(AuditLog::new(options)));
        let before = self.audit.replace(next);
        self.is_on.set(self.audit.borrow().is_some() || self.full.borrow().is_some());
        if let Some(writer) = before.as_ref().and_then(|log| log.writer.as_ref()) {
            writer.close().await;
        }
    }

    /// The same for the log of full queries.
    pub(crate) async fn set_full(&self, options: Option<FullQueryOptions>) {
        let next = options.map(|options| Rc::new(FullQueryLog::new(options)));
        let before = self.full.replace(next);
        self.is_on.set(self.audit.borrow().is_some() || self.full.borrow().is_some());
        if let Some(log) = before {
            log.writer.close().await;
        }
    }

    /// The options of the logs that are on.
    pub(crate) fn options(&self) -> (Option<AuditOptions>, Option<FullQueryOptions>) {
        let audit = self.audit.borrow().as_ref().map(|log| log.options.clone());
        (audit, self.full.borrow().as_ref().map(|log| log.options.clone()))
    }

    /// Notes a login. `name` is whom the client has said to be.
    pub(crate) async fn note_login(&self, asker: &Asker<'_>, name: Option<&str>, failure: Option<&Failure>) {
        let Some(log) = self.audit.borrow().clone() else { return };
        let operation = match failure {
            None => "LOGIN SUCCESSFUL".to_owned(),
            Some(failure) => format!("LOGIN FAILURE; {}", shard::without_passwords(&failure.text)),
        };
        let kind = if failure.is_none() { "LOGIN_SUCCESS" } else { "LOGIN_ERROR" };
        log.note(&asker.entry(name, kind, "AUTH", &operation)).await;
    }

    /// Notes a request that has been answered; it began at `began`, in milliseconds since 1970.
    pub(crate) async fn note(&self, asker: &Asker<'_>, request: &Request<'_>, failure: Option<&Failure>, began: i64) {
        let (audit, full) = (self.audit.borrow().clone(), self.full.borrow().clone());
        if let Some(log) = audit {
            asker.audit(&log, request, failure).await;
        }
        if let Some(log) = full.filter(|_| failure.is_none())
            && let Some(line) = asker.full(request, began).await
        {
            log.writer.write(&line).await;
        }
    }
}

impl Asker<'_> {
    fn entry<'e>(&self, user: Option<&'e str>, kind: &'e str, category: &'e str, operation: &'e str) -> AuditEntry<'e> {
        let config = self.shard.node_config();
        AuditEntry {
            user,
            host: SocketAddr::new(config.listen_address, config.storage_port),
            source: self.source,
            timestamp: runtime::wall_micros() / 1000,
            kind,
            category,
            batch: None,
            keyspace: None,
            scope: None,
            operation,
        }
    }

    fn user(&self) -> String {
        self.session.user.borrow().as_ref().map_or_else(|| "anonymous".to_owned(), |user| user.name.to_string())
    }

    fn keyspace(&self) -> Option<String> {
        self.session.keyspace.borrow().as_deref().map(str::to_owned)
    }

    /// The text of a prepared statement.
    async fn text_of(&self, id: &[u8]) -> String {
        self.shard.prepared_text(id).await.map_or_else(String::new, |text| text.to_string())
    }

    async fn audit(&self, log: &AuditLog, request: &Request<'_>, failure: Option<&Failure>) {
        match request {
            Request::Query { text, .. } => self.audit_statement(log, text, None, None, failure).await,
            Request::Prepare { text, .. } => {
                let as_prepared = Some(("PREPARE_STATEMENT", "PREPARE"));
                self.audit_statement(log, text, as_prepared, None, failure).await;
            }
            Request::Execute { id, .. } => {
                let text = self.text_of(id).await;
                self.audit_statement(log, &text, None, None, failure).await;
            }
            Request::Batch(batch) => self.audit_batch(log, &batch.entries, failure).await,
            _ => {}
        }
    }

    async fn audit_batch(&self, log: &AuditLog, entries: &[BatchEntry<'_>], failure: Option<&Failure>) {
        let id = uuid::Uuid::from_bytes(runtime::rng::bytes16()).to_string();
        let (user, count) = (self.user(), entries.len());
        let operation = format!("BatchId:[{id}] - BATCH of [{count}] statements");
        if let Some(failure) = failure {
            let (kind, category) = kind_of(failure);
            let operation = format!("{operation}; {}", shard::without_passwords(&failure.text));
            log.note(&self.entry(Some(&user), kind, category, &operation)).await;
            return;
        }
        let keyspace = self.keyspace();
        let whole = self.entry(Some(&user), "BATCH", "DML", &operation);
        log.note(&AuditEntry { batch: Some(&id), keyspace: keyspace.as_deref(), ..whole }).await;
        for entry in entries {
            let text = self.text_of_entry(entry).await;
            self.audit_statement(log, &text, None, Some(&id), None).await;
        }
    }

    async fn text_of_entry(&self, entry: &BatchEntry<'_>) -> String {
        match entry.statement {
            BatchStatement::Text(text) => text.to_owned(),
            BatchStatement::Id(id) => self.text_of(id).await,
        }
    }

    async fn audit_statement(
        &self,
        log: &AuditLog,
        text: &str,
        prepared_as: Option<(&str, &str)>,
        batch: Option<&str>,
        failure: Option<&Failure>,
    ) {
        let (user, session_keyspace) = (self.user(), self.keyspace());
        let facts = statement_facts(text, session_keyspace.as_deref());
        let mut operation = shard::with_masked_passwords(text).into_owned();
        let (kind, category) = match (failure, &facts, prepared_as) {
            (Some(failure), ..) => {
                // A text that cannot be parsed may have a password anywhere, and so may what is said about it.
                let is_obscured = facts.is_none() && operation.as_str() != text;
                let said = match is_obscured {
                    true => "Syntax Exception. Obscured for security reasons.".into(),
                    false => shard::without_passwords(&failure.text),
                };
                operation = format!("{operation}; {said}");
                kind_of(failure)
            }
            (None, _, Some(prepared_as)) => prepared_as,
            (None, Some(facts), None) => (facts.kind, facts.category),
            // What has run can be parsed.
            (None, None, None) => ("REQUEST_FAILURE", "ERROR"),
        };
        let named = facts.as_ref().filter(|_| failure.is_none());
        let keyspace = named.map_or(session_keyspace.as_deref(), |facts| facts.keyspace.as_deref());
        let scope = named.and_then(|facts| facts.scope.as_deref());
        let entry = self.entry(Some(&user), kind, category, &operation);
        log.note(&AuditEntry { batch, keyspace, scope, ..entry }).await;
    }

    async fn full(&self, request: &Request<'_>, began: i64) -> Option<String> {
        let keyspace = self.keyspace();
        let keyspace = keyspace.as_deref();
        let version = self.version;
        Some(match request {
            Request::Query { text, parameters } => {
                full::single(version, began, keyspace, &shard::with_masked_passwords(text), parameters)
            }
            Request::Execute { id, parameters, .. } => {
                let text = self.text_of(id).await;
                full::single(version, began, keyspace, &shard::with_masked_passwords(&text), parameters)
            }
            Request::Batch(batch) => {
                let mut statements = Vec::with_capacity(batch.entries.len());
                for entry in &batch.entries {
                    let text = self.text_of_entry(entry).await;
                    statements.push((shard::with_masked_passwords(&text).into_owned(), entry.values.as_slice()));
                }
                full::batch(version, began, keyspace, batch.kind, &statements, &batch.parameters)
            }
            _ => return None,
        })
    }
}

/// The kind of entry that a failure makes.
fn kind_of(failure: &Failure) -> (&'static str, &'static str) {
    match failure.code {
        ErrorCode::Unauthorized => ("UNAUTHORIZED_ATTEMPT", "AUTH"),
        _ => ("REQUEST_FAILURE", "ERROR"),
    }
}
