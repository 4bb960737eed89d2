//! `concert store`: looks at a store, takes it away, and brings it back.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use concert_apiserver::store::{self, CheckReport, RestoreError, Store};
use concert_apiserver::{BACKUP_PATH, OpenError, Options};
use concert_runtime::{Client, Source};
use concert_world::World;
use serde_json::json;

use crate::exit::Failure;
use crate::{home, logs};

/// A backup of a large store over a slow line takes a while.
const BACKUP_DEADLINE: Duration = Duration::from_secs(3600);

/// What to do with a store.
#[derive(clap::Subcommand, Clone, Debug)]
pub(crate) enum StoreVerb {
    /// Read all of a store that is not in use, and say whether it is sound; nothing is changed
    #[command(after_help = crate::EXIT_CODES)]
    Check {
        /// Where it is [default: the platform's data directory]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// How to say it
        #[arg(short, long, value_name = "FORMAT", default_value = "text")]
        output: Format,
    },
    /// Write all objects, as they are at one revision, to a file: of a running server, or with --data-dir of a store
    /// that is not in use
    #[command(after_help = crate::EXIT_CODES)]
    Backup {
        /// The file to write; it holds every Secret, so only you can read it
        file: PathBuf,
        /// The administrator's kubeconfig of the running server [default: KUBECONFIG, ~/.kube/config]
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// The context of the kubeconfig [default: its current one]
        #[arg(long, value_name = "NAME")]
        context: Option<String>,
        /// Where the store is, if no server runs on it
        #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
        data_dir: Option<PathBuf>,
    },
    /// Make a new store of a backup, in a directory that has none
    #[command(after_help = crate::EXIT_CODES)]
    Restore {
        /// The backup
        file: PathBuf,
        /// Where to make it [default: the platform's data directory]
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
}

/// How a report is written.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

pub(crate) async fn run(verb: StoreVerb) -> Result<(), Failure> {
    logs::install("error");
    match verb {
        StoreVerb::Check { data_dir, output } => check(&directory(data_dir)?, output),
        StoreVerb::Backup { file, kubeconfig, context, data_dir } => {
            let mut target = Target::create(file)?;
            match data_dir {
                Some(directory) => from_directory(&directory, &mut target)?,
                None => from_server(&Source { kubeconfig, context }, &mut target).await?,
            }
            let info = target.finish()?;
            let file = target.path.display();
            println!("{} objects at revision {} in {file}", info.objects, info.revision);
            Ok(())
        }
        StoreVerb::Restore { file, data_dir } => restore(&file, &directory(data_dir)?),
    }
}

fn directory(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    given.map_or_else(home::data_directory, Ok).map_err(Failure::usage)
}

fn check(directory: &Path, output: Format) -> Result<(), Failure> {
    let place = directory.display();
    match (store::check(directory), output) {
        (Ok(report), Format::Text) => println!("the store in \"{place}\" is sound: {}", describe(&report)),
        (Ok(report), Format::Json) => println!("{}", to_json(&report)),
        (Err(error), Format::Text) => return Err(cannot_open(error)),
        (Err(error), Format::Json) => {
            println!("{}", json!({"sound": false, "error": error.to_string()}));
            return Err(cannot_open(error));
        }
    }
    Ok(())
}

fn describe(report: &CheckReport) -> String {
    let CheckReport { revision, floor, objects, object_bytes, events, file_bytes, .. } = report;
    let end = if report.clean { "" } else { "; it was not closed properly, which the next start puts right" };
    format!(
        "{objects} objects of {object_bytes} bytes at revision {revision}, {events} events since revision {floor}, in \
         {file_bytes} bytes{end}"
    )
}

fn to_json(report: &CheckReport) -> serde_json::Value {
    json!({
        "sound": true, "clean": report.clean, "clusterID": report.cluster_id, "revision": report.revision,
        "floor": report.floor, "objects": report.objects, "objectBytes": report.object_bytes,
        "events": report.events, "fileBytes": report.file_bytes,
    })
}

fn cannot_open(error: OpenError) -> Failure {
    match error {
        OpenError::InUse(_) | OpenError::Directory { .. } | OpenError::Missing(_) => Failure::unusable(error),
        other => Failure::store(other),
    }
}

/// A backup that is being written. It has its name when it is whole.
struct Target {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
}

impl Target {
    fn create(path: PathBuf) -> Result<Self, Failure> {
        use std::os::unix::fs::OpenOptionsExt;
        if path.exists() {
            return Err(Failure::usage(anyhow!("\"{}\" exists already; choose another name", path.display())));
        }
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(".unfinished");
        let file = File::options().write(true).read(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        let unfinished = PathBuf::from(unfinished);
        let file = file.with_context(|| format!("cannot write \"{}\"", unfinished.display()));
        Ok(Self { path, file: file.map_err(Failure::unusable)?, unfinished })
    }

    fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(piece).with_context(|| format!("cannot write \"{}\"", self.unfinished.display()))
    }

    /// Reads it all once more, and gives it its name.
    fn finish(&mut self) -> Result<store::BackupInfo, Failure> {
        let named = |what: &str| format!("cannot {what} \"{}\"", self.unfinished.display());
        self.file.sync_all().with_context(|| named("write")).map_err(Failure::running)?;
        let whole = File::open(&self.unfinished).with_context(|| named("read")).map_err(Failure::running)?;
        let info = store::inspect_backup(BufReader::new(whole)).map_err(Failure::running)?;
        std::fs::rename(&self.unfinished, &self.path).with_context(|| named("rename")).map_err(Failure::running)?;
        Ok(info)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Best effort: only there if it was not finished.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

fn from_directory(directory: &Path, target: &mut Target) -> Result<(), Failure> {
    // A backup of a damaged or missing store says so, and makes no new one.
    store::check(directory).map_err(cannot_open)?;
    let store = Store::<()>::open(directory, Options::default(), &World::real()).map_err(cannot_open)?;
    for piece in store.backup() {
        target.write(&piece).map_err(Failure::running)?;
    }
    Ok(())
}

async fn from_server(source: &Source, target: &mut Target) -> Result<(), Failure> {
    let client = Client::connect(source, World::real()).await.map_err(Failure::unusable)?;
    let client = client.with_deadline(BACKUP_DEADLINE);
    let mut failed = None;
    let take = |piece: &[u8]| match target.write(piece) {
        Ok(()) => true,
        Err(error) => {
            failed = Some(error);
            false
        }
    };
    client.download(BACKUP_PATH, take).await.map_err(Failure::unusable)?;
    failed.map_or(Ok(()), |error| Err(Failure::running(error)))
}

fn restore(file: &Path, directory: &Path) -> Result<(), Failure> {
    let backup = File::open(file).with_context(|| format!("cannot read \"{}\"", file.display()));
    let backup = BufReader::new(backup.map_err(Failure::usage)?);
    let info = store::restore(directory, backup, &World::real()).map_err(|error| match error {
        RestoreError::Exists(_) => Failure::unusable(error),
        RestoreError::Write(error) => cannot_open(error),
        other => Failure::store(anyhow::Error::new(other).context(format!("cannot restore \"{}\"", file.display()))),
    })?;
    let (objects, revision, place) = (info.objects, info.revision, directory.display());
    println!("{objects} objects of revision {revision} in \"{place}\"; whoever watches the old store begins anew");
    Ok(())
}
