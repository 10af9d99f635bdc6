//! Slow clients: readers that ask for much and hardly take it, writers that send a byte a second. Whoever is closed by
//! the server begins anew.
//!
//! A reader takes what one receive gives, once a second. The system does not tell a server of less: its window opens by
//! whole segments.

use super::SessionArguments;
use super::crowd::Crowd;
use crate::session::Session;
use model::QueryParameters;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tls::Stream;
use wire::Version;
use wire::client::put_request;
use wire::request::Request;
use wire::segment::SegmentWriter;

/// How often a slow client does something.
const TICK: Duration = Duration::from_secs(1);
/// Pause before a client begins anew.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);
/// Requests that a reader sends each time, as long as the server takes them.
const REQUESTS_AT_ONCE: i16 = 16;

/// Slow clients, until [`Slow::end`].
pub(super) struct Slow {
    crowd: Rc<Crowd>,
    settings: SessionArguments,
    readers: bool,
    before: Option<u64>,
    is_stopped: Rc<Cell<bool>>,
    /// How often the server has closed one.
    closed: Rc<Cell<usize>>,
    /// How often one could not connect.
    refused: Rc<Cell<usize>>,
    /// Bytes that readers have taken.
    taken: Rc<Cell<usize>>,
    tasks: Vec<runtime::JoinHandle<()>>,
}

impl Slow {
    /// Begins with as many readers, or writers, as the settings say.
    pub(super) fn begin(crowd: &Rc<Crowd>, readers: bool, settings: &SessionArguments) -> Slow {
        let mut slow = Slow {
            crowd: crowd.clone(),
            settings: settings.clone(),
            readers,
            before: crowd.resident(),
            is_stopped: Rc::default(),
            closed: Rc::default(),
            refused: Rc::default(),
            taken: Rc::default(),
            tasks: Vec::new(),
        };
        let count = if readers { settings.slow_readers } else { settings.slow_writers };
        slow.tasks = (0..count).map(|number| slow.client(number)).collect();
        slow
    }

    fn client(&self, number: usize) -> runtime::JoinHandle<()> {
        let (crowd, is_stopped, closed, refused) =
            (self.crowd.clone(), self.is_stopped.clone(), self.closed.clone(), self.refused.clone());
        let (readers, query, taken) = (self.readers, self.settings.slow_query.clone(), self.taken.clone());
        runtime::spawn(async move {
            while !is_stopped.get() {
                let lasted = match readers {
                    true => match crowd.reopen().await {
                        Ok(session) => {
                            read(session, &query, &is_stopped, &taken).await;
                            Ok(())
                        }
                        Err(text) => Err(text),
                    },
                    false if number.is_multiple_of(2) => match crowd.reopen().await {
                        Ok(session) => {
                            write_request(session, &query, &is_stopped).await;
                            Ok(())
                        }
                        Err(text) => Err(text),
                    },
                    false => match Session::connect(&crowd.next_address()).await {
                        Ok(stream) => {
                            write_startup(stream, &is_stopped).await;
                            Ok(())
                        }
                        Err(error) => Err(error.to_string()),
                    },
                };
                match lasted {
                    Ok(()) if is_stopped.get() => {}
                    Ok(()) => closed.set(closed.get() + 1),
                    Err(_) => refused.set(refused.get() + 1),
                }
                if !is_stopped.get() {
                    runtime::sleep(AGAIN_PAUSE).await;
                }
            }
        })
    }

    /// Ends all of them and tells what became of them.
    pub(super) async fn end(self) -> String {
        let after = self.crowd.resident();
        self.is_stopped.set(true);
        let count = self.tasks.len();
        for task in self.tasks {
            task.await;
        }
        let what = if self.readers { "readers" } else { "writers" };
        let (closed, refused) = (self.closed.get(), self.refused.get());
        let mut out = format!("{count} slow {what}: closed by the server {closed} times, refused {refused} times");
        if self.readers {
            out += &format!(", {} bytes read", self.taken.get());
        }
        out.push('\n');
        if let (Some(before), Some(after)) = (self.before, after) {
            out += &format!("memory of the server: {before} -> {after} bytes\n");
        }
        out
    }
}

/// Asks for rows again and again and takes one receive's worth a second, until the server closes the connection.
async fn read(session: Session, query: &str, is_stopped: &Cell<bool>, taken: &Cell<usize>) {
    let (stream, _, mut segments) = session.into_parts();
    let mut number = 0;
    loop {
        stream.pause();
        if stream.queued() == 0 {
            for _ in 0..REQUESTS_AT_ONCE {
                put_query(&stream, segments.as_mut(), number, query);
                number = number.checked_add(1).unwrap_or(0);
            }
        }
        runtime::sleep(TICK).await;
        if is_stopped.get() {
            return;
        }
        stream.resume();
        match stream.recv().await {
            Ok(Some(bytes)) => taken.set(taken.get() + bytes.len()),
            _ => return,
        }
    }
}

fn put_query(stream: &Stream, segments: Option<&mut SegmentWriter>, number: i16, query: &str) {
    let parameters = QueryParameters::new(model::Consistency::One);
    let request = Request::Query { text: query, parameters };
    stream.write(|out| match segments {
        Some(segments) => segments.write(out, |out| put_request(out, Version::V5, number, &request)),
        None => put_request(out, Version::V5, number, &request),
    });
}

/// Sends a request, one byte a second, until the server closes the connection.
async fn write_request(session: Session, query: &str, is_stopped: &Cell<bool>) {
    let (stream, _, _) = session.into_parts();
    let mut envelope = Vec::new();
    let parameters = QueryParameters::new(model::Consistency::One);
    put_request(&mut envelope, Version::V5, 0, &Request::Query { text: query, parameters });
    let mut bytes = Vec::new();
    wire::segment::put_segment(&mut bytes, &envelope, true);
    write_slowly(&stream, &bytes, is_stopped).await;
}

/// Sends the first message of a connection in the same way.
async fn write_startup(stream: Stream, is_stopped: &Cell<bool>) {
    let mut bytes = Vec::new();
    put_request(&mut bytes, Version::V5, 0, &Request::Startup(vec![("CQL_VERSION", "3.0.0")]));
    write_slowly(&stream, &bytes, is_stopped).await;
}

async fn write_slowly(stream: &Stream, bytes: &[u8], is_stopped: &Cell<bool>) {
    for byte in bytes.iter().cycle() {
        stream.write(|out| out.push(*byte));
        match runtime::timeout(TICK, stream.recv()).await {
            None => {}
            // An answer, if the message was whole.
            Some(Ok(Some(_))) => {}
            Some(_) => return,
        }
        if is_stopped.get() {
            return;
        }
    }
}
