//! `helenus nodetool`: parses a command as Cassandra's nodetool does, has the node run it, and prints the answer.
//!
//! Options may come before and after the command; an unknown option is taken for an argument. The exit code is 0, 1 for
//! a wrong command line or a node that cannot be reached, or 2 if the command failed.

mod commands;
mod help;

use commands::{ALIASES, Choice, Command, GLOBAL};
use server::admin::protocol::{ANSWER_BYTES_MAX, Answer, FOLLOW, GOES_ON, Request};
use server::admin::{paths, usage_text};
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

/// The default host.
const HOST: &str = "127.0.0.1";
/// The port in the message that a node cannot be reached.
const PORT: &str = "7199";

/// Runs `nodetool` with its arguments.
pub(crate) fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let answer = match parse(words.collect()) {
        Ok(Wanted::Help(text)) => Answer { exit: 0, out: text, err: String::new() },
        Ok(Wanted::Run(call)) => run_to_end(with_secrets(call)),
        Err(text) => Answer { exit: 1, out: usage_text(&text), err: String::new() },
    };
    // Output that cannot be printed is lost: there is nowhere else to report it.
    let _ = io::stdout().lock().write_all(answer.out.as_bytes()).and_then(|()| io::stdout().flush());
    let _ = io::stderr().lock().write_all(answer.err.as_bytes());
    ExitCode::from(answer.exit)
}

#[derive(Debug, PartialEq)]
enum Wanted {
    Help(String),
    Run(Call),
}

/// A command for a node.
#[derive(Debug, PartialEq)]
struct Call {
    host: String,
    port: String,
    request: Request,
}

fn parse(words: Vec<String>) -> Result<Wanted, String> {
    let (mut host, mut port) = (HOST.to_owned(), PORT.to_owned());
    let mut command: Option<&Command> = None;
    let mut request = Request::default();
    let mut is_help = false;
    let mut only_arguments = false;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let known = command.map_or(&[][..], |command| command.options);
        let own = command.map(|command| command.name).into_iter().flat_map(commands::own_options);
        let choices = known.iter().chain(GLOBAL).chain(own);
        let option = if only_arguments { None } else { find(choices, &word) };
        if let Some((choice, given)) = option {
            let value = match (choice.value, given) {
                (None, _) => String::new(),
                (Some(_), Some(given)) => given,
                (Some(value), None) => {
                    words.next().ok_or_else(|| format!("Required values for option '{value}' not provided"))?
                }
            };
            match choice.names[0] {
                "-h" => host = value,
                "-p" => port = value,
                name if GLOBAL.iter().any(|global| global.names[0] == name) => {}
                name => request.options.push((name.to_owned(), value)),
            }
        } else if word == "--" && !only_arguments && (command.is_some() || is_help) {
            only_arguments = true;
        } else if command.is_some() || is_help {
            request.arguments.push(word);
        } else if word == "help" {
            is_help = true;
        } else {
            let name = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word.as_str(), |(_, name)| name);
            command = Some(commands::named(name).ok_or_else(|| unexpected(&[word]))?);
        }
    }
    if is_help || command.is_none() {
        return match request.arguments.as_slice() {
            [] => Ok(Wanted::Help(help::overview())),
            [name, ..] => match commands::named(name) {
                Some(command) => Ok(Wanted::Help(help::of(command))),
                None => Ok(Wanted::Help(format!("Unknown command {name}\n"))),
            },
        };
    }
    if let Some(command) = command {
        request.command = command.name.into();
        if request.arguments.len() > command.arguments_max {
            return Err(unexpected(&request.arguments[command.arguments_max..]));
        }
    }
    Ok(Wanted::Run(Call { host, port, request }))
}

fn unexpected(words: &[String]) -> String {
    format!("Found unexpected parameters: [{}]", words.join(", "))
}

/// Returns the option that an argument names, and its value if the argument has the form `--name=value`.
fn find<'c>(mut choices: impl Iterator<Item = &'c Choice>, word: &str) -> Option<(&'c Choice, Option<String>)> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
        _ => (word, None),
    };
    let choice = choices.find(|choice| choice.names.contains(&name))?;
    (value.is_none() || choice.value.is_some()).then_some((choice, value))
}

/// Reads the password of a new role from standard input, so that neither the list of processes nor a history shows it.
/// An empty line leaves it to the node to make one up.
fn with_secrets(mut call: Call) -> Call {
    const OPTION: &str = "--role-password";
    if call.request.command == "createsuperuser" && !call.request.has(OPTION) {
        if io::stdin().is_terminal() {
            let _ = io::stderr().lock().write_all(b"Password (empty: one is made up): ");
        }
        let mut line = String::new();
        let _ = io::stdin().read_line(&mut line);
        call.request.options.push((OPTION.into(), line.trim_end_matches(['\n', '\r']).to_owned()));
    }
    call
}

/// Sends a command to the node, and prints what it says until it has ended. Returns the last part of its answer.
fn run_to_end(mut call: Call) -> Answer {
    loop {
        let answer = ask(&call);
        if answer.exit != GOES_ON {
            return answer;
        }
        // Output that cannot be printed is lost: there is nowhere else to report it.
        let _ = io::stdout().lock().write_all(answer.out.as_bytes()).and_then(|()| io::stdout().flush());
        let arguments = answer.err.split(' ').map(str::to_owned).collect();
        call.request = Request { command: FOLLOW.into(), options: Vec::new(), arguments };
    }
}

/// Sends a command to the node and returns its answer.
fn ask(call: &Call) -> Answer {
    let Call { host, port, request } = call;
    let failed = |name: &str, text: String| Answer {
        exit: 1,
        out: String::new(),
        err: format!("nodetool: Failed to connect to '{host}:{port}' - {name}: '{text}'.\n"),
    };
    let address = match host.as_str() {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => match host.parse::<IpAddr>() {
            Ok(address) => address,
            Err(_) => return failed("UnknownHostException", format!("Unknown host: {host}")),
        },
    };
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for path in paths(address) {
        match runtime::local::exchange(&path, &request.encode(), ANSWER_BYTES_MAX as u64) {
            Ok(bytes) => {
                return Answer::decode(&bytes).unwrap_or_else(|text| {
                    let err = format!("error: the node's answer cannot be read: {text}\n");
                    Answer { exit: 2, out: String::new(), err }
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused = error,
        }
    }
    match refused.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            failed("ConnectException", "Connection refused".into())
        }
        _ => failed("ConnectException", refused.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Wanted, String> {
        parse(words.iter().map(|word| word.to_string()).collect())
    }

    fn call(words: &[&str]) -> Call {
        match parsed(words) {
            Ok(Wanted::Run(call)) => call,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn options_stand_anywhere() {
        let told = call(&["-h", "127.0.0.9", "tablestats", "-F", "json", "ks.t", "-p", "7299", "-H", "--", "-x"]);
        assert_eq!((told.host.as_str(), told.port.as_str()), ("127.0.0.9", "7299"));
        assert_eq!(told.request.command, "tablestats");
        assert_eq!(told.request.options, [("-F".into(), "json".into()), ("-H".into(), String::new())]);
        assert_eq!(told.request.arguments, ["ks.t", "-x"]);
        let told = call(&["snapshot", "--tag=a b", "--kc.list", "ks.t"]);
        assert_eq!(told.request.options, [("-t".into(), "a b".into()), ("-kt".into(), "ks.t".into())]);
        assert_eq!(call(&["flush", "--nosuch"]).request.arguments, ["--nosuch"]);
    }

    #[test]
    fn mistakes_are_told_in_cassandras_words() {
        assert_eq!(parsed(&["nosuch"]), Err("Found unexpected parameters: [nosuch]".into()));
        assert_eq!(parsed(&["info", "foo"]), Err("Found unexpected parameters: [foo]".into()));
        assert_eq!(parsed(&["snapshot", "-t"]), Err("Required values for option 'tag' not provided".into()));
        assert!(matches!(parsed(&[]), Ok(Wanted::Help(_))));
        assert!(matches!(parsed(&["help", "flush"]), Ok(Wanted::Help(text)) if text.starts_with("NAME\n")));
    }
}
