//! Composite values as Cassandra reads, writes and orders them.

use super::*;
use crate::text::{from_quoted, to_plain};
use crate::value::compare;

fn composite(class: &str) -> CqlType {
    CqlType::parse_class(class).expect("a class").0
}

fn hex(text: &str) -> Vec<u8> {
    from_quoted(&CqlType::Blob, text).expect("hex")
}

fn error(cql_type: &CqlType, bytes: &str) -> String {
    validate(cql_type, &hex(bytes)).expect_err("bytes that are no value").0
}

#[test]
fn bytes_that_are_no_value_have_cassandras_errors() {
    let plain = composite("CompositeType(Int32Type,UTF8Type)");
    for valid in ["", "ffff", "ffff00040000000bff", "00040000000b01", "00040000000b0000017800", "000000"] {
        assert_eq!(validate(&plain, &hex(valid)), Ok(()), "{valid}");
    }
    for (bytes, text) in [
        ("00040000000b000001780000", "Too many bytes for comparator"),
        ("00040000000b0100017800", "Invalid bytes remaining after an end-of-component at component0"),
        ("ff", "Not enough bytes to read value size of component 0"),
        ("0004000000", "Not enough bytes to read value of component 0"),
        ("00040000000b", "Not enough bytes to read the end-of-component byte of component0"),
        ("000300000b00", "Expected 4 or 0 byte int (3)"),
        ("0000000001ff00", "String didn't validate."),
    ] {
        assert_eq!(error(&plain, bytes), text, "{bytes}");
    }
    let dynamic = composite("DynamicCompositeType(s=>UTF8Type,i=>Int32Type)");
    for valid in ["", "806900040000000500", "ff690004000000050080730000ff", "0009496e743332547970650004000000050000"] {
        let whole = valid.ends_with("0000").then(|| format!("{valid}000001ff00"));
        assert_eq!(validate(&dynamic, &hex(whole.as_deref().unwrap_or(valid))), Ok(()), "{valid}");
    }
    for (bytes, text) in [
        ("80", "Not enough bytes to header of the comparator part of component 0"),
        ("0009496e743332", "Not enough bytes to read comparator name of component 0"),
        ("0001780000", "Cannot find comparator for component 0"),
        ("80780000", "Cannot find comparator for component 0"),
        ("0001ff0000", "Cannot find comparator for component 0"),
    ] {
        assert_eq!(error(&dynamic, bytes), text, "{bytes}");
    }
}

#[test]
fn texts_come_back() {
    let plain = composite("CompositeType(Int32Type,UTF8Type)");
    for (text, bytes) in [
        ("1:x", "0004000000010000017800"),
        ("2:x\\:y\\!", "000400000002000004783a795c00"),
        ("3", "00040000000300"),
        ("4:", "00040000000400000000"),
        ("6:_", "000400000006ff"),
        ("6:!", "00040000000601"),
        ("8:!a!!", "00040000000800000321612100"),
        ("", ""),
    ] {
        assert_eq!(from_quoted(&plain, text), Ok(hex(bytes)), "{text}");
        assert_eq!(to_plain(&plain, &hex(bytes)), text);
    }
    // What follows an end is ignored.
    assert_eq!(from_quoted(&plain, "6:_:x"), Ok(hex("000400000006ff")));
    for wrong in ["!", "1:x:y", "x:1"] {
        assert!(from_quoted(&plain, wrong).is_err(), "{wrong}");
    }
    let longest = "x".repeat(usize::from(u16::MAX));
    assert!(from_quoted(&plain, &format!("1:{longest}")).is_ok());
    assert!(from_quoted(&plain, &format!("1:{longest}x")).is_err());

    let dynamic = composite("DynamicCompositeType(s=>UTF8Type,i=>Int32Type)");
    for text in ["s@x:i@5", "UTF8Type@x\\:y:Int32Type@5:!", "s@:i@", "i@5:@00ff", "ReversedType(Int32Type)@5:_"] {
        let bytes = from_quoted(&dynamic, text).expect(text);
        assert_eq!(validate(&dynamic, &bytes), Ok(()), "{text}");
        assert_eq!(to_plain(&dynamic, &bytes), text);
    }
    for wrong in ["q@1", "i@x", "i@1@2", "@"] {
        assert!(from_quoted(&dynamic, wrong).is_err(), "{wrong}");
    }
    let name = "x".repeat(usize::from(IS_ALIAS));
    assert!(from_quoted(&dynamic, &format!("{name}@1")).is_err());
}

#[test]
fn values_sort_by_their_components() {
    let sorted = |class: &str, texts: &[&str]| {
        let cql_type = composite(class);
        let values: Vec<_> = texts.iter().map(|text| from_quoted(&cql_type, text).expect("a value")).collect();
        for pair in values.windows(2) {
            assert!(compare(&cql_type, &pair[0], &pair[1]).is_lt(), "{class}: {pair:x?}");
            assert!(compare(&cql_type, &pair[1], &pair[0]).is_gt(), "{class}: {pair:x?}");
        }
    };
    sorted("CompositeType(Int32Type,ReversedType(UTF8Type))", &["", "-1:z", "1:_", "1", "1:y", "1:x", "1:", "1:!"]);
    // An empty number comes last in reversed order.
    sorted("CompositeType(ReversedType(Int32Type))", &["5", "-5", ":!"]);
    let class = "DynamicCompositeType(s=>UTF8Type,i=>Int32Type,r=>ReversedType(Int32Type),t=>ReversedType(UTF8Type))";
    sorted(class, &["", "i@-5:r@7", "i@-5:r@1", "i@5:_", "i@5", "i@5:s@a", "i@5:!", "r@2", "r@1", "t@2", "s@", "s@x"]);
    let dynamic = composite(class);
    let [alias, class] = ["i@5", "Int32Type@5"].map(|text| from_quoted(&dynamic, text).expect("a value"));
    assert!(compare(&dynamic, &alias, &class).is_eq());
}

#[test]
fn classes_in_values_have_a_limit() {
    let nested = |levels: usize| format!("{}Int32Type{}", "TupleType(".repeat(levels), ")".repeat(levels));
    assert!(named(&nested(NAMED_CLASS_DEPTH_MAX)).is_some());
    assert!(named(&nested(NAMED_CLASS_DEPTH_MAX + 1)).is_none());
    assert!(named("TupleType(DynamicCompositeType(i=>Int32Type))").is_none());
    // A value that names such classes inside each other, as deep as its length admits, is refused at the first.
    let dynamic = composite("DynamicCompositeType");
    let mut value = Vec::new();
    for _ in 0..2000 {
        let class = b"DynamicCompositeType";
        let len = (value.len() as u16).to_be_bytes();
        value = [&[0, class.len() as u8][..], class, &len, &value, &[0]].concat();
    }
    assert_eq!(validate(&dynamic, &value).expect_err("nested").0, "Cannot find comparator for component 0");
}

#[test]
fn aliases_are_written_in_the_order_of_a_hash_table() {
    for (given, written) in [
        ("(s=>UTF8Type,i=>Int32Type)", "si"),
        ("(p=>Int32Type,P=>UTF8Type,0=>Int32Type,a=>Int32Type,A=>Int32Type,q=>Int32Type)", "pP0aAq"),
        ("(P=>Int32Type,p=>Int32Type,p=>UTF8Type)", "Pp"),
    ] {
        let dynamic = composite(&format!("DynamicCompositeType{given}"));
        let CqlType::DynamicComposite(aliases) = &dynamic else { panic!("{dynamic}") };
        let order: String = aliases.iter().map(|(alias, _)| char::from(*alias)).collect();
        assert_eq!(order, written, "{given}");
        assert_eq!(composite(&dynamic.class_name()), dynamic);
    }
}
