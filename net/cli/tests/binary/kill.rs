//! `kill -9` of the real binary under load: every write that was acknowledged is there after the restart.

use crate::node::Node;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

const ROUNDS: usize = 10;
const WRITERS: i32 = 16;
/// Writes acknowledged in a round before the node is killed.
const WRITES: i32 = 400;

async fn connect(node: &Node) -> (Arc<Session>, Arc<PreparedStatement>) {
    let session = SessionBuilder::new().known_node(format!("{}:9042", node.address)).build().await.expect("a session");
    for statement in [
        "CREATE KEYSPACE IF NOT EXISTS x WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS x.t (pk int PRIMARY KEY, v int)",
    ] {
        session.query_unpaged(statement, &[]).await.expect("created");
    }
    let insert = session.prepare("INSERT INTO x.t (pk, v) VALUES (?, ?)").await.expect("prepared");
    (Arc::new(session), Arc::new(insert))
}

#[tokio::test]
async fn no_acknowledged_write_is_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged: Vec<i32> = Vec::new();
    let next = Arc::new(AtomicI32::new(0));
    for round in 0..ROUNDS {
        let cores = if round % 2 == 0 { "2" } else { "1" };
        let node = Node::start("127.0.11.4", directory.path(), &["--cores", cores]);
        let (session, insert) = connect(&node).await;
        for &key in &acknowledged {
            let text = format!("SELECT v FROM x.t WHERE pk = {key}");
            let rows = session.query_unpaged(text, &[]).await.expect("read").into_rows_result().expect("rows");
            let row = rows.maybe_first_row::<(i32,)>().expect("typed");
            assert_eq!(row, Some((key ^ 0x5555,)), "round {round}: key {key} is lost");
        }
        let in_round = Arc::new(AtomicI32::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (session, insert) = (session.clone(), insert.clone());
                let (next, in_round) = (next.clone(), in_round.clone());
                tokio::spawn(async move {
                    let mut mine = Vec::new();
                    loop {
                        let key = next.fetch_add(1, Ordering::Relaxed);
                        if session.execute_unpaged(&insert, (key, key ^ 0x5555)).await.is_err() {
                            return mine;
                        }
                        mine.push(key);
                        in_round.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        while in_round.load(Ordering::Relaxed) < WRITES {
            tokio::task::yield_now().await;
        }
        node.kill();
        // Only this round's keys are looked up after the next start: each round checks one kill.
        acknowledged.clear();
        for writer in writers {
            acknowledged.extend(writer.await.expect("a writer"));
        }
        assert!(acknowledged.len() >= WRITES as usize);
    }
}
