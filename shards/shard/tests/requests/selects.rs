//! Random SELECTs compared with their meaning, in one piece and in pages.

use super::world::{World, number};

/// A small random generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }

    fn value(&mut self, end: i64) -> i64 {
        self.below(end as u64) as i64
    }

    fn operator(&mut self) -> &'static str {
        ["<", "<=", ">", ">=", "="][self.below(5) as usize]
    }
}

fn compare<T: Ord>(left: T, operator: &str, right: T) -> bool {
    match operator {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => left == right,
    }
}

/// The columns a, b, c, v.
type Row = [i64; 4];
type Condition = Box<dyn Fn(&Row) -> bool>;

const PARTITIONS: i64 = 9;
const VALUES: i64 = 4;
const SHARDS: usize = 3;

/// A random relation on column `at`, as text and as its meaning.
fn relation(dice: &mut Dice, at: usize, end: i64) -> (String, Condition) {
    let name = ["a", "b", "c", "v"][at];
    if dice.below(3) == 0 {
        let wanted: Vec<i64> = (0..=dice.below(3)).map(|_| dice.value(end)).collect();
        let shown: Vec<String> = wanted.iter().map(i64::to_string).collect();
        return (format!("{name} IN ({})", shown.join(", ")), Box::new(move |row| wanted.contains(&row[at])));
    }
    let (operator, value) = (dice.operator(), dice.value(end));
    (format!("{name} {operator} {value}"), Box::new(move |row| compare(row[at], operator, value)))
}

struct Query {
    text: String,
    conditions: Vec<Condition>,
    /// Whether keys come in their own order instead of by token.
    by_key: bool,
    reversed: bool,
    per_partition: usize,
    limit: usize,
}

fn query(dice: &mut Dice, table: &str) -> Query {
    let mut relations = Vec::new();
    let one_key = dice.below(2) == 0;
    let mut by_key = false;
    if one_key {
        let key = dice.value(PARTITIONS);
        relations.push((format!("a = {key}"), Box::new(move |row: &Row| row[0] == key) as Condition));
        by_key = true;
    } else if dice.below(2) == 0 {
        let (text, condition) = relation(dice, 0, PARTITIONS);
        by_key = text.contains("IN") || text.contains(" = ");
        relations.push((text, condition));
    }
    match dice.below(4) {
        0 => {
            let (operator, b, c) = (dice.operator(), dice.value(VALUES), dice.value(VALUES));
            let meaning = move |row: &Row| compare((row[1], row[2]), operator, (b, c));
            relations.push((format!("(b, c) {operator} ({b}, {c})"), Box::new(meaning)));
        }
        1 => {
            let tuples: Vec<(i64, i64)> =
                (0..2 + dice.below(2)).map(|_| (dice.value(VALUES), dice.value(VALUES))).collect();
            let shown: Vec<String> = tuples.iter().map(|(b, c)| format!("({b}, {c})")).collect();
            let meaning = move |row: &Row| tuples.contains(&(row[1], row[2]));
            relations.push((format!("(b, c) IN ({})", shown.join(", ")), Box::new(meaning)));
        }
        _ => {
            for at in [1, 2] {
                if dice.below(2) == 0 {
                    relations.push(relation(dice, at, VALUES));
                }
            }
        }
    }
    if dice.below(2) == 0 {
        relations.push(relation(dice, 3, 10));
    }
    let reversed = one_key && dice.below(2) == 0;
    let mut some_limit = |end: u64| if dice.below(2) == 0 { 1 + dice.below(end) as usize } else { usize::MAX };
    let (per_partition, limit) = (some_limit(5), some_limit(30));
    let mut text = format!("SELECT a, b, c, v FROM k.{table}");
    let mut conditions = Vec::new();
    for (at, (relation, condition)) in relations.into_iter().enumerate() {
        text.push_str(if at == 0 { " WHERE " } else { " AND " });
        text.push_str(&relation);
        conditions.push(condition);
    }
    if reversed {
        text.push_str(if table == "mixed" { " ORDER BY b ASC" } else { " ORDER BY b DESC" });
    }
    if per_partition < usize::MAX {
        text.push_str(&format!(" PER PARTITION LIMIT {per_partition}"));
    }
    if limit < usize::MAX {
        text.push_str(&format!(" LIMIT {limit}"));
    }
    text.push_str(" ALLOW FILTERING");
    Query { text, conditions, by_key, reversed, per_partition, limit }
}

/// The rows that a query must return; `all` has all rows in the order of tokens.
fn expected(query: &Query, all: &[Row]) -> Vec<Row> {
    let mut rows = all.to_vec();
    if query.by_key {
        rows.sort_by_key(|row| row[0]);
    }
    if query.reversed {
        rows.reverse();
    }
    rows.retain(|row| query.conditions.iter().all(|condition| condition(row)));
    let mut found: Vec<Row> = Vec::new();
    let mut in_partition = 0;
    for row in rows {
        in_partition = if found.last().is_some_and(|last| last[0] == row[0]) { in_partition } else { 0 };
        if in_partition < query.per_partition && found.len() < query.limit {
            in_partition += 1;
            found.push(row);
        }
    }
    found
}

fn read(world: &mut World, text: &str, page_size: i32) -> Vec<Row> {
    let pages = world.pages(text, page_size);
    assert!(pages.iter().all(|page| page.len() <= page_size as usize), "{text}");
    let row = |row: &super::world::Row| [0, 1, 2, 3].map(|at| number(&row[at]));
    pages.iter().flatten().map(row).collect()
}

#[test]
fn random_selects_mean_what_they_say() {
    let mut world = World::start(SHARDS);
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    let mut dice = Dice(7);
    for (table, order) in [("plain", ""), ("mixed", " WITH CLUSTERING ORDER BY (b DESC, c ASC)")] {
        world.run_query(&format!("CREATE TABLE k.{table} (a int, b int, c int, v int, PRIMARY KEY (a, b, c)){order}"));
        for a in 0..PARTITIONS {
            for b in 0..VALUES {
                for c in 0..VALUES {
                    if dice.below(4) > 0 {
                        let v = dice.value(10);
                        let insert = format!("INSERT INTO k.{table} (a, b, c, v) VALUES ({a}, {b}, {c}, {v})");
                        world.run_query(&insert);
                    }
                }
            }
        }
        let all = read(&mut world, &format!("SELECT a, b, c, v FROM k.{table}"), 10_000);
        assert!(all.len() > 80);
        for _ in 0..300 {
            let query = query(&mut dice, table);
            let expected = expected(&query, &all);
            for page_size in [10_000, 1 + dice.below(4) as i32, 5 + dice.below(20) as i32] {
                assert_eq!(read(&mut world, &query.text, page_size), expected, "{} in {page_size}", query.text);
            }
        }
    }
}
