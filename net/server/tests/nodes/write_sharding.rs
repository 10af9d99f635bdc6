//! Tables whose partition keys are spread over several partitions, beside twins that are not: both get the same
//! statements, and all answers must be equal.

use super::*;
use model::Consistency;
use runtime::rng::Rng;
use server::client::CallError;

/// The name that stands for the table in a statement.
const TABLE: &str = "TABLE";
pub(super) const PLAIN: &str = "k.plain";
pub(super) const SPREAD: &str = "k.spread";

/// A table as its twins are made: its columns, and the options of both.
pub(super) struct Twin {
    pub(super) columns: &'static str,
    pub(super) options: &'static str,
    pub(super) sharding: &'static str,
    /// Whether the partition key has a second column, `e`.
    pub(super) two_keys: bool,
}

pub(super) const TWINS: [Twin; 3] = [
    Twin {
        columns: "d int, e text, c int, t text, v int, w text, l list<int>, PRIMARY KEY ((d, e), c, t)",
        options: "CLUSTERING ORDER BY (c DESC, t ASC)",
        sharding: "{'shards': 7, 'by': ['t']}",
        two_keys: true,
    },
    Twin {
        columns: "d int, c int, t text, v int, w text, l list<int>, PRIMARY KEY (d, c, t)",
        options: "CLUSTERING ORDER BY (c ASC, t DESC)",
        sharding: "{'shards': 50, 'by': ['c']}",
        two_keys: false,
    },
    Twin {
        columns: "d int, c int, t text, v int, w text, l list<int>, PRIMARY KEY (d, c, t)",
        options: "CLUSTERING ORDER BY (c ASC, t ASC)",
        sharding: "{'shards': 3, 'mode': 'calculated', 'by': ['t', 'c']}",
        two_keys: false,
    },
];

/// Rows of a statement, or its error.
type Answer = Result<(Vec<String>, Vec<Vec<Option<Vec<u8>>>>), (u16, String)>;

pub(super) struct Twins {
    pub(super) client: Client,
    rng: Rng,
    two_keys: bool,
    consistency: Consistency,
    /// Rows and errors that were compared.
    rows: usize,
    errors: usize,
}

impl Twins {
    pub(super) async fn new(seed: u64, two_keys: bool, consistency: Consistency) -> Twins {
        Twins::through(ONE, seed, two_keys, consistency).await
    }

    pub(super) async fn through(node: NodeId, seed: u64, two_keys: bool, consistency: Consistency) -> Twins {
        Twins { client: client(node).await, rng: Rng::new(seed), two_keys, consistency, rows: 0, errors: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn one_of(&mut self, choices: &[&str]) -> String {
        choices[self.below(choices.len() as u64) as usize].to_owned()
    }

    /// The answer of one table, in pages of so many rows.
    async fn ask_one(&mut self, text: &str, table: &str, page_size: Option<i32>) -> Answer {
        let text = text.replace(TABLE, table);
        let (mut rows, mut paging_state) = (Vec::new(), None);
        loop {
            let options =
                QueryOptions { page_size, paging_state, consistency: self.consistency, ..QueryOptions::default() };
            match self.client.query(&text, &options).await {
                Ok(page) => {
                    if let Some(size) = page_size {
                        assert!(page.rows.len() <= size as usize, "{text}");
                    }
                    rows.extend(page.rows);
                    paging_state = page.paging_state;
                    if paging_state.is_none() {
                        let name = |column: &model::ColumnSpec| format!("{} {}", column.name, column.cql_type);
                        return Ok((page.columns.iter().map(name).collect(), rows));
                    }
                }
                Err(CallError::Failure { text, .. })
                    if text.contains("Invalid value for the paging state") && !rows.is_empty() =>
                {
                    // Rows have moved since the first page.
                    rows.clear();
                    paging_state = None;
                }
                Err(CallError::Failure { code, text, .. }) => {
                    let name = table.rsplit('.').next().unwrap_or_default();
                    return Err((code, text.replace(table, TABLE).replace(name, TABLE)));
                }
                Err(error) => panic!("{text}: {error:?}"),
            }
        }
    }

    /// Runs a statement on both tables and compares the answers; those of scans in any order of the rows.
    pub(super) async fn ask(&mut self, text: &str) {
        let is_read = text.starts_with("SELECT");
        let mut sizes = vec![None];
        if is_read {
            sizes.push(Some(1 + self.below(9) as i32));
        }
        for size in sizes {
            let mut plain = self.ask_one(text, PLAIN, size).await;
            let mut spread = self.ask_one(text, SPREAD, size).await;
            if !text.contains("WHERE d") && is_read {
                for answer in [&mut plain, &mut spread] {
                    answer.iter_mut().for_each(|(_, rows)| rows.sort());
                }
            }
            assert_eq!(plain, spread, "{text}, pages of {size:?}");
            match plain {
                Ok((_, rows)) => self.rows += rows.len(),
                Err(_) => self.errors += 1,
            }
        }
    }

    /// One partition, or several.
    fn key(&mut self, several: bool) -> String {
        let d = match several {
            true => self.one_of(&["d IN (0, 1)", "d IN (2, 0, 7)", "d IN (1)", "d IN ()"]),
            false => format!("d = {}", self.below(3)),
        };
        if !self.two_keys {
            return d;
        }
        match several && self.below(2) == 0 {
            true => format!("{d} AND e IN ('b', 'a')"),
            false => format!("{d} AND e = '{}'", self.one_of(&["a", "b"])),
        }
    }

    fn key_values(&mut self) -> (&'static str, String) {
        let d = self.below(3);
        match self.two_keys {
            false => ("d", d.to_string()),
            true => ("d, e", format!("{d}, '{}'", self.one_of(&["a", "b"]))),
        }
    }

    fn c(&mut self) -> u64 {
        self.below(6)
    }

    fn t(&mut self) -> String {
        self.one_of(&["'a'", "'b'", "'c'", "'d'", "'e'", "''"])
    }

    /// A restriction to one row.
    fn row(&mut self) -> String {
        format!(" AND c = {} AND t = {}", self.c(), self.t())
    }

    /// A restriction of the clustering.
    fn slice(&mut self) -> String {
        let (a, b, s, u) = (self.c(), self.c(), self.t(), self.t());
        match self.below(14) {
            0 | 1 => String::new(),
            2 => format!(" AND c > {a}"),
            3 => format!(" AND c <= {a}"),
            4 => format!(" AND c >= {a} AND c < {b}"),
            5 => format!(" AND c = {a}"),
            6 => format!(" AND c = {a} AND t >= {s}"),
            7 => format!(" AND c = {a} AND t < {s} AND t > {u}"),
            8 => format!(" AND c IN ({a}, {b})"),
            9 => format!(" AND c IN ({a}, {b}) AND t IN ({s}, {u})"),
            10 => format!(" AND (c, t) > ({a}, {s})"),
            11 => format!(" AND (c, t) IN (({a}, {s}), ({b}, {u}))"),
            12 => format!(" AND c = {a} AND t IN ({s}, {u})"),
            _ => self.row(),
        }
    }

    fn read(&mut self) -> String {
        let several = self.below(4) == 0;
        let (key, slice) = (self.key(several), self.slice());
        let columns = self.one_of(&["*", "t, v", "d, c, t", "c, w, l", "JSON c, t, v", "v + 1, t"]);
        let order = match self.below(3) {
            0 if self.two_keys => " ORDER BY c ASC",
            0 => " ORDER BY c DESC",
            _ => "",
        };
        let limit = match self.below(3) {
            0 => format!(" LIMIT {}", 1 + self.below(12)),
            _ => String::new(),
        };
        let per_partition = match self.below(4) {
            0 => format!(" PER PARTITION LIMIT {}", 1 + self.below(6)),
            _ => String::new(),
        };
        let x = self.below(10);
        let keys = if self.two_keys { "d, e" } else { "d" };
        match self.below(16) {
            0 => format!("SELECT count(*) FROM TABLE WHERE {key}{slice}"),
            1 => format!("SELECT count(v), t, count(*) FROM TABLE WHERE {key}{slice}"),
            2 => format!("SELECT sum(v), min(t), max(c), avg(v), count(w) FROM TABLE WHERE {key}{slice}"),
            3 => format!("SELECT {keys}, c, count(*), max(t) FROM TABLE WHERE {key}{slice} GROUP BY {keys}, c{limit}"),
            4 => format!("SELECT {keys}, count(v) FROM TABLE WHERE {key} GROUP BY {keys}{per_partition}"),
            5 => format!("SELECT {keys}, c, v FROM TABLE WHERE {key} GROUP BY {keys}, c{per_partition}{limit}"),
            6 => format!("SELECT DISTINCT {keys} FROM TABLE WHERE {key}{limit}"),
            7 => format!("SELECT {columns} FROM TABLE WHERE {key}{slice} AND v < {x}{limit} ALLOW FILTERING"),
            8 => format!("SELECT {columns} FROM TABLE WHERE {key} AND w = 'x'"),
            9 => format!("SELECT {columns} FROM TABLE WHERE {key}{slice} AND w = 'y' AND v > {x} ALLOW FILTERING"),
            10 => "SELECT * FROM TABLE".to_owned(),
            11 => "SELECT count(*), sum(v) FROM TABLE".to_owned(),
            12 => self.one_of(&[
                "SELECT * FROM TABLE WHERE w = 'x'",
                "SELECT d, c, t, v FROM TABLE WHERE v > 3 AND c = 2 ALLOW FILTERING",
            ]),
            _ => format!("SELECT {columns} FROM TABLE WHERE {key}{slice}{order}{per_partition}{limit}"),
        }
    }

    fn insert(&mut self) -> String {
        let ((names, key), c, t) = (self.key_values(), self.c(), self.t());
        let (v, w) = (self.one_of(&["1", "3", "5", "8", "null"]), self.one_of(&["'x'", "'y'", "null"]));
        let using = self.one_of(&["", "", " USING TTL 100000"]);
        match self.below(5) {
            0 => format!("INSERT INTO TABLE ({names}, c, t) VALUES ({key}, {c}, {t}){using}"),
            1 => format!("INSERT INTO TABLE ({names}, c, t, l) VALUES ({key}, {c}, {t}, [1, 2, 3]){using}"),
            2 if !self.two_keys => {
                let t = t.replace('\'', "\"");
                format!("INSERT INTO TABLE JSON '{{\"d\": {key}, \"c\": {c}, \"t\": {t}, \"v\": 7}}' DEFAULT UNSET")
            }
            _ => format!("INSERT INTO TABLE ({names}, c, t, v, w) VALUES ({key}, {c}, {t}, {v}, {w}){using}"),
        }
    }

    fn change(&mut self) -> String {
        let several = self.below(6) == 0;
        let (key, row, slice) = (self.key(several), self.row(), self.slice());
        let (a, b, s, u) = (self.c(), self.c(), self.t(), self.t());
        match self.below(18) {
            0 | 1 => format!("UPDATE TABLE SET v = {a}, w = 'y' WHERE {key}{row}"),
            2 => format!("UPDATE TABLE SET v = {a} WHERE {key} AND c IN ({a}, {b}) AND t IN ({s}, {u})"),
            3 => format!("UPDATE TABLE SET l = l + [{a}] WHERE {key}{row}"),
            4 => format!("UPDATE TABLE SET l[0] = {a} WHERE {key}{row}"),
            5 => format!("UPDATE TABLE SET l = l - [{a}, 2] WHERE {key} AND c IN ({a}, {b}) AND t IN ({s}, {u})"),
            6 | 7 => format!("DELETE FROM TABLE WHERE {key}{row}"),
            8 => format!("DELETE v, l FROM TABLE WHERE {key}{row}"),
            9 => format!("DELETE l[1] FROM TABLE WHERE {key}{row}"),
            10 => format!("DELETE FROM TABLE WHERE {key}{slice}"),
            11 => {
                let (one, two, key) = (self.insert(), self.insert(), self.key(false));
                let kind = self.one_of(&["", "UNLOGGED "]);
                format!("BEGIN {kind}BATCH {one}; {two}; DELETE FROM TABLE WHERE {key}{row}; APPLY BATCH")
            }
            _ => self.insert(),
        }
    }

    pub(super) fn has_two_keys(&self) -> bool {
        self.two_keys
    }

    fn statement(&mut self) -> String {
        match self.below(5) {
            0 | 1 => self.change(),
            2 => self.insert(),
            _ => self.read(),
        }
    }

    /// Some statements.
    pub(super) async fn some(&mut self, count: usize) {
        for _ in 0..count {
            let text = self.statement();
            self.ask(&text).await;
        }
    }

    /// Some statements, each of which is tried again until both tables have it: a node may just have died.
    pub(super) async fn some_or_late(&mut self, count: usize) {
        for _ in 0..count {
            let text = self.statement();
            if text.contains("l = l") || text.contains("l[") {
                // Not the same if it is made twice.
                continue;
            }
            for table in [PLAIN, SPREAD] {
                let began = runtime::now();
                while let Err((0x1000..=0x1500, error)) = self.ask_one(&text, table, None).await {
                    assert!(runtime::now().since(began) < Duration::from_secs(60), "{text}: {error}");
                }
            }
        }
    }

    pub(super) async fn run(&mut self, count: usize) {
        self.some(count).await;
        assert!(self.rows > count, "{} rows", self.rows);
        assert!(self.errors < count / 2, "{} errors", self.errors);
    }

    /// Conditional changes alone: their times are those of ballots.
    pub(super) async fn decide(&mut self, count: usize) {
        for _ in 0..count {
            let (key, row, a, b) = (self.key(false), self.row(), self.c(), self.c());
            let text = match self.below(6) {
                0 | 1 => format!("{} IF NOT EXISTS", self.insert()).replace(" USING TTL 100000 IF", " IF"),
                2 => format!("UPDATE TABLE SET v = {a} WHERE {key}{row} IF v = {b}"),
                3 => format!("UPDATE TABLE SET v = {a} WHERE {key}{row} IF EXISTS"),
                4 => format!("DELETE FROM TABLE WHERE {key}{row} IF v < {a}"),
                _ => format!(
                    "BEGIN BATCH UPDATE TABLE SET v = {a} WHERE {key}{row} IF v != 77; UPDATE TABLE SET w = 'z' WHERE \
                     {key}{row}; APPLY BATCH"
                ),
            };
            if text.contains("JSON") {
                continue;
            }
            self.ask(&text).await;
            let read = format!("SELECT d, c, t, v, w FROM TABLE WHERE {key}");
            self.ask(&read).await;
        }
    }
}

pub(super) const ONE_REPLICA: &str = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
pub(super) const THREE_REPLICAS: &str = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
pub(super) const TABLETS: &str =
    "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3} AND tablets = {'enabled': true, 'initial': 8}";

pub(super) async fn create(client: &mut Client, twin: &Twin, replication: &str) {
    query(client, &format!("CREATE KEYSPACE k WITH replication = {replication}")).await;
    let Twin { columns, options, sharding, .. } = twin;
    query(client, &format!("CREATE TABLE {PLAIN} ({columns}) WITH {options}")).await;
    query(client, &format!("CREATE TABLE {SPREAD} ({columns}) WITH {options} AND write_sharding = {sharding}")).await;
    for table in [PLAIN, SPREAD] {
        query(client, &format!("CREATE INDEX ON {table} (w)")).await;
    }
}

#[test]
fn a_spread_table_answers_like_its_twin() {
    for (seed, at) in [(81, 0), (82, 1), (83, 2)] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
        run(&mut sim, move || async move {
            let twin = &TWINS[at];
            create(&mut client(ONE).await, twin, ONE_REPLICA).await;
            let mut twins = Twins::new(seed, twin.two_keys, Consistency::One).await;
            twins.run(400).await;
        });
    }
}

#[test]
fn conditional_changes_of_a_spread_table_are_decided_like_those_of_its_twin() {
    let seed = 84;
    let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, move || async move {
        create(&mut client(ONE).await, &TWINS[1], ONE_REPLICA).await;
        Twins::new(seed, false, Consistency::One).await.decide(80).await;
    });
}

/// Replicas agree on sub-partitions as on any partition; one of three may be down.
#[test]
fn a_spread_table_answers_like_its_twin_on_three_nodes_of_which_one_dies() {
    for (seed, at, replication) in [(85, 0, THREE_REPLICAS), (86, 1, TABLETS)] {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        for (node, shards) in [(ONE, 1), (TWO, 2), (THREE, 1)] {
            assert_eq!(start(&mut sim, node, shards, config(node)), []);
        }
        run(&mut sim, move || async move {
            let twin = &TWINS[at];
            create(&mut client(ONE).await, twin, replication).await;
            let mut twins = Twins::new(seed, twin.two_keys, Consistency::Quorum).await;
            twins.run(100).await;
        });
        sim.kill(THREE);
        run(&mut sim, move || async move {
            let twin = &TWINS[at];
            let mut twins = Twins::new(seed + 100, twin.two_keys, Consistency::Quorum).await;
            twins.run(100).await;
            if !twin.two_keys {
                twins.decide(20).await;
            }
        });
    }
}

const SHOWN: &str = "CREATE TABLE k.s (d date, title text, id int, PRIMARY KEY (d, title)) WITH write_sharding = \
                     {'shards': 20, 'by': ['title']}";

fn simple() -> String {
    format!("CREATE KEYSPACE k WITH replication = {ONE_REPLICA}")
}

/// The text of the error with which a statement is refused.
pub(super) async fn refused(client: &mut Client, text: &str, consistency: Consistency) -> String {
    match client.query(text, &QueryOptions { consistency, ..QueryOptions::default() }).await {
        Err(CallError::Failure { text, .. }) => text,
        other => panic!("{text}: {other:?}"),
    }
}

/// Clients see the logical key everywhere but in tokens, which are those of the places of rows.
#[test]
fn clients_see_the_logical_key_of_a_spread_table() {
    let mut sim = Sim::new(87, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        query(&mut client, &simple()).await;
        query(&mut client, SHOWN).await;
        let described = query(&mut client, "DESCRIBE TABLE k.s").await.rows;
        let described = String::from_utf8_lossy(described[0][3].as_deref().expect("a text")).into_owned();
        assert!(described.contains("\n    AND write_sharding = {'shards': 20, 'by': ['title']}"), "{described}");
        let columns = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'k' AND table_name = 's'";
        assert_eq!(query(&mut client, columns).await.rows.len(), 3);
        let insert = "INSERT INTO k.s (d, title, id) VALUES (?, ?, ?)";
        assert_eq!(client.prepare(insert).await.expect("valid").key_markers, [0; 0], "no partition has that token");
        for id in 0..200 {
            query(&mut client, &format!("INSERT INTO k.s (d, title, id) VALUES ('2026-11-27', 'title {id}', {id})"))
                .await;
        }
        let rows = query(&mut client, "SELECT d, shard_of(title, 20), token(d), title FROM k.s").await.rows;
        let mut tokens = std::collections::BTreeSet::new();
        for row in &rows {
            let [d, shard] = [0, 1].map(|at| row[at].as_deref().expect("a value"));
            let mut key = Vec::new();
            model::key::push_composite([d, &shard[2..]].into_iter(), &mut key);
            assert_eq!(model::Partitioner::Murmur3.token(&key).0, bigint(row, 2));
            tokens.insert(bigint(row, 2));
        }
        assert_eq!((rows.len(), tokens.len()), (200, 20));
        // Ranges of tokens have each row once.
        let mut found = Vec::new();
        for range in 0..7 {
            let [from, to] = [range, range + 1].map(|at| i128::from(i64::MIN) + (1_i128 << 64) * at / 7);
            let until = if range == 6 { String::new() } else { format!(" AND token(d) <= {to}") };
            let text = format!("SELECT title FROM k.s WHERE token(d) > {from}{until}");
            found.extend(query(&mut client, &text).await.rows);
        }
        found.sort();
        let mut all: Vec<_> = rows.into_iter().map(|row| row[3..].to_vec()).collect();
        all.sort();
        assert_eq!(found, all);
        let of_key = "SELECT title FROM k.s WHERE d = '2026-11-27'";
        assert_eq!(query(&mut client, of_key).await.rows, all, "in clustering order");
        let endpoints = tool(ONE, "getendpoints", &[], &["k", "s", "2026-11-27:19"]).await;
        assert_eq!(endpoints.trim(), Sim::address_of(ONE).to_string());
        tool(ONE, "flush", &[], &["k"]).await;
        let serial = "SELECT id FROM k.s WHERE d = '2026-11-27' AND title = 'title 7'";
        let options = QueryOptions { consistency: Consistency::Serial, ..QueryOptions::default() };
        let rows = client.query(serial, &options).await.expect("one sub-partition").rows;
        assert_eq!(rows, [[Some(7_i32.to_be_bytes().to_vec())]]);
        let text = refused(&mut client, of_key, Consistency::Serial).await;
        assert!(text.contains("table k.s has write_sharding"), "{text}");
    });
    sim.kill(ONE);
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        let count = query(&mut client, "SELECT count(*) FROM k.s WHERE d = '2026-11-27'").await.rows;
        assert_eq!(bigint(&count[0], 0), 200);
        let one = query(&mut client, "SELECT id FROM k.s WHERE d = '2026-11-27' AND title = 'title 9'").await.rows;
        assert_eq!(one, [[Some(9_i32.to_be_bytes().to_vec())]]);
    });
}

#[test]
fn what_spread_tables_cannot_do_is_refused_by_name() {
    let mut sim = Sim::new(88, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 1, config(ONE)), []);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        query(&mut client, &simple()).await;
        query(&mut client, SHOWN).await;
        let random = "write_sharding = {'shards': 4, 'mode': 'random'}";
        query(&mut client, &format!("CREATE TABLE k.r (a int, b int, c list<int>, PRIMARY KEY (a, b)) WITH {random}"))
            .await;
        let together = "so the rows of a key are not together";
        for (text, expected) in [
            ("SELECT DISTINCT d FROM k.s", together),
            ("SELECT * FROM k.s PER PARTITION LIMIT 2", together),
            ("SELECT d, count(*) FROM k.s GROUP BY d", together),
            ("SELECT d, count(*) FROM k.s WHERE token(d) > 4 GROUP BY d", together),
            ("SELECT * FROM k.s WHERE token(d) > token('2026-11-27')", "The token of values is not where rows"),
            ("SELECT * FROM k.s WHERE d = '2026-11-27' AND token(d) > 4", "restricted together with its token"),
            ("ALTER TABLE k.s ADD e int static", "column 'e' is static"),
            ("ALTER TABLE k.s WITH write_sharding = {'shards': 10, 'by': ['title']}", "there cannot be less"),
            (
                "ALTER TABLE k.s WITH write_sharding = {'shards': 50, 'by': ['title']}",
                "must be a multiple of those that table k.s has: 40, 60 and so on up to 1000",
            ),
            (
                "ALTER TABLE k.s WITH write_sharding = {'shards': 40, 'mode': 'random'}",
                "what chooses the sub-partition",
            ),
            (
                "BEGIN BATCH UPDATE k.s SET id = 1 WHERE d = '2026-11-27' AND title = 'a' IF id = 2; DELETE FROM k.s \
                 WHERE d = '2026-11-27' AND title > 'a'; APPLY BATCH",
                "must name a whole row",
            ),
            (
                "BEGIN BATCH UPDATE k.s SET id = 1 WHERE d = '2026-11-27' AND title = 'a' IF id = 2; UPDATE k.s SET \
                 id = 1 WHERE d = '2026-11-27' AND title = 'b'; APPLY BATCH",
                "cannot span multiple partitions",
            ),
            ("UPDATE k.r SET c = [1] WHERE a = 1 AND b = 2", "UPDATE cannot be used with table k.r"),
            ("DELETE c[0] FROM k.r WHERE a = 1 AND b = 2", "DELETE of elements of lists cannot be used"),
            ("INSERT INTO k.r (a, b) VALUES (1, 2) IF NOT EXISTS", "Conditional updates cannot be used"),
            ("DELETE FROM k.r WHERE a = 1 AND b = 2 IF EXISTS", "Conditional updates cannot be used"),
        ] {
            let found = refused(&mut client, text, Consistency::One).await;
            assert!(found.contains(expected), "{text}: {found}");
        }
    });
}

#[test]
fn rows_placed_by_chance_are_found_and_deleted() {
    let mut sim = Sim::new(89, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        query(&mut client, &simple()).await;
        let random = "write_sharding = {'shards': 5, 'mode': 'random'}";
        query(&mut client, &format!("CREATE TABLE k.r (a int, b int, c int, PRIMARY KEY (a, b)) WITH {random}")).await;
        for b in 0..100 {
            query(&mut client, &format!("INSERT INTO k.r (a, b, c) VALUES (1, {b}, {b})")).await;
        }
        // A driver that sends a row again may place it again.
        for _ in 0..20 {
            query(&mut client, "INSERT INTO k.r (a, b, c) VALUES (1, 50, 50)").await;
        }
        let places = query(&mut client, "SELECT token(a) FROM k.r").await.rows;
        let places: std::collections::BTreeSet<i64> = places.iter().map(|row| bigint(row, 0)).collect();
        assert_eq!(places.len(), 5);
        let int = |n: i32| Some(n.to_be_bytes().to_vec());
        let of = |range: std::ops::Range<i32>| range.map(|b| vec![int(b)]).collect::<Vec<_>>();
        assert_eq!(query(&mut client, "SELECT b FROM k.r WHERE a = 1").await.rows, of(0..100));
        assert_eq!(query(&mut client, "SELECT c FROM k.r WHERE a = 1 AND b = 50").await.rows, of(50..51));
        let last = query(&mut client, "SELECT b FROM k.r WHERE a = 1 AND b < 52 ORDER BY b DESC LIMIT 3").await.rows;
        assert_eq!(last, [51, 50, 49].map(|b| vec![int(b)]));
        let counted = query(&mut client, "SELECT count(*), count(c) FROM k.r WHERE a = 1").await.rows;
        assert_eq!([bigint(&counted[0], 0), bigint(&counted[0], 1)], [100, 100]);
        let mut options = QueryOptions { page_size: Some(17), ..QueryOptions::default() };
        let mut found = Vec::new();
        loop {
            let page = client.query("SELECT b FROM k.r WHERE a = 1", &options).await.expect("a page");
            found.extend(page.rows);
            options.paging_state = page.paging_state;
            if options.paging_state.is_none() {
                break;
            }
        }
        assert_eq!(found, of(0..100));
        query(&mut client, "DELETE FROM k.r WHERE a = 1 AND b = 50").await;
        query(&mut client, "DELETE FROM k.r WHERE a = 1 AND b >= 60").await;
        query(&mut client, "DELETE c FROM k.r WHERE a = 1 AND b = 10").await;
        let left = query(&mut client, "SELECT b, c FROM k.r WHERE a = 1").await.rows;
        assert_eq!(left.len(), 59);
        assert_eq!(left[10], [int(10), None]);
        query(&mut client, "DELETE FROM k.r WHERE a = 1").await;
        assert_eq!(query(&mut client, "SELECT b FROM k.r").await.rows.len(), 0);
    });
}

#[test]
fn counters_of_spread_tables_count() {
    let mut sim = Sim::new(90, Options { buggify: false, ..Options::default() });
    assert_eq!(start(&mut sim, ONE, 2, config(ONE)), []);
    run(&mut sim, || async {
        let mut client = client(ONE).await;
        query(&mut client, &simple()).await;
        let sharding = "write_sharding = {'shards': 9, 'by': ['t']}";
        query(&mut client, &format!("CREATE TABLE k.n (d int, t int, n counter, PRIMARY KEY (d, t)) WITH {sharding}"))
            .await;
        for time in 0..60 {
            query(&mut client, &format!("UPDATE k.n SET n = n + {time} WHERE d = 1 AND t = {}", time % 20)).await;
        }
        query(
            &mut client,
            "BEGIN COUNTER BATCH UPDATE k.n SET n = n + 100 WHERE d = 1 AND t = 3; UPDATE k.n SET n = n - 1 WHERE d = 1 \
             AND t = 4; APPLY BATCH",
        )
        .await;
        let rows = query(&mut client, "SELECT n FROM k.n WHERE d = 1").await.rows;
        let found: Vec<i64> = rows.iter().map(|row| bigint(row, 0)).collect();
        let mut expected: Vec<i64> = (0..20).map(|t| 3 * t + 60).collect();
        expected[3] += 100;
        expected[4] -= 1;
        assert_eq!(found, expected);
        let sum = query(&mut client, "SELECT sum(n) FROM k.n WHERE d = 1").await.rows;
        assert_eq!(bigint(&sum[0], 0), expected.iter().sum::<i64>());
    });
}
