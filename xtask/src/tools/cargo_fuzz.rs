//! cargo-fuzz, installed once from crates.io: it knows the flags that libFuzzer needs.

use anyhow::Result;

use super::Tool;
use super::cache::{self, Key};
use crate::child;

/// The version that the front in `fuzz/libfuzzer` is built with.
const VERSION: &str = "0.13.2";

/// cargo-fuzz in the cache, or installed now.
pub(crate) fn cargo_fuzz() -> Tool {
    match find() {
        Ok(tool) => tool,
        Err(error) => Tool::Broken(format!("{error:#}")),
    }
}

fn find() -> Result<Tool> {
    let mut key = Key::new();
    key.add(VERSION.as_bytes());
    let directory = cache::directory("cargo-fuzz", &key)?.join("installed");
    let path = directory.join("bin").join("cargo-fuzz");
    let how = if path.is_file() { "from the cache" } else { "installed now" };
    cache::once(&directory, |partial| {
        println!("     … installing cargo-fuzz {VERSION}, once: a minute or two");
        let mut command = child::cargo();
        command.args(["install", "cargo-fuzz", "--locked", "--version", VERSION, "--root"]).arg(partial);
        child::run_quietly(command, "installing cargo-fuzz")
    })?;
    Ok(Tool::Ready { path, note: format!("v{VERSION}, {how}") })
}
