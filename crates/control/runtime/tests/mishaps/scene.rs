//! A process in which something goes wrong, and who listens to it.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::Visit;
use concert_runtime::{Client, Controller, Manager, ManagerSettings, Outcome, Reconciler, Stop, reconcile_fn};
use tracing::subscriber::DefaultGuard;

use crate::maps;

/// How long it may take until all is told, and until it works again.
const SOON: Duration = Duration::from_secs(150);

/// What is logged in this thread.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logs {
    fn listen() -> (Self, DefaultGuard) {
        let logs = Self::default();
        let to = logs.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || to.clone());
        (logs, tracing::subscriber::set_default(subscriber.finish()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// How many lines have all of these words.
    pub(crate) fn count(&self, words: &[&str]) -> usize {
        self.text().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    /// Whether a line has all of these words.
    pub(crate) fn say(&self, words: &[&str]) -> bool {
        self.count(words) > 0
    }
}

/// Polls, so that it is seen whether it still works.
pub(crate) fn polling() -> impl Reconciler {
    reconcile_fn(|_| async { Ok(Outcome::After(Duration::from_secs(1))) })
}

/// A process with a controller that has nothing to do with the mishap, and perhaps one that suffers from it.
pub(crate) struct Scene {
    pub(crate) manager: Manager,
    pub(crate) logs: Logs,
    _guard: DefaultGuard,
}

/// What has to be told.
pub(crate) struct Told<'a> {
    /// Lines of the log, each by words that are all in it.
    pub(crate) said: &'a [&'a [&'a str]],
    /// What lines of the metrics begin with.
    pub(crate) metrics: &'a [&'a str],
}

impl Scene {
    pub(crate) fn new(client: Client, sufferer: Option<Controller>) -> Self {
        let (logs, _guard) = Logs::listen();
        let manager = Manager::new(client, ManagerSettings::new("m"));
        manager.add_controller(Controller::builder("calm").for_(maps()).run(polling()).unwrap()).unwrap();
        sufferer.into_iter().for_each(|controller| manager.add_controller(controller).unwrap());
        Self { manager, logs, _guard }
    }

    pub(crate) fn shows(&self, metric: &str) -> bool {
        self.manager.metrics().text().lines().any(|line| line.starts_with(metric))
    }

    /// How many turns of a controller went well.
    pub(crate) fn successes(&self, controller: &str) -> u64 {
        let text = self.manager.metrics().text();
        let sum = |line: &str| {
            let line = line.strip_prefix("controller_runtime_reconcile_total{controller=\"")?;
            let (name, rest) = line.split_once('"')?;
            let good = rest.contains("success") || rest.contains("requeue_after");
            (name == controller && good).then(|| rest.rsplit(' ').next()?.parse::<u64>().ok())?
        };
        text.lines().filter_map(sum).sum()
    }

    pub(crate) fn readiness(&self) -> String {
        self.manager.probes().answer(&Visit::to("/readyz").asking("verbose")).unwrap().words().into_owned()
    }

    fn missing(&self, told: &Told<'_>) -> Result<(), String> {
        let unsaid = told.said.iter().find(|words| !self.logs.say(words));
        let unshown = told.metrics.iter().find(|metric| !self.shows(metric));
        match (unsaid, unshown) {
            (None, None) => Ok(()),
            (Some(words), _) => Err(format!("{words:?} is not said in:\n{}", self.logs.text())),
            (None, Some(metric)) => Err(format!("{metric} is missing in:\n{}", self.manager.metrics().text())),
        }
    }

    /// Runs until all of it is told; the controller that has nothing to do with it has to go on working meanwhile, and
    /// afterwards. Then it is `mended`, and runs until `well`.
    pub(crate) async fn play(&self, told: Told<'_>, mended: impl AsyncFnOnce(), well: impl Fn() -> bool) {
        let stop = Stop::default();
        let (drain, abort) = (stop.drain.clone(), stop.abort.clone());
        let story = async {
            until(|| self.missing(&told)).await;
            let before = self.successes("calm");
            until(|| if self.successes("calm") > before + 4 { Ok(()) } else { Err("the other one stopped".into()) })
                .await;
            mended().await;
            until(|| if well() { Ok(()) } else { Err(format!("not well:\n{}", self.manager.metrics().text())) }).await;
            drain.cancel();
            abort.cancel();
        };
        let _ = tokio::join!(self.manager.clone().run(stop), story);
    }
}

async fn until(holds: impl Fn() -> Result<(), String>) {
    let began = tokio::time::Instant::now();
    while let Err(why) = holds() {
        assert!(began.elapsed() < SOON, "{why}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
