//! Received bytes to frames, in pieces of any size.
//!
//! 1. A head is given out as soon as it is whole and checked, so that the caller can find room for the body first, or
//!    skip it.
//! 2. A payload that one piece holds whole is given out of that piece; others are gathered.
//!
//! Invariants: at most one payload is gathered, never more than the limit; after damage nothing more is given out.

use super::compression::decompress;
use super::{Damage, HEAD_BYTES, Head};
use runtime::hash64;

/// The room that a gathered payload leaves behind at most.
const KEPT_BYTES: usize = 64 << 10;

/// Reads the frames of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    body_bytes_max: usize,
    /// The part of a head or payload that has arrived, if a piece ended in it.
    gathered: Vec<u8>,
    /// A body after decompression.
    plain: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Payload(Head),
    /// A body has been given out, which the buffers may hold.
    Given,
    /// So many bytes are passed over.
    Skipping(usize),
    Damaged(Damage),
}

/// What a piece of received bytes led to.
#[derive(PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// The piece is used up.
    Starved,
    /// A frame begins.
    Head(Head),
    /// The body of that frame.
    Body(&'a [u8]),
}

impl Decoder {
    /// A decoder for bodies of at most so many bytes.
    pub fn new(body_bytes_max: usize) -> Decoder {
        Decoder { body_bytes_max, gathered: Vec::new(), plain: Vec::new(), state: State::Head }
    }

    /// Takes bytes from the front of `input` up to the next step. Every head is followed by its body, unless the body
    /// is skipped.
    pub fn step<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Step<'s>, Damage> {
        if let State::Skipping(left) = self.state {
            let skipped = left.min(input.len());
            *input = &input[skipped..];
            self.state = if skipped == left { State::Head } else { State::Skipping(left - skipped) };
        }
        if let State::Given = self.state {
            self.release();
            self.state = State::Head;
        }
        let damage = match self.state {
            State::Head => match self.head(input) {
                Ok(step) => return Ok(step),
                Err(damage) => damage,
            },
            State::Payload(head) => match self.payload(head, input) {
                Ok(Payload::Incomplete) => return Ok(Step::Starved),
                Ok(Payload::Gathered) => return Ok(Step::Body(&self.gathered)),
                Ok(Payload::Plain) => return Ok(Step::Body(&self.plain)),
                Ok(Payload::InPiece(body)) => return Ok(Step::Body(body)),
                Err(damage) => damage,
            },
            State::Skipping(_) | State::Given => return Ok(Step::Starved),
            State::Damaged(damage) => damage,
        };
        self.state = State::Damaged(damage);
        Err(damage)
    }

    /// Passes over the body of the head that was just given out.
    pub fn skip(&mut self) {
        if let State::Payload(head) = self.state {
            self.state = State::Skipping(head.payload_bytes);
        }
    }

    fn head<'a>(&mut self, input: &mut &[u8]) -> Result<Step<'a>, Damage> {
        let head = if self.gathered.is_empty()
            && let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>()
        {
            *input = rest;
            Head::of(head)?
        } else {
            gather(&mut self.gathered, input, HEAD_BYTES);
            let Some(head) = self.gathered.first_chunk::<HEAD_BYTES>() else { return Ok(Step::Starved) };
            let head = Head::of(head)?;
            self.gathered.clear();
            head
        };
        if head.payload_bytes > self.body_bytes_max {
            return Err(Damage::TooLong);
        }
        self.state = State::Payload(head);
        Ok(Step::Head(head))
    }

    fn payload<'a>(&mut self, head: Head, input: &mut &'a [u8]) -> Result<Payload<'a>, Damage> {
        let mut in_piece = None;
        let payload = if self.gathered.is_empty()
            && let Some((payload, rest)) = input.split_at_checked(head.payload_bytes)
        {
            *input = rest;
            in_piece = Some(payload);
            payload
        } else {
            gather(&mut self.gathered, input, head.payload_bytes);
            if self.gathered.len() < head.payload_bytes {
                return Ok(Payload::Incomplete);
            }
            &self.gathered
        };
        if hash64(payload) != head.payload_hash {
            return Err(Damage::Corrupt);
        }
        self.state = State::Given;
        if head.compressed {
            decompress(payload, &mut self.plain, self.body_bytes_max)?;
            return Ok(Payload::Plain);
        }
        Ok(in_piece.map_or(Payload::Gathered, Payload::InPiece))
    }

    /// Empties the buffers and gives back what a large body made them grow by.
    fn release(&mut self) {
        for buffer in [&mut self.gathered, &mut self.plain] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
        }
    }
}

/// Where a body is.
enum Payload<'a> {
    Incomplete,
    Gathered,
    Plain,
    InPiece(&'a [u8]),
}

/// Moves bytes from `input` until `gathered` has `bytes`.
fn gather(gathered: &mut Vec<u8>, input: &mut &[u8], bytes: usize) {
    let missing = bytes.saturating_sub(gathered.len()).min(input.len());
    let (taken, rest) = input.split_at(missing);
    gathered.extend_from_slice(taken);
    *input = rest;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{COMPRESSED_BYTES_MIN, Envelope, Kind};
    use runtime::rng::Rng;

    const BODY_BYTES_MAX: usize = 100_000;

    /// A frame as it was sent: what is known of its head, and its body.
    type Sent = (Envelope, Vec<u8>);

    fn random_frames(rng: &mut Rng) -> (Vec<Sent>, Vec<u8>) {
        let mut bytes = Vec::new();
        let kinds = [Kind::Request, Kind::OneWay, Kind::Reply, Kind::Failure, Kind::Ping, Kind::Pong];
        let frames = (0..1 + rng.below(8)).map(|_| {
            let kind = kinds[rng.below(6) as usize];
            let verb = rng.below(256) as u8;
            let envelope = Envelope { kind, verb, id: rng.next_u64(), clock_micros: rng.next_u64() };
            let len = [0, 1, 39, 40, 41, 1000, 5000][rng.below(7) as usize] + rng.below(5);
            let letters = 1 + rng.below(200);
            let body: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
            (envelope, body)
        });
        let frames: Vec<Sent> = frames.collect();
        for (envelope, body) in &frames {
            let compressing = rng.below(2) == 0;
            assert_eq!(envelope.put(&mut bytes, compressing, |out| out.extend_from_slice(body)), body.len());
        }
        (frames, bytes)
    }

    /// Feeds `bytes` in pieces and returns the frames before the first damage.
    fn decode(rng: &mut Rng, bytes: &[u8], most: u64) -> (Vec<Sent>, Option<Damage>) {
        let mut decoder = Decoder::new(BODY_BYTES_MAX);
        let (mut frames, mut head) = (Vec::new(), None);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (mut piece, after) = rest.split_at((1 + rng.below(most) as usize).min(rest.len()));
            rest = after;
            loop {
                match decoder.step(&mut piece) {
                    Ok(Step::Starved) => break,
                    Ok(Step::Head(Head { kind, verb, id, clock_micros, .. })) => {
                        assert_eq!(head.replace(Envelope { kind, verb, id, clock_micros }), None);
                    }
                    Ok(Step::Body(body)) => frames.push((head.take().expect("a head first"), body.to_vec())),
                    Err(damage) => {
                        assert_eq!(decoder.step(&mut piece), Err(damage), "for good");
                        return (frames, Some(damage));
                    }
                }
            }
            assert!(piece.is_empty());
        }
        (frames, None)
    }

    #[test]
    fn frames_in_pieces_are_read_as_they_were_written() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let (frames, bytes) = random_frames(&mut rng);
            for most in [1, 50, 100_000] {
                assert_eq!(decode(&mut rng, &bytes, most), (frames.clone(), None), "seed {seed}");
            }
        }
    }

    #[test]
    fn every_damaged_byte_shows_before_its_body_is_given_out() {
        for seed in 0..500 {
            let mut rng = Rng::new(seed);
            let (frames, mut bytes) = random_frames(&mut rng);
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            let (read, damage) = decode(&mut rng, &bytes, 100);
            assert_eq!(damage, Some(Damage::Corrupt), "seed {seed}");
            assert_eq!(read, frames[..read.len()], "seed {seed}");
        }
    }

    #[test]
    fn any_bytes_end_in_damage_or_starve() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let bytes: Vec<u8> = (0..400).map(|_| rng.next_u64() as u8).collect();
            assert_eq!(decode(&mut rng, &bytes, 60), (Vec::new(), Some(Damage::Corrupt)));
        }
    }

    fn ping_of(body_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let envelope = Envelope { kind: Kind::Ping, verb: 0, id: 0, clock_micros: 0 };
        envelope.put(&mut bytes, false, |out| out.resize(out.len() + body_bytes, 3));
        bytes
    }

    #[test]
    fn a_payload_beyond_the_limit_is_refused_by_its_head() {
        let mut decoder = Decoder::new(BODY_BYTES_MAX);
        let longest = ping_of(BODY_BYTES_MAX);
        let mut input = &longest[..];
        assert!(matches!(decoder.step(&mut input), Ok(Step::Head(_))));
        assert!(matches!(decoder.step(&mut input), Ok(Step::Body(body)) if body.len() == BODY_BYTES_MAX));
        let longer = ping_of(BODY_BYTES_MAX + 1);
        let mut input = &longer[..HEAD_BYTES];
        assert_eq!(decoder.step(&mut input), Err(Damage::TooLong));
    }

    #[test]
    fn unknown_kinds_are_refused() {
        let mut bytes = ping_of(0);
        bytes[4] = 7;
        let hash = hash64(&bytes[..32]);
        bytes[32..40].copy_from_slice(&hash.to_le_bytes());
        assert_eq!(Decoder::new(10).step(&mut &bytes[..]), Err(Damage::Malformed));
    }

    #[test]
    fn a_skipped_body_is_passed_over_and_not_kept() {
        let mut bytes = ping_of(50_000);
        bytes.extend_from_slice(&ping_of(3));
        let mut decoder = Decoder::new(BODY_BYTES_MAX);
        let mut bodies = Vec::new();
        for piece in bytes.chunks(999) {
            let mut input = piece;
            loop {
                match decoder.step(&mut input).expect("sound") {
                    Step::Starved => break,
                    Step::Head(head) if head.payload_bytes == 50_000 => decoder.skip(),
                    Step::Head(_) => {}
                    Step::Body(body) => bodies.push(body.to_vec()),
                }
            }
            assert!(decoder.gathered.capacity() < 999);
        }
        assert_eq!(bodies, [[3; 3]]);
    }

    #[test]
    fn a_large_body_leaves_little_memory_behind() {
        let mut decoder = Decoder::new(BODY_BYTES_MAX);
        let bytes = ping_of(BODY_BYTES_MAX);
        for piece in bytes.chunks(1000) {
            let mut input = piece;
            while decoder.step(&mut input).expect("sound") != Step::Starved {}
        }
        assert!(decoder.gathered.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn bodies_are_compressed_from_their_least_length_on() {
        let written = |len: usize, compressing: bool| {
            let mut out = Vec::new();
            let envelope = Envelope { kind: Kind::Request, verb: 1, id: 2, clock_micros: 3 };
            envelope.put(&mut out, compressing, |out| out.resize(out.len() + len, 7));
            out.len() - HEAD_BYTES
        };
        assert_eq!(written(COMPRESSED_BYTES_MIN - 1, true), COMPRESSED_BYTES_MIN - 1);
        assert!(written(COMPRESSED_BYTES_MIN, true) < 100);
        assert_eq!(written(COMPRESSED_BYTES_MIN, false), COMPRESSED_BYTES_MIN);
    }
}
