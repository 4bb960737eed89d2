//! A process under test.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::patience::Deadline;
use crate::reaper;

/// How often we look whether a process has ended.
const POLL: Duration = Duration::from_millis(5);

/// How long the kernel may take to bury a process after `kill -9`.
const BURIAL: Duration = Duration::from_secs(30);

/// How many lines of each log a failure shows.
const TAIL: usize = 40;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ended itself with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// A running binary: leader of a process group of its own, its output in files.
///
/// It stays a zombie after its end until this is dropped, so its number is nobody else's while we may still send
/// signals. Dropping kills the whole group.
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command`, with output to `NAME.stdout` and `NAME.stderr` in `directory` (an earlier run's move to
    /// `….previous`).
    ///
    /// # Panics
    /// When it cannot start.
    #[must_use]
    #[track_caller]
    pub fn spawn(name: &str, mut command: Command, directory: &Path) -> Self {
        let log = |stream: &str| {
            let path = directory.join(format!("{name}.{stream}"));
            // Absent the first time, and then there is nothing to keep.
            let _ = fs::rename(&path, directory.join(format!("{name}.{stream}.previous")));
            let file = File::create(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
            (path, file)
        };
        let ((stdout, stdout_file), (stderr, stderr_file)) = (log("stdout"), log("stderr"));
        command.stdout(stdout_file).stderr(stderr_file).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        reaper::guard(child.id());
        let pid = Pid::from_child(&child);
        Self { name: name.to_owned(), child, pid, stdout, stderr }
    }

    /// Its process id, which is also its group's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// When the system does not know our child.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options)
            .unwrap_or_else(|error| panic!("cannot ask for the state of {}: {error}", self.name))?;
        status.exit_status().map(Exit::Code).or_else(|| status.terminating_signal().map(Exit::Signal))
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it still runs after `allowed`.
    #[track_caller]
    pub fn wait(&self, allowed: Duration) -> Exit {
        match self.try_wait(allowed) {
            Some(exit) => exit,
            None => panic!("{} still runs after {allowed:?}\n{self}", self.name),
        }
    }

    /// Waits for its end; nothing if it still runs after `allowed`.
    #[must_use]
    pub fn try_wait(&self, allowed: Duration) -> Option<Exit> {
        let deadline = Deadline::after(allowed);
        loop {
            let exit = self.exit();
            if exit.is_some() || !deadline.wait(POLL) {
                return exit;
            }
        }
    }

    /// Waits for its end, and that it is `expected`.
    ///
    /// # Panics
    /// When it still runs after `allowed`, or ended otherwise.
    #[track_caller]
    pub fn assert_exit(&self, expected: Exit, allowed: Duration) {
        let exit = self.wait(allowed);
        assert!(exit == expected, "{} ended with {exit}, not {expected}\n{self}", self.name);
    }

    /// Asks it to stop (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Types Ctrl-C at it (SIGINT to its group).
    pub fn interrupt(&self) {
        // An empty group has nobody to interrupt.
        let _ = kill_process_group(self.pid, Signal::INT);
    }

    /// `kill -9` of this process alone, and waits for its end. Its children live on; they die with the drop.
    #[track_caller]
    pub fn kill9(&self) {
        self.signal(Signal::KILL);
        self.wait(BURIAL);
    }

    /// Waits until it has written a line to standard output that begins with `prefix`, and gives it back.
    ///
    /// # Panics
    /// When it ends before, or has not written it after `allowed`.
    #[track_caller]
    pub fn wait_for_line(&self, prefix: &str, allowed: Duration) -> String {
        let deadline = Deadline::after(allowed);
        loop {
            // Asked first: what a process wrote before its end is then there to read.
            let exit = self.exit();
            let written = self.stdout();
            let complete = written.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = complete.map(str::trim_end).find(|line| line.starts_with(prefix)) {
                return line.to_owned();
            }
            if let Some(exit) = exit {
                panic!("{} ended with {exit} before it wrote `{prefix}…`\n{self}", self.name);
            }
            if !deadline.wait(POLL) {
                panic!("{} has not written `{prefix}…` after {allowed:?}\n{self}", self.name);
            }
        }
    }

    /// What it has written to standard output.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    fn signal(&self, signal: Signal) {
        // A zombie takes signals, so this fails only if there is no such process: not before the drop.
        let _ = kill_process(self.pid, signal);
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The end of its logs, as failures show it.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in [&self.stdout, &self.stderr] {
            let text = read(path);
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL)..];
            writeln!(f, "---- {} ({} lines)", path.display(), lines.len())?;
            tail.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("name", &self.name).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{self}");
        }
        // The order matters: while the leader is not waited for, the group's number cannot be someone else's.
        let _ = kill_process_group(self.pid, Signal::KILL);
        reaper::release(self.pid());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    const SOON: Duration = Duration::from_secs(10);

    fn shell(script: &str, scratch: &Scratch) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn("shell", command, scratch.path())
    }

    #[test]
    fn exits_are_told_apart() {
        let scratch = Scratch::new("process");
        shell("exit 3", &scratch).assert_exit(Exit::Code(3), SOON);
        let sleeping = shell("exec sleep 100", &scratch);
        assert_eq!(sleeping.exit(), None);
        sleeping.kill9();
        assert_eq!(sleeping.exit(), Some(Exit::Signal(9)));
        assert_eq!(sleeping.exit(), Some(Exit::Signal(9)), "asking does not bury it");
        let polite = shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", &scratch);
        polite.wait_for_line("up", SOON);
        polite.terminate();
        polite.assert_exit(Exit::Code(0), SOON);
    }

    #[test]
    fn children_die_with_the_drop() {
        let scratch = Scratch::new("process");
        let parent = shell("sleep 100 & echo child $!; wait", &scratch);
        let line = parent.wait_for_line("child ", SOON);
        let child: i32 = line["child ".len()..].parse().unwrap();
        parent.kill9();
        let child = Pid::from_raw(child).unwrap();
        assert!(rustix::process::test_kill_process(child).is_ok(), "the child outlives its parent");
        drop(parent);
        crate::eventually("the child's end", SOON, || match is_running(child) {
            false => Ok(()),
            true => Err("it still runs"),
        });
    }

    /// An orphan that nobody waits for yet may stay a zombie for a while: that is an end too.
    fn is_running(pid: Pid) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }

    #[test]
    fn a_process_that_ends_is_not_waited_for() {
        let scratch = Scratch::new("process");
        let waiting = || shell("echo starting; exit 1", &scratch).wait_for_line("ready", SOON);
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(waiting)).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("ended with exit code 1 before it wrote `ready"), "{message}");
        assert!(message.contains("starting"), "the logs are shown: {message}");
    }

    /// Where the sacrificed test run writes whom it started.
    const SACRIFICE: &str = "CONCERT_E2E_SACRIFICE";

    /// What runs in the process that the test kills.
    fn be_sacrificed(note: &Path) {
        let scratch = Scratch::new("sacrifice");
        let child = shell("exec sleep 100", &scratch);
        fs::write(note, format!("{} {}\n", child.pid(), scratch.path().display())).unwrap();
        child.wait(Duration::from_secs(100));
    }

    #[test]
    fn a_killed_test_run_leaves_nothing_behind() {
        if let Some(note) = std::env::var_os(SACRIFICE) {
            return be_sacrificed(Path::new(&note));
        }
        let scratch = Scratch::new("process");
        let note = scratch.path().join("note");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "process::tests::a_killed_test_run_leaves_nothing_behind", "--nocapture"])
            .env(SACRIFICE, &note);
        let run = Process::spawn("run", command, scratch.path());
        let text = crate::eventually("the note", SOON, || match read(&note) {
            text if text.ends_with('\n') => Ok(text),
            _ => Err(run.to_string()),
        });
        let (child, directory) = text.trim_end().split_once(' ').unwrap();
        let child = Pid::from_raw(child.parse().unwrap()).unwrap();
        assert!(is_running(child));
        run.kill9();
        crate::eventually("the child's end", SOON, || if is_running(child) { Err("it still runs") } else { Ok(()) });
        let is_gone = || if Path::new(directory).exists() { Err(directory) } else { Ok(()) };
        crate::eventually("its directory's end", SOON, is_gone);
    }
}
