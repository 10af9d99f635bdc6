//! Checks the `compression` map of a table.

use super::table_options::OptionMap;
use model::Failure;
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, Failure>;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";
const CHUNK: &str = "chunk_length_in_kb";
/// Largest chunk length: 1 GiB in KiB.
const CHUNK_KIB_MAX: i64 = 1 << 20;

/// Checks the map as written and returns it in the form that Cassandra stores.
pub(crate) fn check(written: &OptionMap) -> Result<BTreeMap<String, String>> {
    let mut left: BTreeMap<&str, &str> = written.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut stored = BTreeMap::new();
    let disabled = left.remove("enabled").is_some_and(|on| !on.eq_ignore_ascii_case("true"));
    if disabled || written.is_empty() {
        if !left.is_empty() {
            return Err(Failure::config("If the 'enabled' option is set to false no other options must be specified"));
        }
        stored.insert("enabled".to_owned(), "false".to_owned());
        return Ok(stored);
    }
    let class = match left.remove("class") {
        None => return Err(Failure::config("Missing sub-option 'class' for the 'compression' option.")),
        Some("") => {
            return Err(Failure::config(
                "The 'class' option must not be empty. To disable compression use 'enabled' : false",
            ));
        }
        Some(class) if class.contains('.') => class.to_owned(),
        Some(class) => format!("{PACKAGE}{class}"),
    };
    stored.insert(CHUNK.to_owned(), chunk_kib(left.remove(CHUNK))?.to_string());
    let own: &[&str] = match class.strip_prefix(PACKAGE).unwrap_or(&class) {
        "LZ4Compressor" => &["lz4_compressor_type", "lz4_high_compressor_level"],
        "ZstdCompressor" => &["compression_level"],
        "SnappyCompressor" | "DeflateCompressor" | "NoopCompressor" => &[],
        _ => return Err(Failure::config(format!("Could not create Compression for type {class}"))),
    };
    stored.insert("class".to_owned(), class);
    if let Some(text) = left.remove("min_compress_ratio") {
        let ratio: f64 =
            text.parse().map_err(|_| Failure::config(format!("Invalid value for min_compress_ratio: {text}")))?;
        if ratio < 0.0 {
            return Err(Failure::config("Invalid negative min_compress_ratio"));
        }
        if ratio > 0.0 && ratio < 1.0 {
            return Err(Failure::config("min_compress_ratio can either be 0 or greater than or equal to 1"));
        }
        if ratio != 0.0 {
            stored.insert("min_compress_ratio".to_owned(), super::table_options::java_double(ratio));
        }
    }
    for name in own {
        if let Some(text) = left.remove(name) {
            check_own(name, text)?;
            stored.insert((*name).to_owned(), text.to_owned());
        }
    }
    match left.keys().next() {
        Some(unknown) => Err(Failure::config(format!("Unknown compression options {unknown}"))),
        None => Ok(stored),
    }
}

fn chunk_kib(text: Option<&str>) -> Result<i64> {
    let Some(text) = text else { return Ok(16) };
    let Ok(kib) = text.parse::<i32>().map(i64::from) else {
        return Err(Failure::config("Invalid value for chunk_length_in_kb"));
    };
    if kib > CHUNK_KIB_MAX {
        return Err(Failure::config(format!("Value of chunk_length_in_kb is too large ({text})")));
    }
    if kib <= 0 {
        return Err(Failure::config("Invalid negative or null chunk_length_in_kb"));
    }
    if kib & (kib - 1) != 0 {
        return Err(Failure::config("chunk_length_in_kb must be a power of 2"));
    }
    Ok(kib)
}

fn check_own(name: &str, text: &str) -> Result<()> {
    let number = text.parse::<i32>().ok();
    match name {
        "lz4_compressor_type" if !matches!(text, "fast" | "high") => Err(Failure::config(format!(
            "Invalid compressor type '{text}' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are \
             [high, fast]."
        ))),
        "lz4_high_compressor_level" if !number.is_some_and(|level| (1..=17).contains(&level)) => {
            Err(Failure::config(format!(
                "Invalid value [{text}] for parameter 'lz4_high_compressor_level'. Value must be between 1 and 17."
            )))
        }
        "compression_level" => match number {
            None => Err(Failure::config(format!(
                "ZstdCompressor.create() threw an error: java.lang.NumberFormatException For input string: \"{text}\""
            ))),
            Some(level) if !(-131_072..=22).contains(&level) => Err(Failure::config(format!(
                "ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException compression_level={text} is \
                 invalid"
            ))),
            Some(_) => Ok(()),
        },
        _ => Ok(()),
    }
}
