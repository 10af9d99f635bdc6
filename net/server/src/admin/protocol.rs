//! The messages between `helenus nodetool` and a node: one request and one answer per connection.
//!
//! ```text
//! request  "HADM"  version u8  command string  options u16 (name string, value string)*  arguments u16 string*
//! answer   "HADM"  version u8  exit u8  output string  errors string
//! string   bytes u32, UTF-8
//! ```
//! Numbers are big-endian. The client keeps its sending direction open until it has the answer: if that ends before,
//! nobody waits for the answer. The node shuts down its own after the answer. A message of another version is refused.

/// The exit code of an answer that is not the last: the command goes on, and the errors are the arguments with which
/// the command [`FOLLOW`] gives what comes next.
pub const GOES_ON: u8 = 255;
/// The command that gives the next part of an answer.
pub const FOLLOW: &str = "follow";
/// The version that both sides speak.
pub const VERSION: u8 = 1;
/// The longest request, bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// The longest answer, bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The most options, and the most arguments, of a request.
pub const WORDS_MAX: usize = 4096;

const MAGIC: &[u8; 4] = b"HADM";

/// A command with its options and arguments, as the caller wrote it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The command's name.
    pub command: String,
    /// Options and their values in the order given, each under the first of its names. A flag has an empty value.
    pub options: Vec<(String, String)>,
    /// The words that are not options.
    pub arguments: Vec<String>,
}

/// What a command printed, and its exit code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The exit code of nodetool.
    pub exit: u8,
    /// For standard output.
    pub out: String,
    /// For standard error.
    pub err: String,
}

impl Request {
    /// The request's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = head();
        put(&mut out, &self.command);
        out.extend_from_slice(&(self.options.len() as u16).to_be_bytes());
        for (name, value) in &self.options {
            put(&mut out, name);
            put(&mut out, value);
        }
        out.extend_from_slice(&(self.arguments.len() as u16).to_be_bytes());
        self.arguments.iter().for_each(|argument| put(&mut out, argument));
        out
    }

    /// Reads a whole request. The error says what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Request, &'static str> {
        let mut input = Input::open(bytes, REQUEST_BYTES_MAX)?;
        let command = input.string()?;
        let options = (0..input.count()?).map(|_| Ok((input.string()?, input.string()?))).collect::<Result<_, _>>()?;
        let arguments = (0..input.count()?).map(|_| input.string()).collect::<Result<_, _>>()?;
        input.end()?;
        Ok(Request { command, options, arguments })
    }

    /// Whether a flag was given.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| name == option)
    }

    /// The value of an option; the last one counts.
    pub fn option(&self, option: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| name == option).map(|(_, value)| value.as_str())
    }
}

impl Answer {
    /// The answer's bytes. An answer that is too long is replaced by an error.
    pub fn encode(&self) -> Vec<u8> {
        if self.out.len() + self.err.len() > ANSWER_BYTES_MAX - 64 {
            let err = format!("error: more than {ANSWER_BYTES_MAX} bytes of output\n");
            return Answer { exit: 2, out: String::new(), err }.encode();
        }
        let mut out = head();
        out.push(self.exit);
        put(&mut out, &self.out);
        put(&mut out, &self.err);
        out
    }

    /// Reads a whole answer. The error says what is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Answer, &'static str> {
        let mut input = Input::open(bytes, ANSWER_BYTES_MAX)?;
        let answer = Answer { exit: input.byte()?, out: input.string()?, err: input.string()? };
        input.end()?;
        Ok(answer)
    }
}

fn head() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(VERSION);
    out
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The bytes that are still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn open(bytes: &'a [u8], bytes_max: usize) -> Result<Input<'a>, &'static str> {
        if bytes.len() > bytes_max {
            return Err("too long");
        }
        let mut input = Input(bytes);
        if input.take(MAGIC.len())? != MAGIC {
            return Err("not a message of nodetool");
        }
        if input.byte()? != VERSION {
            return Err("nodetool and node are of different versions");
        }
        Ok(input)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        self.take(1)?.first().copied().ok_or("cut off")
    }

    fn count(&mut self) -> Result<usize, &'static str> {
        let count = usize::from(self.byte()?) << 8 | usize::from(self.byte()?);
        if count > WORDS_MAX { Err("too many words") } else { Ok(count) }
    }

    fn string(&mut self) -> Result<String, &'static str> {
        let len = self.take(4)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| "not UTF-8")?;
        Ok(text.to_owned())
    }

    fn end(self) -> Result<(), &'static str> {
        if self.0.is_empty() { Ok(()) } else { Err("more than one message") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arguments: usize) -> Request {
        Request {
            command: "tablestats".into(),
            options: vec![("-F".into(), "json".into()), ("-H".into(), String::new())],
            arguments: vec!["ks.ü".into(); arguments],
        }
    }

    #[test]
    fn messages_come_back() {
        let sent = request(2);
        assert_eq!(Request::decode(&sent.encode()), Ok(sent.clone()));
        assert_eq!((sent.option("-F"), sent.option("-t"), sent.has("-H")), (Some("json"), None, true));
        let answer = Answer { exit: 2, out: "a\n".into(), err: "b".into() };
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn damaged_messages_are_refused() {
        let bytes = request(2).encode();
        for cut in 0..bytes.len() {
            assert!(Request::decode(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            // Damaged bytes may be refused or give another text, but must not panic.
            let _ = Request::decode(&damaged);
        }
        let mut newer = bytes.clone();
        newer[4] += 1;
        assert_eq!(Request::decode(&newer), Err("nodetool and node are of different versions"));
        assert_eq!(Request::decode(&[&bytes[..], b"x"].concat()), Err("more than one message"));
    }

    #[test]
    fn lengths_are_bounded() {
        assert!(Request::decode(&request(WORDS_MAX).encode()).is_ok());
        assert_eq!(Request::decode(&request(WORDS_MAX + 1).encode()), Err("too many words"));
        let mut long = Request { command: "x".repeat(REQUEST_BYTES_MAX - 13), ..Request::default() };
        assert_eq!(long.encode().len(), REQUEST_BYTES_MAX);
        assert!(Request::decode(&long.encode()).is_ok());
        long.command.push('x');
        assert_eq!(Request::decode(&long.encode()), Err("too long"));
        let whole = Answer { exit: 0, out: "x".repeat(ANSWER_BYTES_MAX - 64), err: String::new() };
        assert_eq!(Answer::decode(&whole.encode()), Ok(whole.clone()));
        let longer = Answer { err: "x".into(), ..whole };
        assert_eq!(Answer::decode(&longer.encode()).map(|answer| answer.exit), Ok(2));
    }
}
