//! A provider of files below a directory.
//!
//! ```text
//!   kind File ──► FileResource ──► Root: openat, step by step, never through a symbolic link
//! ```
//!
//! The external name of a file is its path, so creating twice is creating once. Files are replaced as a whole: a
//! reader sees the old content or the new, never a part, and after a crash the same holds.

mod root;

use std::path::PathBuf;
use std::time::Duration;

use concert_provider::{Changed, Context, Kind, NamePolicy, Observed, Provider, ProviderError, Ready, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use root::{Found, Root};

/// Options of `serve`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The directory below which files are managed; it must exist
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,
}

/// The provider of files below `root`.
#[must_use]
pub fn provider(root: PathBuf) -> Provider {
    let root = Root::new(root);
    let check = root.clone();
    Provider::new("file", env!("CARGO_PKG_VERSION"))
        .resource(FileResource { root })
        .on_start(move || check.open().map(drop))
}

/// A file with a content and a mode.
#[derive(Clone, Debug, Kind, JsonSchema, Serialize, Deserialize)]
#[kind(
    group = "file.concert.dev",
    version = "v1alpha1",
    kind = "File",
    plural = "files",
    column(name = "PATH", path = ".status.atProvider.path", type = "string"),
    column(name = "SIZE", path = ".status.atProvider.size", type = "integer")
)]
pub struct FileParameters {
    /// Where the file is, relative to the provider's root.
    #[schemars(length(min = 1, max = 4096))]
    #[schemars(extend("x-kubernetes-validations" = [{ "rule": "self == oldSelf", "message": "path is immutable" }]))]
    pub path: String,
    /// What the file holds.
    #[serde(default)]
    pub content: String,
    /// Its permissions, in octal.
    #[serde(default = "default_mode")]
    #[schemars(regex(pattern = r"^0?[0-7]{3}$"))]
    pub mode: String,
}

fn default_mode() -> String {
    "0644".to_owned()
}

/// What is known about a file.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
pub struct FileObservation {
    /// Where it is.
    pub path: String,
    /// How many bytes it has.
    pub size: u64,
    /// The SHA-256 of its content, in hexadecimal; absent of files that are too large to be ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its permissions, in octal.
    pub mode: String,
}

/// The kind File. Its operations block: they touch small files on a local disk.
#[derive(Clone, Debug)]
pub struct FileResource {
    root: Root,
}

impl Resource for FileResource {
    type Parameters = FileParameters;
    type Observation = FileObservation;

    fn names(&self) -> NamePolicy {
        NamePolicy::Deterministic
    }

    fn consistency_window(&self) -> Duration {
        Duration::ZERO
    }

    async fn observe(
        &self,
        ctx: &mut Context,
        wanted: &FileParameters,
    ) -> Result<Observed<FileObservation>, ProviderError> {
        check_not_moved(ctx, wanted)?;
        let Some(found) = self.root.read(&wanted.path)? else { return Ok(Observed::Absent) };
        ctx.set_external_name(&wanted.path);
        let Found { mode, size, content } = found;
        let text = content.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let mode = spell(mode, &wanted.mode);
        let observation = FileObservation {
            path: self.root.path().join(&wanted.path).display().to_string(),
            size,
            sha256: content.as_deref().map(digest),
            mode: mode.clone(),
        };
        // A content that is not text is no content that an object can ask for: it differs.
        let actual = json!({ "path": wanted.path, "content": text, "mode": mode });
        Ok(Observed::present(actual, observation, Ready::Yes))
    }

    async fn create(&self, ctx: &mut Context, wanted: &FileParameters) -> Result<Changed, ProviderError> {
        check_not_moved(ctx, wanted)?;
        let mode = parse_mode(&wanted.mode)?;
        self.root.write(&wanted.path, wanted.content.as_bytes(), mode)?;
        ctx.set_external_name(&wanted.path);
        Ok(Changed::default())
    }

    async fn update(&self, ctx: &mut Context, wanted: &FileParameters) -> Result<Changed, ProviderError> {
        self.create(ctx, wanted).await
    }

    async fn delete(&self, ctx: &mut Context, wanted: &FileParameters) -> Result<Changed, ProviderError> {
        check_not_moved(ctx, wanted)?;
        self.root.remove(&wanted.path)?;
        Ok(Changed::default())
    }
}

/// A changed path would leave the file at the old one behind. (A reconciler may set the external name to the object's
/// name before the file has one.)
fn check_not_moved(ctx: &Context, wanted: &FileParameters) -> Result<(), ProviderError> {
    match ctx.external_name() {
        Some(old) if old != wanted.path && old != ctx.name() => {
            let text = format!("cannot move the file from {old:?}; set the path back, or make another object");
            Err(ProviderError::invalid("spec.forProvider.path", text))
        }
        _ => Ok(()),
    }
}

fn parse_mode(text: &str) -> Result<u32, ProviderError> {
    let digits = text.len() == 3 || (text.len() == 4 && text.starts_with('0'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| digits && !text.starts_with('+'));
    let invalid =
        || ProviderError::invalid("spec.forProvider.mode", format!("{text:?} is not a mode; write it as \"0644\""));
    mode.ok_or_else(invalid)
}

/// The mode as the object spells it, if it is the same: "644" and "0644" do not differ.
fn spell(mode: u32, wanted: &str) -> String {
    match parse_mode(wanted) {
        Ok(same) if same == mode => wanted.to_owned(),
        _ => format!("{mode:04o}"),
    }
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
