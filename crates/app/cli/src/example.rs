//! The example: a definition, an object, and what becomes of it.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, anyhow};
use concert_api::{Condition, Gvk, ObjectKey};
use concert_runtime::watch::{Event, Subject, Watch};
use concert_runtime::{Client, Resource};
use serde_json::{Value, json};

use crate::screen::Screen;

/// Examples there are.
pub(crate) const NAMES: [&str; 1] = ["file"];
/// How long an example may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the disk is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// The example's name.
const NAME: &str = "hello";

fn definitions() -> Resource {
    Resource::cluster(Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "customresourcedefinitions")
}

/// The kind of the bundled provider.
pub(crate) fn files() -> Resource {
    Resource::cluster(Gvk::new("file.concert.dev", "v1alpha1", "File"), "files")
}

/// Applies definitions, so that the bundled providers' kinds are there.
pub(crate) async fn apply_definitions(client: &Client, crds: &[Value], screen: &Screen) -> anyhow::Result<()> {
    for definition in crds {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let made = ensure(client, &definitions(), definition).await?;
        screen.step(&format!("CustomResourceDefinition {name} {}", if made { "created" } else { "found again" }));
        wait_established(client, name).await?;
    }
    Ok(())
}

/// Creates an object if it is not there; says whether it did.
async fn ensure(client: &Client, resource: &Resource, object: &Value) -> anyhow::Result<bool> {
    match client.create(resource, object).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            Err(error).with_context(|| format!("cannot create {} {name}", resource.gvk.kind))
        }
    }
}

async fn wait_established(client: &Client, name: &str) -> anyhow::Result<()> {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            let found = client.get(&definitions(), &ObjectKey::cluster(name)).await?;
            if found.and_then(|one| one.value().ok()).is_some_and(|one| Condition::is_true(&one, "Established")) {
                return Ok::<_, anyhow::Error>(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    waited.await.map_err(|_| anyhow!("the definition {name} is not established after {} s", PATIENCE.as_secs()))?
}

/// Applies the example and shows every step until it is Ready, as the object says and as the disk shows below `root`.
pub(crate) async fn run(client: &Client, root: &Path, screen: &Screen) -> anyhow::Result<()> {
    let file = json!({
        "apiVersion": "file.concert.dev/v1alpha1", "kind": "File", "metadata": {"name": NAME},
        "spec": {"forProvider": {"path": "hello.txt", "content": "Hello from Concert.\n"}},
    });
    let made = ensure(client, &files(), &file).await?;
    screen.step(&format!("File {NAME} {}", if made { "created" } else { "found again" }));
    let ready = tokio::time::timeout(PATIENCE, show_until_ready(client, root, screen));
    ready.await.map_err(|_| {
        anyhow!("File {NAME} is not Ready after {} s; see: kubectl describe file {NAME}", PATIENCE.as_secs())
    })?
}

async fn show_until_ready(client: &Client, root: &Path, screen: &Screen) -> anyhow::Result<()> {
    let mut subject = Subject::all(files());
    subject.selection.fields = format!("metadata.name={NAME}");
    let mut watch = Watch::new(client.clone(), subject);
    let mut shown = Vec::new();
    let mut newest = Value::Null;
    loop {
        let event = {
            // To drop it would be to drop the watch.
            let mut next = pin!(watch.next());
            loop {
                tokio::select! {
                    biased;
                    event = next.as_mut() => break event,
                    () = tokio::time::sleep(LOOK) => {}
                }
                if let Some(path) = ready(&newest, root) {
                    screen.step(&format!("on disk: {}", path.display()));
                    return Ok(());
                }
            }
        };
        let (Event::Listed(arrived) | Event::Applied(arrived)) = event else { continue };
        let Ok(object) = arrived.object(&files()) else { continue };
        newest = object.value()?;
        for line in lines(&newest) {
            if !shown.contains(&line) {
                screen.step(&line);
                shown.push(line);
            }
        }
    }
}

/// Where the file is, if the object is Ready and the file as the object wants it. What an earlier run reported need not be
/// true any more: look.
fn ready(file: &Value, root: &Path) -> Option<PathBuf> {
    let says = |condition| Condition::is_true(file, condition);
    let wanted = &file["spec"]["forProvider"];
    let path = root.join(wanted["path"].as_str()?);
    let is_as_wanted = || std::fs::read(&path).ok().as_deref() == wanted["content"].as_str().map(str::as_bytes);
    (says("Ready") && says("Synced") && is_as_wanted()).then_some(path)
}

/// What an object shows of its state.
fn lines(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if value["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty()) {
        lines.push(format!("File {NAME} held (finalizer, create token)"));
    }
    for r#type in ["Synced", "Ready"] {
        if let Some(condition) = Condition::find(value, r#type) {
            let message = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
            lines.push(format!("File {NAME} {}={} ({}){message}", r#type, condition.status, condition.reason));
        }
    }
    lines
}
