//! The real binary as a child process, on an address and a directory of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A running node; killed on drop.
pub(crate) struct Node {
    child: Child,
    /// The address it listens on, without a port.
    pub(crate) address: &'static str,
}

impl Node {
    /// Starts the binary and waits for its line of readiness.
    pub(crate) fn start(address: &'static str, directory: &std::path::Path, extra: &[&str]) -> Node {
        let mut child = spawn(address, directory, extra, Stdio::inherit());
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = lines.next();
        assert!(matches!(ready, Some(Ok(_))), "the node did not get ready: {ready:?}");
        // Keeps the pipe open and empty for the node's lifetime.
        thread::spawn(move || lines.for_each(drop));
        Node { child, address }
    }

    /// Starts a node that refuses to run, and returns what it says about that.
    pub(crate) fn refused(address: &str, directory: &std::path::Path, extra: &[&str]) -> String {
        let mut child = spawn(address, directory, extra, Stdio::piped());
        let ready = BufReader::new(child.stdout.take().expect("piped")).lines().next();
        if ready.is_some() {
            child.kill().expect("killed");
        }
        let output = child.wait_with_output().expect("its output");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((ready.map(Result::ok), output.status.code()), (None, Some(1)), "{said}");
        said
    }

    /// The process's id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// SIGTERM, then the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let status = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(status.success());
        self.child.wait().expect("reaped").code()
    }
}

fn spawn(address: &str, directory: &std::path::Path, extra: &[&str], stderr: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_helenus"))
        .args(["--listen", address, "--memory", "1G", "--data-dir"])
        .arg(directory)
        .args(extra)
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("the binary starts")
}

impl Drop for Node {
    fn drop(&mut self) {
        // After `kill` or `stop` there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
