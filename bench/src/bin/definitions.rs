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
/// After how many definitions a line says how far it is: on the real server, every 20 s.
const STEP: u32 = 10;

/// What the issue wants: milliseconds, and KiB.
const FIRST_MS: f64 = 5.0;
const EACH_KIB: f64 = 100.0;

/// Creates definitions with a schema of about 80 fields, one after the other, and of each the first object at once. The
/// ratio is theirs to ours.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 measured and both aims are met; 1 it could not be measured; 2 wrong usage; 3 measured, \
                        but an aim is not met"
)]
struct Args {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
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
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the aims are met.
async fn run(args: &Args) -> Result<bool> {
    // What is missing is told before anything is measured: the real server alone takes minutes.
    let reference = if args.embedded_only {
        None
    } else {
        let missing = |missing| anyhow!("{missing}; or measure ours alone: --embedded-only");
        Some(environment::reference_apiserver().map_err(missing)?)
    };
    eprintln!("starting {}", Server::Embedded.name());
    let plane = ControlPlane::embedded_with(Embedded::new(environment::binary("concert")));
    let ours = measure(Server::Embedded, &plane, args).await?;
    drop(plane);
    let Some(binary) = reference else {
        return Ok(report(&ours, None));
    };
    eprintln!("starting {}, which needs 2 s for each definition", Server::Reference.name());
    let plane = ControlPlane::reference_with(Reference::new(binary).fsync());
    Ok(report(&ours, Some(&measure(Server::Reference, &plane, args).await?)))
}

/// Prints the figures; whether the aims are met.
fn report(ours: &Cost, theirs: Option<&Cost>) -> bool {
    println!("{:<44}{:>12}{:>12}{:>9}", "", "embedded", "reference", "ratio");
    let line = |what: &str, ours: f64, theirs: Option<f64>| {
        let (shown, ratio) = theirs.map_or(("-".to_owned(), "-".to_owned()), |theirs| {
            (format!("{theirs:.1}"), format!("{:.0}", theirs / ours))
        });
        println!("{what:<44}{ours:>12.1}{shown:>12}{ratio:>9}");
    };
    line("definition to its first object [ms, median]", ours.first_ms, theirs.map(|cost| cost.first_ms));
    line("memory of a further definition [KiB]", ours.each_kib, theirs.map(|cost| cost.each_kib));
    let aims = [("ms to the first object", ours.first_ms, FIRST_MS), ("KiB for each", ours.each_kib, EACH_KIB)];
    for (what, is, limit) in aims {
        println!("{:<9}{is:>8.1}   ours at most {limit} {what}", if is <= limit { "met" } else { "NOT MET" });
    }
    aims.iter().all(|(_, is, limit)| is <= limit)
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
        if number % STEP == 0 {
            eprintln!("{}: {number} of {}", server.name(), args.definitions);
        }
    }
    let grown = memory()?.saturating_sub(before);
    let each_kib = f64::from(u32::try_from(grown / 1024)?) / f64::from(args.definitions);
    let first_ms = median(times);
    // Told at once: who stops the run before its end has not waited for nothing.
    eprintln!("{}: first object after {first_ms:.1} ms, {each_kib:.1} KiB each", server.name());
    Ok(Cost { first_ms, each_kib })
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
