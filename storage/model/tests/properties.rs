//! Laws that hold for random types, values, rows and mutations.

use model::Partitioner;
use model::arbitrary::{self, generator};
use model::comparable::{self, BoundSide};
use model::json::{self, Json};
use model::mutation::{
    CLUSTERING_BYTES_MAX, Clustering, MutationBuilder, Operation, TableUpdate, cut_out_row, cut_out_table,
    push_clustering, put_back_row, put_back_table,
};
use model::row::{Deletion, RowBuilder};

use model::{Column, CqlType, Mutation, TableId, text, value};
use std::cmp::Ordering;

/// Whether different bytes of a type's values are always different values, and their text loses nothing.
fn is_exact(cql_type: &CqlType) -> bool {
    !matches!(cql_type, CqlType::Decimal | CqlType::Varint | CqlType::Double | CqlType::Float)
}

#[test]
fn values_are_valid_and_equal_to_themselves() {
    let mut below = generator(1);
    for _ in 0..6000 {
        let cql_type = arbitrary::cql_type(&mut below);
        let value = arbitrary::value(&cql_type, &mut below);
        assert_eq!(value::validate(&cql_type, &value), Ok(()), "{cql_type} {value:02x?}");
        assert_eq!(value::compare(&cql_type, &value, &value), Ordering::Equal, "{cql_type} {value:02x?}");
    }
}

#[test]
fn comparable_forms_sort_as_values() {
    let mut below = generator(2);
    for _ in 0..2000 {
        let cql_type = arbitrary::key_type(&mut below);
        let values: Vec<_> = (0..8).map(|_| arbitrary::value(&cql_type, &mut below)).collect();
        for a in &values {
            for b in &values {
                let order = value::compare(&cql_type, a, b);
                assert_eq!(order, value::compare(&cql_type, b, a).reverse(), "{cql_type} {a:02x?} {b:02x?}");
                for reversed in [false, true] {
                    let form = |value: &[u8]| {
                        let mut out = Vec::new();
                        comparable::encode(&cql_type, value, reversed, &mut out);
                        out
                    };
                    let (a_form, b_form) = (form(a), form(b));
                    // A value without a form sorts by its separator.
                    if a_form.is_empty() || b_form.is_empty() {
                        continue;
                    }
                    let expected = if reversed { order.reverse() } else { order };
                    assert_eq!(a_form == b_form, order.is_eq(), "{cql_type} {a_form:02x?} {b_form:02x?}");
                    // The order must not depend on the separator or terminator that follows.
                    for (a_next, b_next) in [(0x20, 0x60), (0x60, 0x20), (0x38, 0x38)] {
                        let followed = [&a_form[..], &[a_next]].concat().cmp(&[&b_form[..], &[b_next]].concat());
                        assert!(order.is_eq() || followed == expected, "{cql_type} {a_form:02x?} {b_form:02x?}");
                    }
                }
            }
        }
    }
}

#[test]
fn clusterings_sort_by_component_and_bounds_enclose_their_prefix() {
    let mut below = generator(3);
    for _ in 0..1000 {
        let table = arbitrary::table("k", "t", &mut below);
        let rows: Vec<Vec<u8>> =
            (0..6).map(|_| arbitrary::clustering(&table, table.clustering_len, &mut below)).collect();
        let form = |row: &[u8]| {
            let mut out = Vec::new();
            comparable::clustering(&table, Clustering(row).components(), &mut out);
            out
        };
        let compare = |a: &[u8], b: &[u8], len: usize| {
            let pairs = Clustering(a).components().zip(Clustering(b).components()).take(len);
            let mut orders = pairs.zip(table.clustering()).map(|((a, b), column)| {
                let order = value::compare(&column.cql_type, a, b);
                if column.descending { order.reverse() } else { order }
            });
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        for a in &rows {
            for b in &rows {
                assert_eq!(form(a).cmp(&form(b)), compare(a, b, usize::MAX), "{a:02x?} {b:02x?}");
                for len in 0..=table.clustering_len {
                    let bound = |side| {
                        let mut out = Vec::new();
                        comparable::bound(&table, Clustering(a).components().take(len), side, &mut out);
                        out
                    };
                    let (before, after) = (bound(BoundSide::Before), bound(BoundSide::After));
                    let (from_before, from_after) = match compare(b, a, len) {
                        Ordering::Less => (Ordering::Less, Ordering::Less),
                        Ordering::Equal => (Ordering::Greater, Ordering::Less),
                        Ordering::Greater => (Ordering::Greater, Ordering::Greater),
                    };
                    assert_eq!(form(b).cmp(&before), from_before, "{a:02x?} {b:02x?} {len}");
                    assert_eq!(form(b).cmp(&after), from_after, "{a:02x?} {b:02x?} {len}");
                }
            }
        }
    }
}

#[test]
fn bounds_tell_their_values_where_forms_can_be_read() {
    let mut below = generator(5);
    let mut told = 0;
    for _ in 0..4000 {
        let table = arbitrary::table("k", "t", &mut below);
        let row = arbitrary::clustering(&table, table.clustering_len, &mut below);
        let len = below(table.clustering_len as u64 + 1) as usize;
        let side = if below(2) == 0 { BoundSide::Before } else { BoundSide::After };
        let bound = |clustering: &[u8]| {
            let mut out = Vec::new();
            comparable::bound(&table, Clustering(clustering).components().take(len), side, &mut out);
            out
        };
        let is_read = |column: &Column| {
            use CqlType::*;
            let is_nested = matches!(column.cql_type, List { .. } | Set { .. } | Map { .. } | Tuple(_) | User { .. });
            !is_nested
                && !matches!(
                    column.cql_type,
                    Vector { .. } | Composite(_) | DynamicComposite(_) | Decimal | Varint | Empty
                )
        };
        let form = bound(&row);
        match comparable::prefix_of(&table, &form) {
            Some((prefix, found)) => {
                assert_eq!((bound(&prefix), found), (form, side), "{row:02x?}");
                assert_eq!(Clustering(&prefix).components().count(), len);
                told += 1;
            }
            None => assert!(!table.clustering().iter().take(len).all(is_read), "{:?} {row:02x?}", table.clustering()),
        }
        let bytes: Vec<u8> = (0..below(12)).map(|_| below(256) as u8).collect();
        // Whatever bytes are no form do not matter, and do not panic.
        let _ = comparable::prefix_of(&table, &bytes);
    }
    assert!(told > 2000, "{told}");
}

#[test]
fn any_bytes_are_ordered_and_shown() {
    let mut below = generator(4);
    for _ in 0..6000 {
        let cql_type = arbitrary::cql_type(&mut below);
        let mut bytes = || -> Vec<u8> {
            let mut value = arbitrary::value(&cql_type, &mut below);
            match below(4) {
                0 => value.truncate(below(1 + value.len() as u64) as usize),
                1 => value.push(below(256) as u8),
                2 => {
                    value = (0..below(20)).map(|_| *arbitrary::pick(&[0, 0, 0, 1, 4, 0x80, 0xff], &mut below)).collect()
                }
                _ => {}
            }
            value
        };
        let (a, b, c) = (bytes(), bytes(), bytes());
        let order = |a: &[u8], b: &[u8]| value::compare(&cql_type, a, b);
        assert_eq!(order(&a, &b), order(&b, &a).reverse(), "{cql_type} {a:02x?} {b:02x?}");
        if order(&a, &b).is_le() && order(&b, &c).is_le() {
            assert!(order(&a, &c).is_le(), "{cql_type} {a:02x?} {b:02x?} {c:02x?}");
        }
        let _ = value::validate(&cql_type, &a);
        let _ = text::to_literal(&cql_type, &a);
        let _ = json::to_json(&cql_type, &a);
        comparable::encode(&cql_type, &a, below(2) == 0, &mut Vec::new());
    }
}

#[test]
fn literals_read_back() {
    let mut below = generator(5);
    for _ in 0..6000 {
        let cql_type = arbitrary::scalar_type(&mut below);
        let value = arbitrary::value(&cql_type, &mut below);
        let literal = text::to_literal(&cql_type, &value);
        if literal == "null" || literal.is_empty() {
            continue;
        }
        let quoted = literal.strip_prefix('\'').and_then(|literal| literal.strip_suffix('\''));
        let read = match quoted {
            Some(inner) => text::from_quoted(&cql_type, &inner.replace("''", "'")),
            None => text::from_bare(&cql_type, &literal),
        };
        // Not every year has a literal that can be read, and an IPv4-mapped address is read as IPv4.
        let lossy = matches!(cql_type, CqlType::Timestamp) && (literal.starts_with("'+") || value[0] >= 0x80)
            || matches!(cql_type, CqlType::Decimal) && value.starts_with(&i32::MIN.to_be_bytes());
        if lossy {
            continue;
        }
        let read = read.unwrap_or_else(|error| panic!("{cql_type} {literal}: {}", error.0));
        let equal = if is_exact(&cql_type) { read == value } else { value::compare(&cql_type, &read, &value).is_eq() };
        assert!(equal, "{cql_type} {value:02x?} {literal} {read:02x?}");
    }
}

/// Whether JSON loses nothing of the type's values: no decimals, which pass through doubles, no infinite numbers, and
/// no composite values, whose text does not show all bytes.
fn has_exact_json(cql_type: &CqlType) -> bool {
    use CqlType::*;
    match cql_type {
        Decimal | Double | Float | Timestamp | Composite(_) | DynamicComposite(_) => false,
        List { element, .. } | Set { element, .. } | Vector { element, .. } => has_exact_json(element),
        Map { key, value, .. } => has_exact_json(key) && has_exact_json(value),
        Tuple(types) => types.iter().all(has_exact_json),
        User { definition, .. } => definition.field_types().all(has_exact_json),
        _ => true,
    }
}

#[test]
fn json_reads_back() {
    let mut below = generator(11);
    let mut exact = 0;
    for _ in 0..8000 {
        let cql_type = arbitrary::cql_type(&mut below);
        let value = arbitrary::value(&cql_type, &mut below);
        let shown = json::to_json(&cql_type, &value);
        // Empty values are written as the empty text, even for types that have none.
        let empty = shown.replace('\\', "").contains("\"\"");
        assert!(Json::parse(&shown).is_ok(), "{cql_type} {shown}");
        let read = json::from_json(&cql_type, &shown);
        if let (Ok(Some(read)), false) = (&read, empty) {
            assert_eq!(value::validate(&cql_type, read), Ok(()), "{cql_type} {shown} {read:02x?}");
        }
        // An empty tuple has nulls in JSON.
        if has_exact_json(&cql_type) && !empty && !shown.contains("null") {
            exact += 1;
            let read = read.unwrap_or_else(|error| panic!("{cql_type} {shown}: {}", error.0)).expect("not null");
            assert!(value::compare(&cql_type, &value, &read).is_eq(), "{cql_type} {value:02x?} {shown} {read:02x?}");
        }
    }
    assert!(exact > 2000, "only {exact}");
}

#[test]
fn damaged_json_is_read_or_refused() {
    let mut below = generator(12);
    for _ in 0..20_000 {
        let cql_type = arbitrary::cql_type(&mut below);
        let value = arbitrary::value(&cql_type, &mut below);
        let mut damaged: Vec<char> = json::to_json(&cql_type, &value).chars().collect();
        for _ in 0..below(4) {
            let at = below(1 + damaged.len() as u64) as usize;
            match below(3) {
                0 => damaged.truncate(at),
                1 => damaged
                    .insert(at, *arbitrary::pick(&['"', '\\', '[', '}', ',', ':', '-', '1', 'é', '\n'], &mut below)),
                _ if at < damaged.len() => {
                    damaged.remove(at);
                }
                _ => {}
            }
        }
        let damaged: String = damaged.into_iter().collect();
        // Empty texts are empty values even for types that have none.
        let empty = damaged.replace('\\', "").contains("\"\"");
        if let (Ok(Some(read)), false) = (json::from_json(&cql_type, &damaged), empty) {
            assert_eq!(value::validate(&cql_type, &read), Ok(()), "{cql_type} {damaged} {read:02x?}");
        }
    }
}

#[test]
fn classes_are_read_or_refused() {
    let mut below = generator(13);
    for _ in 0..20_000 {
        let mut class: Vec<char> = arbitrary::cql_type(&mut below).class_name().chars().collect();
        for _ in 0..1 + below(3) {
            let at = below(class.len() as u64) as usize;
            match below(3) {
                0 => class.truncate(at + 1),
                1 => class.insert(at, *arbitrary::pick(&['(', ')', ',', ':', ' ', 'é', '0'], &mut below)),
                _ => class[at] = *arbitrary::pick(&['(', ')', ',', ':', ' ', 'é', '0'], &mut below),
            }
        }
        let _ = CqlType::parse_class(&class.into_iter().collect::<String>());
    }
}

#[test]
fn random_text_is_read_or_refused() {
    let mut below = generator(6);
    let alphabet: Vec<char> = "0123456789-+:.TZPYMDHWmsuneE xabf%[]µé'".chars().collect();
    for _ in 0..20_000 {
        let cql_type = arbitrary::cql_type(&mut below);
        let literal: String = (0..below(24)).map(|_| *arbitrary::pick(&alphabet, &mut below)).collect();
        for read in [text::from_quoted(&cql_type, &literal), text::from_bare(&cql_type, &literal)].into_iter().flatten()
        {
            let valid = read.is_empty() || value::validate(&cql_type, &read).is_ok();
            assert!(valid, "{cql_type} {literal} {read:02x?}");
        }
    }
}

#[test]
fn type_names_read_back() {
    let mut below = generator(7);
    for _ in 0..5000 {
        let cql_type = arbitrary::cql_type(&mut below);
        let user_types = cql_type.references();
        let user_type = |name: &str| user_types.iter().find(|found| found.name == name).map(|&found| found.clone());
        assert_eq!(CqlType::parse_in(&cql_type.to_string(), &user_type).as_ref(), Some(&cql_type));
        let (read, reversed) = CqlType::parse_class(&cql_type.class_name()).expect("a class");
        assert!(!reversed && read.class_name() == cql_type.class_name(), "{cql_type} {read}");
        // Classes do not say which fields of a frozen user type are frozen.
        assert!(!user_types.is_empty() || read == cql_type, "{cql_type} {read}");
        let name: String =
            (0..below(30)).map(|_| *arbitrary::pick(&['<', '>', ',', ' ', 'a', 'é'], &mut below)).collect();
        let _ = CqlType::parse(&name);
        let _ = CqlType::parse(&format!("frozen<{name}>"));
    }
}

#[test]
fn mutations_decode_to_themselves() {
    let mut below = generator(8);
    for _ in 0..3000 {
        let tables: Vec<_> = (0..2).map(|i| arbitrary::table("k", &format!("t{i}"), &mut below)).collect();
        let mutation = arbitrary::mutation(&tables.iter().collect::<Vec<_>>(), &mut below);
        let decoded = Mutation::decode(Partitioner::Murmur3, mutation.bytes().to_vec()).expect("well formed");
        assert_eq!(decoded, mutation);
        assert_eq!(decoded.key(), mutation.key());
    }
}

#[test]
fn the_table_of_a_mutation_is_cut_out_and_put_back() {
    let mut below = generator(11);
    let mut cut = 0;
    for _ in 0..3000 {
        let tables: Vec<_> = (0..2).map(|i| arbitrary::table("k", &format!("t{i}"), &mut below)).collect();
        let mutation = arbitrary::mutation(&tables.iter().collect::<Vec<_>>(), &mut below);
        let Some((head, table, body)) = cut_out_table(mutation.bytes()) else {
            assert_ne!(mutation.updates().count(), 1);
            continue;
        };
        assert_eq!(mutation.updates().map(|update| update.table).collect::<Vec<_>>(), [table]);
        let mut whole = vec![9];
        put_back_table(&[head, body].concat(), table, &mut whole).expect("a key");
        assert_eq!(whole[1..], *mutation.bytes());
        cut += 1;
    }
    assert!(cut > 500, "only {cut} of one table");
    for bytes in [&[][..], &[1], &[1, 5], &[1, 5, 0, 0]] {
        let mut out = Vec::new();
        assert_eq!((cut_out_table(bytes), put_back_table(bytes, TableId([0; 16]), &mut out)), (None, None));
        assert!(out.is_empty());
    }
}

#[test]
fn a_row_is_cut_out_and_put_back() {
    let mut below = generator(12);
    let mut cut = 0;
    for _ in 0..3000 {
        let table = arbitrary::table("k", "t", &mut below);
        let mutation = arbitrary::mutation(&[&table], &mut below);
        let updates: Vec<_> = mutation.updates().collect();
        let only_a_row = |update: &TableUpdate<'_>| {
            let operations: Vec<_> = update.operations().collect();
            update.partition_deletion.is_live() && matches!(operations[..], [Operation::Row { .. }])
        };
        let expected = updates.len() == 1 && only_a_row(&updates[0]);
        let found = cut_out_row(mutation.bytes());
        assert_eq!(found.is_some(), expected);
        let Some((id, pieces)) = found else { continue };
        let mut whole = vec![9];
        put_back_row(&pieces.concat(), id, &mut whole).expect("a key and a clustering");
        assert_eq!((id, &whole[1..]), (table.id, mutation.bytes()));
        cut += 1;
    }
    assert!(cut > 100, "only {cut} of one row");
    for bytes in [&[][..], &[1], &[1, 0, 5], &[1, 0, 5, 0], &[1, 0, 5, 1, 0]] {
        let mut out = Vec::new();
        assert_eq!((cut_out_row(bytes), put_back_row(bytes, TableId([0; 16]), &mut out)), (None, None));
        assert!(out.is_empty());
    }
}

#[test]
fn a_row_with_a_clustering_too_long_for_its_length_is_not_cut_out() {
    for (last, is_cut) in [(CLUSTERING_BYTES_MAX - 4, true), (CLUSTERING_BYTES_MAX - 3, false)] {
        let mut clustering = Vec::new();
        push_clustering(&mut clustering, &[]);
        push_clustering(&mut clustering, &vec![7; last]);
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"key");
        builder.table(TableId([1; 16])).row(Clustering(&clustering), |out| {
            RowBuilder::new(out, None, Deletion::LIVE);
        });
        assert_eq!(cut_out_row(builder.finish().bytes()).is_some(), is_cut);
    }
}

#[test]
fn damaged_mutations_are_refused_or_read_without_panic() {
    let mut below = generator(9);
    let mut refused = 0;
    for _ in 0..6000 {
        let table = arbitrary::table("k", "t", &mut below);
        let mut bytes = arbitrary::mutation(&[&table], &mut below).into_bytes();
        for _ in 0..1 + below(3) {
            let at = below(bytes.len() as u64) as usize;
            match below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = *arbitrary::pick(&[0, 1, 2, 4, 8, 0x7f, 0x80, 0xff], &mut below),
                2 => bytes.insert(at, below(256) as u8),
                _ => bytes[at] ^= 1 << below(8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let Ok(mutation) = Mutation::decode(Partitioner::Murmur3, bytes.clone()) else {
            refused += 1;
            continue;
        };
        // What was accepted is complete to its last byte.
        let mut builder = model::MutationBuilder::new(model::Partitioner::Murmur3, mutation.key());
        for update in mutation.updates() {
            builder.table(update.table);
            builder.delete_partition(update.partition_deletion);
            for operation in update.operations() {
                match operation {
                    model::mutation::Operation::Row { clustering, row } => {
                        assert!(model::row::RowView::parse(row.blob()).is_ok());
                        builder.row(clustering, |out| out.extend_from_slice(row.blob()));
                    }
                    model::mutation::Operation::StaticRow { row } => {
                        assert!(model::row::RowView::parse(row.blob()).is_ok());
                        builder.static_row(|out| out.extend_from_slice(row.blob()));
                    }
                    model::mutation::Operation::RangeDeletion { start, end, deletion } => {
                        builder.delete_range(start, end, deletion);
                    }
                }
            }
        }
        assert_eq!(builder.finish().bytes(), bytes);
    }
    assert!(refused > 2000, "only {refused} refused");
}

#[test]
fn schemas_name_their_tables() {
    let mut below = generator(10);
    for _ in 0..200 {
        let schema = arbitrary::schema(&mut below);
        for (id, table) in &schema.tables {
            assert_eq!(schema.table(&table.keyspace, &table.name).map(|table| table.id), Some(*id));
        }
    }
}
