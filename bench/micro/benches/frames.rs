//! Measures encoding and decoding of native protocol messages: as envelopes (version 4) and in segments (version 5),
//! plain and compressed.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use model::value::{BoundValue, push_element};
use model::{ColumnSpec, Consistency, CqlType, QueryParameters};
use std::hint::black_box;
use wire::Version;
use wire::client::{Answer, put_request};
use wire::compression::Compression;
use wire::decoder::{Decoder, Event};
use wire::request::Request;
use wire::response::{self, Rows, To};
use wire::segment::SegmentWriter;

const NAMES: [&str; 6] = ["k", "c0", "c1", "c2", "c3", "c4"];
const VALUE: &[u8] = &[7; 34];

/// The version and compression of a connection.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Envelope,
    CompressedEnvelope,
    Segment,
    CompressedSegment,
}

const FORMS: [(&str, Form); 4] = [
    ("v4", Form::Envelope),
    ("v4 lz4", Form::CompressedEnvelope),
    ("v5", Form::Segment),
    ("v5 lz4", Form::CompressedSegment),
];

impl Form {
    fn version(self) -> Version {
        match self {
            Form::Envelope | Form::CompressedEnvelope => Version::V4,
            Form::Segment | Form::CompressedSegment => Version::V5,
        }
    }

    /// The compression of envelope bodies, if they are compressed.
    fn compression(self) -> Option<Compression> {
        (self == Form::CompressedEnvelope).then_some(Compression::Lz4)
    }

    fn decoder(self, mut decoder: Decoder) -> Decoder {
        decoder.agree(self.version());
        if self == Form::CompressedSegment {
            decoder.agree_compressed_segments();
        }
        decoder
    }

    /// Appends the envelope that `encode` appends.
    fn put(self, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Form::Envelope => encode(out),
            Form::CompressedEnvelope => {
                let start = out.len();
                encode(out);
                Compression::Lz4.seal(out, start);
            }
            Form::Segment => SegmentWriter::default().write(out, encode),
            Form::CompressedSegment => SegmentWriter::compressed().write(out, encode),
        }
    }
}

fn put_execute(form: Form, out: &mut Vec<u8>) {
    let parameters =
        QueryParameters { values: vec![BoundValue::Bytes(VALUE); 6], ..QueryParameters::new(Consistency::One) };
    let metadata = (form.version() >= Version::V5).then_some(&[2; 16][..]);
    let request = Request::Execute { id: &[1; 16], result_metadata_id: metadata, parameters };
    form.put(out, |out| put_request(out, form.version(), 1, &request));
}

fn columns() -> Vec<ColumnSpec> {
    let column = |name: &&str| ColumnSpec {
        keyspace: "k".into(),
        table: "t".into(),
        name: (*name).into(),
        cql_type: CqlType::Blob,
        class: None,
    };
    NAMES.iter().map(column).collect()
}

fn put_rows(form: Form, columns: &[ColumnSpec], bytes: &[u8], count: u32, out: &mut Vec<u8>) {
    let rows = Rows { skip_metadata: true, new_metadata_id: None, paging_state: None, count, bytes };
    form.put(out, |out| response::rows(out, To::new(form.version(), 1), &[], &rows, columns));
}

fn next(decoder: &mut Decoder, bytes: &[u8], form: Form) -> wire::envelope::Envelope {
    decoder.feed(bytes);
    let Some(Event::Envelope(mut envelope)) = decoder.next_event() else { panic!("a message") };
    if form.compression().is_some() {
        envelope.open(form.compression(), 1 << 20).expect("compressed");
    }
    envelope
}

fn frames(criterion: &mut Criterion) {
    let mut out = Vec::new();
    let mut group = criterion.benchmark_group("frames/decode EXECUTE");
    for (name, form) in FORMS {
        let mut bytes = Vec::new();
        put_execute(form, &mut bytes);
        let mut decoder = form.decoder(Decoder::server(Version::V3));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let envelope = next(&mut decoder, black_box(&bytes), form);
                let header = envelope.header;
                let request = Request::decode(header.version, header.opcode, header.flags, &envelope.body);
                let Ok(Request::Execute { parameters, .. }) = request else { panic!("EXECUTE") };
                parameters.values.len()
            });
        });
    }
    group.finish();
    let columns = columns();
    for rows in [1u32, 100] {
        let mut bytes = Vec::new();
        (0..rows as usize * NAMES.len()).for_each(|_| push_element(&mut bytes, Some(VALUE)));
        let mut group = criterion.benchmark_group(format!("frames/encode RESULT of {rows}"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for (name, form) in FORMS {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    out.clear();
                    put_rows(form, &columns, black_box(&bytes), rows, &mut out);
                });
            });
        }
        group.finish();
        let mut group = criterion.benchmark_group(format!("frames/decode RESULT of {rows}"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for (name, form) in FORMS {
            out.clear();
            put_rows(form, &columns, &bytes, rows, &mut out);
            let mut decoder = form.decoder(Decoder::client());
            group.bench_function(name, |bencher| {
                bencher.iter(|| Answer::decode(&next(&mut decoder, black_box(&out), form)).expect("an answer"));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, frames);
criterion_main!(benches);
