//! Child processes whose output we read as it comes.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::time::{Human, Stopwatch};

/// How long a child may say nothing before we say that it still runs.
const SILENCE: Duration = Duration::from_secs(15);

/// What a running child does.
pub(crate) enum Progress<'a> {
    /// It wrote a line, to either output.
    Line(&'a str),
    /// It has written nothing for a while; the time since its start.
    Silent(Duration),
}

/// Runs `command` without standard input to its end. Both outputs are one pipe, so lines keep their order.
pub(crate) fn stream(mut command: Command, mut on: impl FnMut(Progress<'_>)) -> Result<ExitStatus> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("cannot clone a pipe")?).stderr(writer);
    let watch = Stopwatch::start();
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    // The command holds the pipe's other end: without this the reader would never see its end.
    drop(command);
    let (lines, received) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
        }
    });
    loop {
        match received.recv_timeout(SILENCE) {
            Ok(line) => on(Progress::Line(&line)),
            Err(RecvTimeoutError::Timeout) => on(Progress::Silent(watch.elapsed())),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // It ends with the pipe, and only a panic in it could make this an error: nothing is lost then.
    let _ = reading.join();
    child.wait().with_context(|| format!("cannot wait for `{name}`"))
}

/// Runs `command` to its end, showing only that it still runs; on failure the error holds the end of what it wrote.
pub(crate) fn run_quietly(command: Command, what: &str) -> Result<()> {
    const TAIL: usize = 40;
    let mut written: Vec<String> = Vec::new();
    let status = stream(command, |progress| match progress {
        Progress::Line(line) => written.push(line.to_owned()),
        Progress::Silent(since) => println!("     … {what}, {} so far", Human(since)),
    })?;
    if status.success() {
        return Ok(());
    }
    let tail = written[written.len().saturating_sub(TAIL)..].join("\n  ");
    bail!("{what} failed ({status}):\n  {tail}")
}

/// Runs `command` to its end and gives back what it wrote to standard output.
pub(crate) fn capture(mut command: Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cargo that started us, run from the workspace's root.
///
/// What it told us of our own package stays with us: the build script of ring looks at it, and would take a build from
/// here and one by hand for two different ones, each of which begins anew.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::metadata::root());
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|ours| name.to_string_lossy().starts_with(ours)) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_arrive_in_order() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let mut lines = Vec::new();
        let status = stream(command, |progress| {
            if let Progress::Line(line) = progress {
                lines.push(line.to_owned());
            }
        });
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(status.unwrap().code(), Some(3));
    }

    #[test]
    fn a_failure_shows_what_was_written() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo disk full >&2; exit 1"]);
        let error = run_quietly(command, "the build").unwrap_err().to_string();
        assert!(error.starts_with("the build failed") && error.contains("disk full"), "{error}");
    }
}
