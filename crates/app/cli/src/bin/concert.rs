//! See `concert --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    concert_cli::concert()
}
