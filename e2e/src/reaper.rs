//! Nothing outlives the test run.
//!
//! A test's processes are killed when it drops them. That does not happen when the test process itself is killed
//! (Ctrl-C, a time limit): each test process therefore has one small shell that reads from it which process groups
//! live. When the pipe ends, for whatever reason, it kills what is left and ends too.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
groups=' '
while read -r verb group; do
  case $verb in
    guard) groups="$groups$group " ;;
    release) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
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

fn tell(verb: &str, group: u32) {
    let reaper = REAPER.get_or_init(|| Mutex::new(start()));
    let mut reaper = reaper.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = reaper.stdin.as_mut().expect("its standard input is piped");
    // Without the reaper the drops still kill, so its loss must not fail a test (or abort a drop).
    let _ = writeln!(pipe, "{verb} {group}");
}

/// In a group of its own: a Ctrl-C is meant for the tests, and the reaper has to outlive them.
fn start() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT]).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("cannot start the reaper: {error}"))
}
