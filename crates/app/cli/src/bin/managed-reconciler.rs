//! See `managed-reconciler --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    concert_cli::reconciler("managed-reconciler")
}
