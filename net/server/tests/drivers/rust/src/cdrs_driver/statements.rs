//! Pages, prepared statements across changes of the schema, batches, conditions, counters, errors.

use super::{Kind, World, parameters, rows};
use crate::patience::eventually;
use cdrs_tokio::consistency::Consistency;
use cdrs_tokio::frame::message_batch::BatchType;
use cdrs_tokio::frame::message_error::ErrorType;
use cdrs_tokio::query::{BatchQueryBuilder, QueryParamsBuilder};
use cdrs_tokio::query_values;
use cdrs_tokio::types::ByName;
use cdrs_tokio::types::prelude::Row;

const PARTITIONS: i32 = 20;
const ROWS: i32 = 15;

fn every_key() -> Vec<(i32, i32)> {
    (0..PARTITIONS).flat_map(|pk| (0..ROWS).map(move |ck| (pk, ck))).collect()
}

fn number(row: &Row, column: &str) -> i32 {
    row.r_by_name(column).expect("a number")
}

fn key(row: &Row) -> (i32, i32) {
    (number(row, "pk"), number(row, "ck"))
}

impl<K: Kind> World<K> {
    /// Makes the table anew, and writes to all replicas, because the pager of prepared statements reads one.
    async fn fill_paged(&self) {
        self.define("DROP TABLE IF EXISTS paged").await;
        self.define("CREATE TABLE paged (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
        let insert = self.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)").await;
        let insert = &insert;
        let writes = every_key().into_iter().map(async |(pk, ck)| {
            let values = query_values!(pk, ck, format!("{pk}-{ck}"));
            let parameters = parameters().with_consistency(Consistency::All).with_values(values).build();
            self.session.exec_with_params(insert, &parameters).await.expect("written");
        });
        futures::future::join_all(writes).await;
    }

    pub(super) async fn paging(&self) {
        self.fill_paged().await;
        let select = self.prepare("SELECT pk, ck FROM paged").await;
        for page_size in [1, 7, 15, 299, 300, 301] {
            let (mut simple, mut prepared) = (self.session.paged(page_size), self.session.paged(page_size));
            let (mut simple, mut prepared) = (simple.query("SELECT pk, ck FROM paged"), prepared.exec(&select));
            let (mut by_simple, mut by_prepared) = (Vec::new(), Vec::new());
            loop {
                let page = simple.next().await.expect("a page");
                assert!(page.len() <= page_size as usize);
                by_simple.extend(page.iter().map(key));
                if !simple.has_more() {
                    break;
                }
            }
            loop {
                by_prepared.extend(prepared.next().await.expect("a page").iter().map(key));
                if !prepared.has_more() {
                    break;
                }
            }
            for mut found in [by_simple, by_prepared] {
                found.sort();
                assert_eq!(found, every_key(), "{page_size} rows a page");
            }
        }
    }

    /// The state of a page goes on in another session.
    pub(super) async fn paging_resumed(&self) {
        self.fill_paged().await;
        let mut found = Vec::new();
        let mut state = None;
        loop {
            let session = K::session(&self.settings, Some(&self.keyspace)).await;
            let mut pager = session.paged(70);
            let parameters = QueryParamsBuilder::new().with_consistency(Consistency::Quorum).build();
            let statement = "SELECT pk, ck FROM paged";
            let mut pages = pager.query_with_pager_state_params(statement, state.unwrap_or_default(), parameters);
            found.extend(pages.next().await.expect("a page").iter().map(key));
            if !pages.has_more() {
                break;
            }
            state = Some(pages.into_pager_state());
        }
        found.sort();
        assert_eq!(found, every_key());
    }

    pub(super) async fn prepared_across_alter(&self) {
        self.define("CREATE TABLE altered (pk int PRIMARY KEY, a int)").await;
        let insert = self.prepare("INSERT INTO altered (pk, a) VALUES (?, ?)").await;
        let select = self.prepare("SELECT * FROM altered WHERE pk = ?").await;
        self.execute(&insert, query_values!(1, 10)).await;
        let found = self.execute(&select, query_values!(1)).await;
        assert_eq!((number(&found[0], "a"), found[0].contains_column("b")), (10, false));
        self.define("ALTER TABLE altered ADD b text").await;
        self.execute(&insert, query_values!(1, 20)).await;
        self.query("UPDATE altered SET b = 'new' WHERE pk = 1").await;
        eventually("the new column", async || {
            let found = self.execute(&select, query_values!(1)).await;
            let b: Option<String> =
                if found[0].contains_column("b") { found[0].by_name("b").expect("a text") } else { None };
            number(&found[0], "a") == 20 && b.as_deref() == Some("new")
        })
        .await;
        self.define("ALTER TABLE altered DROP a").await;
        eventually("no statement about a column that is gone", async || {
            self.try_execute(&insert, query_values!(1, 30)).await.is_err()
        })
        .await;
    }

    /// The driver prepares again what a node no longer knows.
    pub(super) async fn prepared_across_drop(&self) {
        let table = "CREATE TABLE dropped (pk int PRIMARY KEY, v int)";
        self.define(table).await;
        let insert = self.prepare("INSERT INTO dropped (pk, v) VALUES (?, ?)").await;
        let select = self.prepare("SELECT v FROM dropped WHERE pk = ?").await;
        self.execute(&insert, query_values!(1, 1)).await;
        self.define("DROP TABLE dropped").await;
        assert!(self.try_execute(&select, query_values!(1)).await.is_err(), "the table is gone");
        self.define(table).await;
        assert!(self.execute(&select, query_values!(1)).await.is_empty());
        self.execute(&insert, query_values!(1, 2)).await;
        assert_eq!(number(&self.execute(&select, query_values!(1)).await[0], "v"), 2);
    }

    pub(super) async fn batches(&self) {
        self.define("CREATE TABLE batched (pk int, ck int, v text, PRIMARY KEY (pk, ck))").await;
        let insert = self.prepare("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)").await;
        for (pk, kind) in [(1, BatchType::Logged), (2, BatchType::Unlogged)] {
            let mut batch = BatchQueryBuilder::new().with_batch_type(kind).with_consistency(Consistency::Quorum);
            for ck in 0..10 {
                batch = batch.add_query_prepared(&insert, query_values!(pk, ck, format!("v{ck}")));
            }
            let update = "UPDATE batched SET v = ? WHERE pk = ? AND ck = ?";
            batch = batch.add_query(update, query_values!("it's", pk, 10)).with_timestamp(7);
            self.session.batch(batch.build().expect("a batch")).await.expect("applied");
            let found = self.rows(&format!("SELECT ck, v, writetime(v) AS w FROM batched WHERE pk = {pk}")).await;
            assert_eq!(found.iter().map(|row| number(row, "ck")).collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
            assert_eq!(found[10].r_by_name::<String>("v").expect("a text"), "it's");
            assert!(found.iter().all(|row| row.r_by_name::<i64>("w").expect("a time") == 7));
        }
    }

    pub(super) async fn conditional(&self) {
        self.define("CREATE TABLE conditional (pk int PRIMARY KEY, v int)").await;
        for (statement, applied, current) in [
            ("INSERT INTO conditional (pk, v) VALUES (1, 1) IF NOT EXISTS", true, None),
            ("INSERT INTO conditional (pk, v) VALUES (1, 2) IF NOT EXISTS", false, Some(1)),
            ("UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 2", false, Some(1)),
            ("UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 1", true, None),
            ("DELETE FROM conditional WHERE pk = 1 IF EXISTS", true, None),
        ] {
            let parameters = parameters().with_serial_consistency(Consistency::LocalSerial).build();
            let found = rows(self.session.query_with_params(statement, parameters).await.expect("decided"));
            assert_eq!(found[0].r_by_name::<bool>("[applied]").expect("a column"), applied, "{statement}");
            let found =
                found[0].contains_column("v").then(|| found[0].by_name::<i32>("v").expect("a number")).flatten();
            assert_eq!(found, current, "{statement}");
        }
    }

    pub(super) async fn counters(&self) {
        self.define("CREATE TABLE counted (pk int PRIMARY KEY, c counter)").await;
        let add = self.prepare("UPDATE counted SET c = c + ? WHERE pk = ?").await;
        for amount in [5_i64, -2, 10] {
            self.execute(&add, query_values!(amount, 1)).await;
        }
        let mut batch = BatchQueryBuilder::new().with_batch_type(BatchType::Counter);
        batch = batch.with_consistency(Consistency::Quorum).add_query_prepared(&add, query_values!(1_i64, 1));
        batch = batch.add_query("UPDATE counted SET c = c - 3 WHERE pk = ?", query_values!(2));
        self.session.batch(batch.build().expect("a batch")).await.expect("counted");
        let found = self.rows("SELECT pk, c FROM counted").await;
        let mut found: Vec<(i32, i64)> =
            found.iter().map(|row| (number(row, "pk"), row.r_by_name("c").expect("a counter"))).collect();
        found.sort();
        assert_eq!(found, [(1, 14), (2, -3)]);
    }

    /// Errors come as the driver's types.
    pub(super) async fn errors(&self) {
        self.define("CREATE TABLE there (pk int PRIMARY KEY)").await;
        let refused = self.refusal("CREATE TABLE there (pk int PRIMARY KEY)").await;
        let ErrorType::AlreadyExists(error) = refused.ty else { panic!("{refused:?}") };
        assert_eq!((error.ks, error.table), (self.keyspace.clone(), "there".into()));
        let refused = self.refusal("SELECT * FROM nowhere").await;
        assert_eq!((refused.ty, refused.message.as_str()), (ErrorType::Invalid, "table nowhere does not exist"));
        let refused = self.refusal("SELECT").await;
        assert_eq!(refused.ty, ErrorType::Syntax);
        assert!(refused.message.contains("no viable alternative at input"), "{}", refused.message);
    }
}
