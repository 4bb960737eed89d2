//! `cargo xtask kinds`: the built-in kinds as data, from what the real server says of itself and from its Go types.
//!
//! ```text
//! real server ──► resources, columns, OpenAPI ──┐
//! Go modules  ──► structs, tags ────────────────┴──► kinds.json, definitions.txt
//! ```
//!
//! Descriptions are left out. What the files mean is told in `crates/model/schema/src/builtin/data.rs`.

mod definitions;
mod source;
mod table;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use crate::child;
use crate::metadata;
use crate::tools;

/// Where the data lie.
const DATA: &str = "crates/model/schema/src/builtin";

/// Where the roles lie that are there from the beginning.
const ROLES: &str = "crates/server/apiserver/src/access/bootstrap.json";

/// What to make data from.
#[derive(Args)]
pub(crate) struct Options {
    /// Read what the server says from this file, instead of starting it
    #[arg(long)]
    facts: Option<PathBuf>,
}

/// Writes the data files anew.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let facts = match &options.facts {
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
        None => ask()?,
    };
    let facts: Value = serde_json::from_str(&facts).context("the server's answers are no JSON")?;
    let kinds = table::kinds(&facts["kinds"])?;
    let mut source = source::Source::new(modules()?);
    let text = definitions::text(&[&facts["kinds"], &facts["around"]], &kinds, &mut source)?;
    for (name, content) in [
        (format!("{DATA}/kinds.json"), table::text_of(&kinds)),
        (format!("{DATA}/definitions.txt"), text),
        (ROLES.to_owned(), roles(&facts["roles"])),
    ] {
        let path = metadata::root().join(name);
        std::fs::write(&path, &content).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}: {} bytes", path.display(), content.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// The roles, one for each line, without what each server makes itself.
fn roles(objects: &Value) -> String {
    let plain = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "labels" | "annotations"));
        }
        object.to_string()
    };
    let lines: Vec<String> = objects.as_array().into_iter().flatten().map(plain).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Starts the real server and asks it.
fn ask() -> Result<String> {
    let (server, _) = tools::reference().ready()?;
    let mut command = child::cargo();
    command
        .args(["run", "--quiet", "--package", "concert-e2e", "--bin", "reference-facts"])
        .env("CONCERT_REFERENCE_APISERVER", server);
    child::capture(command)
}

/// Where Go keeps the modules of Kubernetes.
fn modules() -> Result<PathBuf> {
    let mut command = Command::new("go");
    command.args(["env", "GOMODCACHE"]);
    Ok(PathBuf::from(child::capture(command)?.trim()).join("k8s.io"))
}
