//! Types of columns in the metadata of results.

use super::*;
use model::types::Component;

fn frozen(cql_type: CqlType) -> Box<CqlType> {
    Box::new(cql_type)
}

pub(super) fn all_types() -> Vec<CqlType> {
    use CqlType::*;
    let component = |cql_type| Component { cql_type, reversed: true };
    let composite = Composite(vec![component(Int), Component { cql_type: Text, reversed: false }]);
    vec![
        Ascii,
        Bigint,
        Blob,
        Boolean,
        Counter,
        Date,
        Decimal,
        Double,
        Duration,
        Float,
        Inet,
        Int,
        Smallint,
        Text,
        Time,
        Timestamp,
        Timeuuid,
        Tinyint,
        Uuid,
        Varint,
        List { element: frozen(Duration), frozen: false },
        Set { element: frozen(Date), frozen: false },
        Map { key: frozen(Text), value: frozen(List { element: frozen(Int), frozen: false }), frozen: false },
        Tuple(vec![Int, Tuple(vec![Text]), Duration]),
        LexicalUuid,
        List { element: Box::new(composite.clone()), frozen: false },
        CqlType::dynamic_composite(vec![(b's', component(composite)), (b'i', component(Int))]),
    ]
}

#[test]
fn every_type_comes_back_in_every_version() {
    let types = all_types();
    for version in VERSIONS {
        let columns = columns_of(&types);
        let rows =
            response::Rows { skip_metadata: false, new_metadata_id: None, paging_state: None, count: 0, bytes: &[] };
        let answer = answer(version, |out, to| response::rows(out, to, &[], &rows, &columns));
        let client::Response::Rows(rows) = answer.response else { panic!("rows") };
        let back = rows.columns.into_iter().map(|column| column.cql_type).collect::<Vec<_>>();
        assert_eq!(back, types, "{version}");
    }
}

#[test]
fn composite_types_are_sent_as_classes() {
    let (composite, _) = CqlType::parse_class("CompositeType(Int32Type,ReversedType(UTF8Type))").expect("a class");
    let mut out = Vec::new();
    wire::metadata::put_type(&mut out, Version::V5, &CqlType::List { element: composite.into(), frozen: false });
    let class = "org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.Int32Type,\
                 org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.UTF8Type))";
    assert_eq!(out, [&[0, 0x20, 0, 0][..], &(class.len() as u16).to_be_bytes(), class.as_bytes()].concat());
}

#[test]
fn duration_has_an_id_of_its_own_only_in_version_5() {
    let bytes = |version, cql_type: &CqlType| {
        let mut out = Vec::new();
        wire::metadata::put_type(&mut out, version, cql_type);
        out
    };
    let class = b"\0\0\0\x2eorg.apache.cassandra.db.marshal.DurationType";
    assert_eq!(bytes(Version::V4, &CqlType::Duration)[4..], class[4..]);
    assert_eq!(bytes(Version::V4, &CqlType::Duration)[..2], [0, 0]);
    assert_eq!(bytes(Version::V5, &CqlType::Duration), [0, 0x15]);
    assert_eq!(bytes(Version::V4, &CqlType::Date), [0, 0x11]);
    assert_eq!(bytes(Version::V3, &CqlType::Date)[..2], [0, 0]);
}
