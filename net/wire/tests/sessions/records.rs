//! What real drivers have sent in one session each, in the order in which it was sent, over all their connections.
//!
//! A file is a sequence of records: the number of a connection (1 byte), a length (4 bytes, big-endian), and that many
//! bytes, which the driver had sent before the server sent anything more. `seeds` of the fuzz crate reads them too.

/// The sessions by name: driver, version of the protocol, compression.
pub(crate) const SESSIONS: [(&str, &[u8]); 4] = [
    ("go-v4-snappy", include_bytes!("go-v4-snappy")),
    ("java-v5-none", include_bytes!("java-v5-none")),
    ("node-v4-none", include_bytes!("node-v4-none")),
    ("python-v5-lz4", include_bytes!("python-v5-lz4")),
];

/// The records of a file: connections and bytes.
pub(crate) fn records(file: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = file;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_first_chunk::<5>()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (bytes, after) = after.split_at(length);
        rest = after;
        Some((usize::from(head[0]), bytes))
    })
}
