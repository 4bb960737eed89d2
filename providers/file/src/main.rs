//! The file provider as a program of its own.

use std::process::ExitCode;

use concert_provider_file::{Options, provider};

fn main() -> ExitCode {
    concert_provider::main(|options: Options| provider(options.root))
}
