//! Pages, prepared statements across changes of the schema, batches, conditions, counters, errors.

use super::{World, refusal, typed};
use crate::patience::eventually;
use scylla::errors::DbError;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::{Consistency, SerialConsistency, Statement};
use scylla::value::{Counter, CqlValue, Row};
use std::ops::ControlFlow;

const PARTITIONS: i32 = 20;
const ROWS: i32 = 15;

fn every_key() -> Vec<(i32, i32)> {
    (0..PARTITIONS).flat_map(|pk| (0..ROWS).map(move |ck| (pk, ck))).collect()
}

impl World<'_> {
    async fn fill_paged(&self) {
        self.run("DROP TABLE IF EXISTS paged").await;
        self.run("CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
        let insert = self.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)").await;
        let writes = every_key().into_iter().map(async |(pk, ck)| {
            self.session.execute_unpaged(&insert, (pk, ck, format!("{pk}-{ck}"))).await.expect("written");
        });
        futures::future::join_all(writes).await;
    }

    /// Every row of a statement, page by page, none of which may have more rows than asked for.
    async fn pages(&self, text: &str, page_size: i32) -> Vec<(i32, i32)> {
        let mut statement = Statement::new(text);
        statement.set_page_size(page_size);
        let mut state = PagingState::start();
        let mut found = Vec::new();
        loop {
            let (page, next) = self.session.query_single_page(statement.clone(), &[], state).await.expect("a page");
            let page = typed::<(i32, i32)>(page);
            assert!(page.len() <= page_size as usize, "{text}");
            found.extend(page);
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) => state = next,
                ControlFlow::Break(()) => return found,
            }
        }
    }

    pub(super) async fn paging(&self) {
        self.fill_paged().await;
        for page_size in [1, 7, 15, 299, 300, 301] {
            let mut found = self.pages("SELECT pk, ck FROM paged", page_size).await;
            found.sort();
            assert_eq!(found, every_key(), "{page_size} rows a page");
        }
        let partition = |cks: Vec<i32>| cks.into_iter().map(|ck| (3, ck)).collect::<Vec<_>>();
        for (condition, expected) in [
            ("pk = 3 AND ck > 2 AND ck <= 9", partition((3..10).collect())),
            ("pk = 3 ORDER BY ck DESC", partition((0..15).rev().collect())),
            ("pk = 3 LIMIT 5", partition((0..5).collect())),
        ] {
            let statement = format!("SELECT pk, ck FROM paged WHERE {condition}");
            assert_eq!(self.pages(&statement, 4).await, expected, "{condition}");
        }
    }

    /// The state of a page, kept as bytes, goes on in another session, with a statement that was prepared there.
    pub(super) async fn paging_resumed(&self) {
        self.fill_paged().await;
        let mut found = Vec::new();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let session = self.builder().use_keyspace(&self.keyspace, false).build().await.expect("a session");
            let mut select = session.prepare("SELECT pk, ck FROM paged").await.expect("prepared");
            select.set_page_size(70);
            let from = state.map_or_else(PagingState::start, PagingState::new_from_raw_bytes);
            let (page, next) = session.execute_single_page(&select, &[], from).await.expect("a page");
            found.extend(typed::<(i32, i32)>(page));
            match next {
                PagingStateResponse::HasMorePages { state: next } => {
                    state = Some(next.as_bytes_slice().expect("a state").to_vec());
                }
                PagingStateResponse::NoMorePages => break,
            }
        }
        found.sort();
        assert_eq!(found, every_key());
    }

    pub(super) async fn prepared_across_alter(&self) {
        let session = &self.session;
        self.run("CREATE TABLE altered (pk int PRIMARY KEY, a int)").await;
        let insert = self.prepare("INSERT INTO altered (pk, a) VALUES (?, ?)").await;
        let select = self.prepare("SELECT * FROM altered WHERE pk = ?").await;
        let read = async || -> Vec<Option<CqlValue>> {
            let found = session.execute_unpaged(&select, (1,)).await.expect("read");
            typed::<Row>(found).into_iter().next().expect("a row").columns
        };
        session.execute_unpaged(&insert, (1, 10)).await.expect("written");
        assert_eq!(read().await, [Some(CqlValue::Int(1)), Some(CqlValue::Int(10))]);
        self.run("ALTER TABLE altered ADD b text").await;
        session.execute_unpaged(&insert, (1, 20)).await.expect("written");
        self.run("UPDATE altered SET b = 'new' WHERE pk = 1").await;
        let altered = [Some(CqlValue::Int(1)), Some(CqlValue::Int(20)), Some(CqlValue::Text("new".into()))];
        eventually("the new column", async || read().await == altered).await;
        self.run("ALTER TABLE altered DROP a").await;
        eventually("no statement about a column that is gone", async || {
            session.execute_unpaged(&insert, (1, 30)).await.is_err()
        })
        .await;
    }

    /// The driver prepares again what a node no longer knows.
    pub(super) async fn prepared_across_drop(&self) {
        let session = &self.session;
        let table = "CREATE TABLE dropped (pk int PRIMARY KEY, v int)";
        self.run(table).await;
        let insert = self.prepare("INSERT INTO dropped (pk, v) VALUES (?, ?)").await;
        let select = self.prepare("SELECT v FROM dropped WHERE pk = ?").await;
        session.execute_unpaged(&insert, (1, 1)).await.expect("written");
        self.run("DROP TABLE dropped").await;
        assert!(session.execute_unpaged(&select, (1,)).await.is_err(), "the table is gone");
        self.run(table).await;
        assert_eq!(typed::<(i32,)>(session.execute_unpaged(&select, (1,)).await.expect("read")), []);
        session.execute_unpaged(&insert, (1, 2)).await.expect("written");
        assert_eq!(typed::<(i32,)>(session.execute_unpaged(&select, (1,)).await.expect("read")), [(2,)]);
    }

    pub(super) async fn batches(&self) {
        self.run("CREATE TABLE batched (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
        let insert = self.prepare("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)").await;
        for (pk, kind) in [(1, BatchType::Logged), (2, BatchType::Unlogged)] {
            let mut batch = Batch::new(kind);
            batch.append_statement(insert.clone());
            batch.append_statement(insert.clone());
            batch.append_statement("UPDATE batched SET v = ? WHERE pk = ? AND ck = ?");
            batch.append_statement(format!("DELETE FROM batched WHERE pk = {pk} AND ck = 7").as_str());
            batch.set_timestamp(Some(7));
            let values = ((pk, 1, "prepared"), (pk + 100, 1, "elsewhere"), ("it's", pk, 2), ());
            self.session.batch(&batch, values).await.expect("written");
            let select = format!("SELECT ck, v, writetime(v) FROM batched WHERE pk = {pk}");
            let found = self.rows::<(i32, String, i64)>(&select).await;
            assert_eq!(found, [(1, "prepared".into(), 7), (2, "it's".into(), 7)]);
            let select = format!("SELECT v FROM batched WHERE pk = {}", pk + 100);
            assert_eq!(self.rows::<(String,)>(&select).await, [("elsewhere".into(),)]);
        }
    }

    pub(super) async fn conditional(&self) {
        let session = &self.session;
        self.run("CREATE TABLE conditional (pk int, ck int, v int, PRIMARY KEY (pk, ck))").await;
        let mut insert = self.prepare("INSERT INTO conditional (pk, ck, v) VALUES (?, ?, ?) IF NOT EXISTS").await;
        let update = self.prepare("UPDATE conditional SET v = ? WHERE pk = ? AND ck = 1 IF v = ?").await;
        for serial in [SerialConsistency::Serial, SerialConsistency::LocalSerial] {
            insert.set_serial_consistency(Some(serial));
            let pk = serial as i32;
            let first = session.execute_unpaged(&insert, (pk, 1, 10)).await.expect("decided");
            assert!(typed::<Row>(first)[0].columns[0] == Some(CqlValue::Boolean(true)));
            let second = session.execute_unpaged(&insert, (pk, 1, 20)).await.expect("decided");
            assert_eq!(typed::<(bool, i32, i32, i32)>(second), [(false, pk, 1, 10)]);
            let refused = session.execute_unpaged(&update, (30, pk, 11)).await.expect("decided");
            assert_eq!(typed::<(bool, Option<i32>)>(refused), [(false, Some(10))]);
            let applied = session.execute_unpaged(&update, (30, pk, 10)).await.expect("decided");
            assert_eq!(typed::<(bool,)>(applied), [(true,)]);
            let mut batch = Batch::new(BatchType::Logged);
            batch.append_statement(
                format!("UPDATE conditional SET v = 31 WHERE pk = {pk} AND ck = 1 IF v = 30").as_str(),
            );
            batch.append_statement(format!("INSERT INTO conditional (pk, ck, v) VALUES ({pk}, 2, 32)").as_str());
            assert_eq!(typed::<(bool,)>(session.batch(&batch, ((), ())).await.expect("decided")), [(true,)]);
            let mut select = Statement::new(format!("SELECT ck, v FROM conditional WHERE pk = {pk}"));
            select.set_consistency(match serial {
                SerialConsistency::Serial => Consistency::Serial,
                SerialConsistency::LocalSerial => Consistency::LocalSerial,
            });
            let found = session.query_unpaged(select, &[]).await.expect("read");
            assert_eq!(typed::<(i32, i32)>(found), [(1, 31), (2, 32)]);
        }
    }

    pub(super) async fn counters(&self) {
        self.run("CREATE TABLE counted (pk int PRIMARY KEY, c counter)").await;
        let add = self.prepare("UPDATE counted SET c = c + ? WHERE pk = ?").await;
        for amount in [5i64, -2, 10] {
            self.session.execute_unpaged(&add, (Counter(amount), 1)).await.expect("counted");
        }
        let mut batch = Batch::new(BatchType::Counter);
        batch.append_statement(add.clone());
        batch.append_statement("UPDATE counted SET c = c - 3 WHERE pk = 2");
        self.session.batch(&batch, ((Counter(1), 1), ())).await.expect("counted");
        let mut found = self.rows::<(i32, Counter)>("SELECT pk, c FROM counted").await;
        found.sort();
        assert_eq!(found, [(1, Counter(14)), (2, Counter(-3))]);
    }

    /// Errors come as the driver's types.
    pub(super) async fn errors(&self) {
        self.run("CREATE TABLE there (pk int PRIMARY KEY)").await;
        let ask = async |statement: &str| refusal(self.session.query_unpaged(statement, &[]).await);
        let (error, _) = ask("CREATE TABLE there (pk int PRIMARY KEY)").await;
        assert_eq!(error, DbError::AlreadyExists { keyspace: self.keyspace.clone(), table: "there".into() });
        let (error, text) = ask("SELECT * FROM nowhere").await;
        assert_eq!((error, text.as_str()), (DbError::Invalid, "table nowhere does not exist"));
        let (error, text) = ask("SELECT").await;
        assert_eq!(error, DbError::SyntaxError);
        assert!(text.contains("no viable alternative at input"), "{text}");
    }
}
