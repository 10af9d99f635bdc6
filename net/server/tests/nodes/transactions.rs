//! Transactions in one partition: on one node, and on three that hold the same data.

use super::*;
use model::Consistency;
use server::client::{CallError, OutcomeKind, Value};

const ONE_REPLICA: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
const THREE_REPLICAS: &str = "{'class': 'SimpleStrategy', 'replication_factor': 3}";

/// Cells of four bytes as numbers, others as text.
fn shown(cell: &Option<Vec<u8>>) -> String {
    match cell.as_deref() {
        None => "null".to_owned(),
        Some(&[a, b, c, d]) => i32::from_be_bytes([a, b, c, d]).to_string(),
        Some(other) => String::from_utf8_lossy(other).into_owned(),
    }
}

/// Rows as `1 2, 3 null`, `void`, or the code and text of an error.
fn told(result: Result<Outcome, CallError>) -> String {
    match result {
        Ok(Outcome { kind: OutcomeKind::Void, .. }) => "void".to_owned(),
        Ok(outcome) => {
            let row = |row: &Vec<Option<Vec<u8>>>| row.iter().map(shown).collect::<Vec<_>>().join(" ");
            outcome.rows.iter().map(row).collect::<Vec<_>>().join(", ")
        }
        Err(CallError::Failure { code, text, .. }) => format!("{code:04x} {text}"),
        Err(broken) => format!("{broken:?}"),
    }
}

async fn ask(client: &mut Client, text: &str) -> String {
    let options = QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
    told(client.query(text, &options).await)
}

/// A statement and what it must be told.
type Step = (&'static str, &'static str);

/// A transaction with these statements.
fn transaction(statements: &str) -> String {
    format!("BEGIN TRANSACTION {statements} COMMIT TRANSACTION")
}

async fn create(client: &mut Client, replication: &str) {
    query(client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
    query(client, "CREATE TYPE k.u (a int, b text)").await;
    let columns = "p int, c int, s int static, v int, w int, t text, l list<int>, m map<text, int>, f frozen<u>, \
                   e set<text>, PRIMARY KEY (p, c)";
    query(client, &format!("CREATE TABLE k.t ({columns})")).await;
    query(client, "CREATE TABLE k.o (p int PRIMARY KEY, v int)").await;
    query(client, "CREATE TABLE k.n (p int PRIMARY KEY, v counter)").await;
}

/// What is told of each transaction in turn; one that begins with `=` is a statement of its own.
const STEPS: &[Step] = &[
    ("INSERT INTO k.t (p, c, v, w) VALUES (1, 1, 10, 1); INSERT INTO k.t (p, c, v) VALUES (1, 2, 20);", "void"),
    ("SELECT c, v, w FROM k.t WHERE p = 1;", "1 10 1, 2 20 null"),
    ("SELECT v FROM k.t WHERE p = 1 AND c = 2;", "20"),
    ("SELECT v + 1 FROM k.t WHERE p = 1 AND c > 1 LIMIT 1;", "21"),
    ("LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); SELECT a.v, a.c, a.w, a.t;", "10 1 1 null"),
    ("LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 9); SELECT a.v, a.c;", "null null"),
    // The first rows of ranges, beside a row that is named.
    (
        "LET a = (SELECT v FROM k.t WHERE p = 1 LIMIT 1); LET b = (SELECT v FROM k.t WHERE p = 1 AND c > 1 LIMIT 1); \
         LET d = (SELECT v FROM k.t WHERE p = 1 AND c = 2); LET e = (SELECT v FROM k.t WHERE p = 1 AND c > 2 LIMIT 1); \
         SELECT a.v, b.v, d.v, e.v;",
        "10 20 20 null",
    ),
    // What is answered is what was there before the changes.
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); LET b = (SELECT v FROM k.t WHERE p = 1 AND c = 2); \
         SELECT a.v, b.v; IF a IS NOT NULL AND a.v = 10 AND 15 < b.v THEN \
         UPDATE k.t SET v = b.v, w += 5 WHERE p = 1 AND c = 1; UPDATE k.t SET v -= a.w, w += 1 WHERE p = 1 AND c = 2; \
         INSERT INTO k.t (p, c, v) VALUES (1, 3, a.v); END IF",
        "10 20",
    ),
    ("= SELECT c, v, w FROM k.t WHERE p = 1", "1 20 6, 2 19 null, 3 10 null"),
    // A condition that does not hold changes nothing.
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); SELECT a.v; IF a.v > 20 THEN \
         DELETE FROM k.t WHERE p = 1 AND c = 1; END IF",
        "20",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 7); IF a IS NULL THEN DELETE FROM k.t WHERE p = 1 AND c = 3; \
         INSERT INTO k.t (p, c, v) VALUES (1, 7, 70); END IF",
        "void",
    ),
    ("= SELECT c, v, w FROM k.t WHERE p = 1", "1 20 6, 2 19 null, 7 70 null"),
    // Null compares with nothing, whichever side it is on.
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 2); LET b = (SELECT * FROM k.t WHERE p = 1 AND c = 1); \
         SELECT a.w; IF a.w != 3 THEN UPDATE k.t SET v = 0 WHERE p = 1 AND c = 2; END IF",
        "null",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 2); LET b = (SELECT * FROM k.t WHERE p = 1 AND c = 1); \
         SELECT a.w, b.w; IF b.w != a.w THEN UPDATE k.t SET v = 0 WHERE p = 1 AND c = 2; END IF",
        "null 6",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 2); LET b = (SELECT * FROM k.t WHERE p = 1 AND c = 1); \
         SELECT a.v; IF a.w IS NULL AND b.w IS NOT NULL AND b.v > a.v THEN \
         UPDATE k.t SET v = b.v WHERE p = 1 AND c = 2; END IF",
        "19",
    ),
    ("= SELECT c, v FROM k.t WHERE p = 1", "1 20, 2 20, 7 70"),
    // Static columns and parts of values.
    (
        "UPDATE k.t SET s = 5, t = 'x', l = [7, 8], m = {'a': 1, 'b': 2}, f = {a: 3, b: 'y'}, e = {'q', 'r'} \
         WHERE p = 2 AND c = 1;",
        "void",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 2 AND c = 1); LET n = (SELECT s, v FROM k.t WHERE p = 2 AND c = 8); \
         SELECT a.l[1], a.m['b'], a.m['z'], a.f.a, a.f.b, a.e['q'], a.e['z'], n.s, n.v, a.l[5];",
        "8 2 null 3 y q null 5 null null",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 2 AND c = 1); SELECT a.s; \
         IF a.m['a'] = 1 AND a.l[0] >= 7 AND a.f.b = 'y' AND a.s = 5 THEN \
         UPDATE k.t SET s += a.l[0], m['n'] = a.f.a, l = a.l WHERE p = 2 AND c = 2; \
         UPDATE k.t SET l[0] = a.m['b'], e += {'s'}, t += 'z' WHERE p = 2 AND c = 1; END IF",
        "5",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 2 AND c = 1); LET b = (SELECT * FROM k.t WHERE p = 2 AND c = 2); \
         SELECT a.s, a.l[0], a.l[1], a.e['s'], a.t, b.m['n'], b.l[1];",
        "12 2 8 s xz 3 8",
    ),
    ("DELETE FROM k.t WHERE p = 2;", "void"),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 2 LIMIT 1); SELECT a.s, a.v; IF a IS NULL THEN \
      UPDATE k.t SET s = 1 WHERE p = 2; END IF",
        "null null",
    ),
    // A partition that has only static content gives a row, as it does to SELECT.
    (
        "LET a = (SELECT * FROM k.t WHERE p = 2 LIMIT 1); SELECT a.s, a.c; IF a IS NOT NULL THEN \
      UPDATE k.t SET s = 2 WHERE p = 2; END IF",
        "1 null",
    ),
    ("SELECT p, c, s FROM k.t WHERE p = 2;", "2 null 2"),
    ("INSERT INTO k.t JSON '{\"p\": 3, \"c\": 1, \"v\": 4}';", "void"),
    ("SELECT JSON p, v FROM k.t WHERE p = 3;", "{\"p\": 3, \"v\": 4}"),
    (
        "LET a = (SELECT v FROM k.o WHERE p = 1); SELECT a.v; IF a IS NULL THEN INSERT INTO k.o (p, v) VALUES (1, 1); \
      END IF",
        "null",
    ),
    ("UPDATE k.o SET v += 4 WHERE p = 1;", "void"),
    ("SELECT v FROM k.o WHERE p = 1;", "5"),
];

/// What is refused, and how.
const REFUSED: &[Step] = &[
    ("", "2200 Transaction contains no reads or writes"),
    ("LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1);", "2200 Transaction contains no reads or writes"),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 2); \
         SELECT a.v;",
        "2200 The name 'a' has already been used by a LET assignment.",
    ),
    ("SELECT b.v;", "2200 Cannot resolve reference to tuple 'b'."),
    ("LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); SELECT a.x;", "2200 Column 'x' does not exist in tuple 'a'."),
    (
        "LET a = (SELECT v FROM k.t WHERE p = 1 AND c = 1); SELECT a.w;",
        "2200 a.w references a column not included in the select",
    ),
    ("LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); SELECT a;", "2200 SELECT references must specify a column."),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1); SELECT a.v;",
        "2200 SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. In both \
         cases partition key elements must be always specified with equality operators; LET assignment a at [1:28]",
    ),
    (
        "SELECT * FROM k.t LIMIT 1;",
        "2200 SELECT must specify either all partition key elements. Partition key elements must be always specified \
         with equality operators; returning select at [1:19]",
    ),
    (
        "UPDATE k.t SET v = 1 WHERE p = 1 AND c = 1 IF v = 2;",
        "2200 Updates within transactions may not specify their own conditions; UPDATE statement at [1:19]",
    ),
    (
        "INSERT INTO k.t (p, c) VALUES (1, 1) USING TIMESTAMP 5;",
        "2200 Updates within transactions may not specify custom timestamps; INSERT statement at [1:19]",
    ),
    (
        "INSERT INTO k.t (p, c) VALUES (1, 1) USING TTL 5;",
        "2200 Updates within transactions may not specify custom ttls; INSERT statement at [1:19]",
    ),
    (
        "UPDATE k.n SET v = v + 1 WHERE p = 1;",
        "2200 Counter columns cannot be accessed within a transaction; UPDATE statement at [1:19]",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); INSERT INTO k.t (p, c) VALUES (1, a.v);",
        "2200 Value reference a.v cannot be used to insert PRIMARY KEY column c",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); INSERT INTO k.t (p, c, t) VALUES (1, 1, a.v);",
        "2200 Invalid reference type int (a.v) for \"t\" of type text",
    ),
    (
        "INSERT INTO k.t (p, c) VALUES (1, 1); INSERT INTO k.o (p, v) VALUES (1, 1);",
        "2200 Transactions cannot span multiple tables: k.t and k.o; INSERT statement at [1:57]",
    ),
    (
        "INSERT INTO k.t (p, c) VALUES (1, 1); INSERT INTO k.t (p, c) VALUES (2, 1);",
        "2200 Transactions cannot span multiple partitions: all statements must name the same partition key of table k.t",
    ),
    (
        "LET a = (SELECT * FROM k.t WHERE p = 1 AND c = 1); IF a.v = null THEN DELETE FROM k.t WHERE p = 1; END IF",
        "2200 Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead",
    ),
    (
        "SELECT count(*) FROM k.t WHERE p = 1;",
        "2200 No aggregation functions allowed within a transaction; SELECT statement at [1:19]",
    ),
    (
        "SELECT * FROM k.t WHERE p = 1 ORDER BY c DESC;",
        "2200 No ORDER BY clause allowed within a transaction; SELECT statement at [1:19]",
    ),
    (
        "DELETE FROM k.t WHERE p = 1 AND c IN (1, 2);",
        "2200 Updates within transactions may not specify IN or tuples for key columns; DELETE statement at [1:19]",
    ),
    (
        "SELECT key FROM system.local WHERE key = 'local';",
        "2200 Transactions are not supported on table system.local of a system keyspace",
    ),
    (
        "INSERT INTO k.w (p, c) VALUES (1, 1);",
        "2200 Transactions are not supported on table k.w, which has write_sharding: the rows of a key are in several \
         partitions, of which a transaction can decide only one",
    ),
];

async fn check_steps(node: NodeId) {
    let mut client = client(node).await;
    for (text, expected) in STEPS {
        let text = text.strip_prefix("= ").map_or_else(|| transaction(text), str::to_owned);
        assert_eq!(ask(&mut client, &text).await, *expected, "{text}");
    }
}

#[test]
fn transactions_read_decide_and_write_on_one_node() {
    let mut sim = Sim::new(91, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 3, config(ONE)), []);
    run(&mut sim, || async {
        create(&mut client(ONE).await, ONE_REPLICA).await;
        check_steps(ONE).await;
    });
}

#[test]
fn what_a_transaction_cannot_do_is_refused_by_name() {
    let mut sim = Sim::new(92, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        create(&mut client, ONE_REPLICA).await;
        let spread =
            "CREATE TABLE k.w (p int, c int, PRIMARY KEY (p, c)) WITH write_sharding = {'shards': 4, 'by': ['c']}";
        query(&mut client, spread).await;
        for (text, expected) in REFUSED {
            assert_eq!(ask(&mut client, &transaction(text)).await, *expected, "{text}");
        }
        for (text, expected) in [
            ("UPDATE k.t SET v = a.v WHERE p = 1 AND c = 1", "2000 "),
            ("SELECT a.v, b.v", "2000 "),
            ("BEGIN TRANSACTION UPDATE k.o SET v = 1 WHERE p = 1; END IF COMMIT TRANSACTION", "2000 "),
            (
                "BEGIN TRANSACTION LET a = (SELECT * FROM k.o WHERE p = 1); IF a.v = 1 THEN UPDATE k.o SET v = 1 WHERE \
              p = 1; COMMIT TRANSACTION",
                "2000 ",
            ),
        ] {
            let told = ask(&mut client, text).await;
            assert!(told.starts_with(expected), "{text}: {told}");
        }
    });
}

/// Values of markers, and what versions of the protocol differ in.
#[test]
fn prepared_transactions_bind_values_of_all_statements() {
    let mut sim = Sim::new(93, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, || async {
        create(&mut client(ONE).await, ONE_REPLICA).await;
        for (p, version) in [(1_i32, 4), (2, 5)] {
            let mut client = Client::connect(at(ONE, 9042), None, version).await.expect("the node serves");
            let text = transaction(
                "LET a = (SELECT * FROM k.t WHERE p = :p AND c = ?); SELECT a.v; IF a.v = ? THEN \
                 UPDATE k.t SET v = ?, w = a.v WHERE p = :p AND c = ?; END IF",
            );
            let prepared = client.prepare(&text).await.expect("it is prepared");
            let names: Vec<String> = prepared.markers.iter().map(|marker| marker.name.to_string()).collect();
            assert_eq!(names, ["p", "c", "v", "v", "p", "c"]);
            assert_eq!(prepared.key_markers, [4]);
            let columns: Vec<String> = prepared.result.iter().map(|column| column.name.to_string()).collect();
            assert_eq!(columns, ["a.v"]);
            query(&mut client, &format!("INSERT INTO k.t (p, c, v) VALUES ({p}, 1, 6) IF NOT EXISTS")).await;
            for (expected, answer) in [(5, "6"), (6, "6"), (6, "7")] {
                let int = |number: i32| Value::Bytes(number.to_be_bytes().to_vec());
                let values = [p, 1, expected, 7, p, 1].map(int).to_vec();
                let options = QueryOptions { values, ..QueryOptions::default() };
                assert_eq!(told(client.execute(&prepared, &options).await), answer);
            }
            let read = format!("SELECT v, w FROM k.t WHERE p = {p}");
            assert_eq!(ask(&mut client, &read).await, "7 6");
            let int = |number: i32| Value::Bytes(number.to_be_bytes().to_vec());
            let mut values = [p, 1, 0, 7, p, 1].map(int).to_vec();
            values[2] = Value::Null;
            let options = QueryOptions { values, ..QueryOptions::default() };
            let refused = told(client.execute(&prepared, &options).await);
            assert_eq!(refused, "2200 Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead");
        }
    });
}

fn three(sim: &mut Sim) -> [Started; 3] {
    [ONE, TWO, THREE].map(|node| {
        let started = begin(sim, node, 2, config(node));
        until(sim, "it serves", || started.serves());
        started
    })
}

#[test]
fn transactions_read_decide_and_write_on_three_nodes() {
    let mut sim = Sim::new(94, Options { buggify: false, ..Options::default() });
    let _nodes = three(&mut sim);
    run(&mut sim, || async {
        create(&mut client(ONE).await, THREE_REPLICAS).await;
        check_steps(TWO).await;
    });
}

/// Transfers between two rows keep the sum, however often coordinators die in the middle of them.
#[test]
fn transfers_are_whole_when_a_coordinator_dies() {
    const FULL: i32 = 100;
    let mut sim = Sim::new(95, Options { buggify: false, ..Options::default() });
    let _nodes = three(&mut sim);
    run(&mut sim, || async {
        let mut one = client(ONE).await;
        create(&mut one, THREE_REPLICAS).await;
        let both =
            format!("INSERT INTO k.t (p, c, v) VALUES (1, 1, {FULL}); INSERT INTO k.t (p, c, v) VALUES (1, 2, 0);");
        assert_eq!(ask(&mut one, &transaction(&both)).await, "void");
    });
    let text = "BEGIN TRANSACTION LET a = (SELECT v FROM k.t WHERE p = 1 AND c = 1); \
        LET b = (SELECT v FROM k.t WHERE p = 1 AND c = 2); SELECT a.v, b.v; IF a.v > 0 THEN \
        UPDATE k.t SET v -= 1 WHERE p = 1 AND c = 1; UPDATE k.t SET v += 1 WHERE p = 1 AND c = 2; END IF \
        COMMIT TRANSACTION";
    let mut moved_before = 0;
    for round in 0..12_u64 {
        // The node dies while its client has transactions under way, each time a little later.
        let answered = Rc::new(Cell::new(0_u64));
        let seen = answered.clone();
        sim.start_node(CLIENT, 1, move |_| {
            let seen = seen.clone();
            async move {
                let mut two = client(TWO).await;
                let options = QueryOptions { consistency: Consistency::Quorum, ..QueryOptions::default() };
                loop {
                    match two.query(text, &options).await {
                        Ok(outcome) => {
                            let values = outcome.rows[0].iter().map(|cell| shown(cell).parse::<i32>());
                            assert_eq!(values.map(|value| value.expect("a number")).sum::<i32>(), FULL);
                            seen.set(seen.get() + 1);
                        }
                        Err(CallError::Failure { .. }) => runtime::sleep(Duration::from_millis(50)).await,
                        Err(CallError::Broken(_)) => return,
                    }
                }
            }
        });
        until(&mut sim, "two transactions are answered", || answered.get() >= 2);
        for _ in 0..round * 17 {
            sim.step();
        }
        sim.crash(TWO);
        sim.crash(CLIENT);
        let moved = Rc::new(Cell::new(0));
        let told_moved = moved.clone();
        run(&mut sim, move || {
            let told_moved = told_moved.clone();
            async move {
                let mut three = client(THREE).await;
                let read = transaction("SELECT v FROM k.t WHERE p = 1;");
                let rows = loop {
                    let rows = ask(&mut three, &read).await;
                    if rows.contains(", ") && !rows.contains("Operation") {
                        break rows;
                    }
                    runtime::sleep(Duration::from_millis(100)).await;
                };
                let values: Vec<i32> = rows.split(", ").map(|value| value.parse().expect("a number")).collect();
                assert_eq!(values.iter().sum::<i32>(), FULL, "{values:?}");
                // The partition is not stuck in what the dead node has left.
                let after = ask(&mut three, text).await;
                assert_eq!(after, format!("{} {}", values[0], values[1]));
                told_moved.set(FULL - values[0] + 1);
            }
        });
        assert!(moved.get() > moved_before, "transactions take effect");
        moved_before = moved.get();
        let again = begin(&mut sim, TWO, 2, config(TWO));
        until(&mut sim, "it serves again", || again.serves());
    }
}
