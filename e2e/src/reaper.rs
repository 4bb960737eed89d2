//! Nothing outlives the test run.
//!
//! A test's processes are killed when it drops them. That does not happen when the test process itself is killed
//! (Ctrl-C, a time limit): each test process therefore has one small shell that reads from it which process groups
//! live and which directories are in use. When the pipe ends, for whatever reason, it kills and removes what is left
//! and ends too.

use std::fmt::Display;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
groups=' '
directories=
kept='|'
while read -r verb what; do
  case $verb in
    guard) groups="$groups$what " ;;
    release) groups="${groups%% $what *} ${groups#* $what }" ;;
    remove) directories="$directories$what
" ;;
    keep) kept="$kept$what|" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
printf %s "$directories" | while read -r directory; do
  case $kept in
    *"|$directory|"*) ;;
    *) rm -rf -- "$directory" || { sleep 1; rm -rf -- "$directory"; } ;;
  esac
done
"#;

static REAPER: OnceLock<Mutex<Child>> = OnceLock::new();

/// Kills the group when this process ends.
pub(crate) fn guard(group: u32) {
    tell("guard", group);
}

/// Forgets the group. To be called before its leader is waited for: afterwards its number may be someone else's.
pub(crate) fn release(group: u32) {
    tell("release", group);
}

/// Removes the directory when this process ends, unless it is gone or [`keep`] was called.
pub(crate) fn remove(directory: &Path) {
    tell("remove", directory.display());
}

/// Lets the directory stay.
pub(crate) fn keep(directory: &Path) {
    tell("keep", directory.display());
}

fn tell(verb: &str, what: impl Display) {
    let reaper = REAPER.get_or_init(|| Mutex::new(start()));
    let mut reaper = reaper.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = reaper.stdin.as_mut().expect("its standard input is piped");
    // Without the reaper the drops still clean up, so its loss must not fail a test (or abort a drop).
    let _ = pipe.write_all(format!("{verb} {what}\n").as_bytes());
}

/// In a group of its own: a Ctrl-C is meant for the tests, and the reaper has to outlive them.
fn start() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT]).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("cannot start the reaper: {error}"))
}
