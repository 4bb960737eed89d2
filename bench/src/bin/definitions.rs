//! What a further definition costs `concert serve` and the real kube-apiserver: memory, and the time until its first object.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use concert_bench::api::Api;
use concert_bench::report::median;
use concert_bench::rig::Server;
use concert_bench::usage::Usage;
use concert_e2e::{ControlPlane, Embedded, Reference, environment};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// A definition that is not served by then never is.
const LIMIT: Duration = Duration::from_secs(30);

/// Creates definitions with a schema of about 80 fields, one after the other, and of each the first object at once. The
/// ratio is theirs to ours.
#[derive(Parser)]
struct Args {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 100)]
    definitions: u32,
    /// Only ours: for profiles
    #[arg(long)]
    embedded_only: bool,
}

struct Cost {
    first_ms: f64,
    each_kib: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let plane = ControlPlane::embedded_with(Embedded::new(environment::binary("concert")));
    let ours = measure(Server::Embedded, &plane, args).await?;
    let theirs = if args.embedded_only {
        None
    } else {
        let binary = environment::reference_apiserver().map_err(|missing| anyhow!("{missing}"))?;
        let plane = ControlPlane::reference_with(Reference::new(binary).fsync());
        Some(measure(Server::Reference, &plane, args).await?)
    };
    println!("{:<44}{:>12}{:>12}{:>9}", "", "embedded", "reference", "ratio");
    let line = |what: &str, ours: f64, theirs: Option<f64>| {
        let (shown, ratio) = theirs.map_or(("-".to_owned(), "-".to_owned()), |theirs| {
            (format!("{theirs:.1}"), format!("{:.0}", theirs / ours))
        });
        println!("{what:<44}{ours:>12.1}{shown:>12}{ratio:>9}");
    };
    line("definition to its first object [ms, median]", ours.first_ms, theirs.as_ref().map(|cost| cost.first_ms));
    line("memory of a further definition [KiB]", ours.each_kib, theirs.as_ref().map(|cost| cost.each_kib));
    Ok(())
}

async fn measure(server: Server, plane: &ControlPlane, args: &Args) -> Result<Cost> {
    let api = Api::connect(&plane.kubeconfig()).await?;
    let memory = || Ok::<_, anyhow::Error>(Usage::of(plane.pid().context("the server has ended")?)?.memory);
    // The first of its kind pays for what all share.
    first_object(&api, 0).await?;
    let before = memory()?;
    let mut times = Vec::new();
    for number in 1..=args.definitions {
        times.push(first_object(&api, number).await?.as_secs_f64() * 1e3);
        if number % 20 == 0 {
            eprintln!("{}: {number} of {}", server.name(), args.definitions);
        }
    }
    let grown = memory()?.saturating_sub(before);
    let each_kib = f64::from(u32::try_from(grown / 1024)?) / f64::from(args.definitions);
    Ok(Cost { first_ms: median(times), each_kib })
}

/// Creates a definition and, as soon as that is possible, an object; how long both took.
async fn first_object(api: &Api, number: u32) -> Result<Duration> {
    let begin = Instant::now();
    api.call(Method::POST, DEFINITIONS, definition(number).to_string()).await?;
    let path = format!("/apis/bench-{number}.example.com/v1/namespaces/default/things");
    let object = json!({
        "apiVersion": format!("bench-{number}.example.com/v1"), "kind": "Thing",
        "metadata": {"name": "first"}, "spec": {"a0": {"text": "x", "count": 1}},
    })
    .to_string();
    loop {
        let answer = api.send(Method::POST, &path, object.clone().into()).await?;
        match answer.status() {
            StatusCode::CREATED => return Ok(begin.elapsed()),
            StatusCode::NOT_FOUND if begin.elapsed() < LIMIT => tokio::time::sleep(Duration::from_millis(1)).await,
            other => bail!("the first object of definition {number}: {other}"),
        }
    }
}

/// Ten objects of eight fields each.
fn definition(number: u32) -> Value {
    let part = json!({"type": "object", "properties": {
        "text": {"type": "string", "maxLength": 100, "description": "A text that says what this part is about."},
        "count": {"type": "integer", "minimum": 0, "default": 1},
        "on": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["Fast", "Safe"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "size": {"x-kubernetes-int-or-string": true},
        "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
            "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}},
        },
    }});
    let parts: serde_json::Map<String, Value> = (0..10).map(|place| (format!("a{place}"), part.clone())).collect();
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": parts},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let group = format!("bench-{number}.example.com");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}
