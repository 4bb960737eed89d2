//! A reconcile that blocks its thread cannot speak for itself. In real time, and alone in its process: its thread is lost
//! to everybody, and who listens to logs is a matter of the whole process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::Write;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use concert_api::ObjectKey;
use concert_runtime::{Client, Controller, Manager, ManagerSettings, Outcome, Sink, Stop, Trigger, reconcile_fn};
use concert_world::World;

#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logs {
    fn say(&self, words: &[&str]) -> bool {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_reconcile_that_blocks_its_thread_is_told_and_stops_nobody_else() {
    let logs = Logs::default();
    let to = logs.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let world = World::real();
    let server = concert_apiserver::Server::in_memory(world.clone()).await;
    let manager = Manager::new(Client::in_process(server, world), ManagerSettings::new("m"));
    let keys = |names: &'static [&'static str]| {
        Trigger::source("keys", move |sink: Sink| async move {
            sink.add_all(names.iter().map(|name| ObjectKey::new("default", *name)), "test");
            Ok(())
        })
    };
    let (release, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let block = reconcile_fn(move |_| {
        let held = Arc::clone(&held);
        async move {
            // Ends when the test lets go of the other end.
            let _ = held.lock().unwrap().recv();
            Ok(Outcome::Done)
        }
    });
    let soon = Duration::from_millis(50);
    let blocks = Controller::builder("blocks").on(keys(&["b"])).slow_after(soon).timeout(2 * soon).run(block).unwrap();
    let (turned, mut turns) = tokio::sync::mpsc::unbounded_channel();
    let calm = reconcile_fn(move |_| {
        let turned = turned.clone();
        async move {
            // The test may have heard enough.
            let _ = turned.send(());
            Ok(Outcome::After(Duration::from_millis(10)))
        }
    });
    manager.add_controller(blocks).unwrap();
    manager.add_controller(Controller::builder("calm").on(keys(&["c"])).run(calm).unwrap()).unwrap();
    let stop = Stop::default();
    let drain = stop.drain.clone();
    let running = tokio::spawn(manager.run(stop));
    let told: [&[&str]; 2] = [
        &["WARN", "reconcile is still running", "controller=blocks", "key=default/b"],
        &["ERROR", "controller=blocks", "cannot be ended", "spawn_blocking"],
    ];
    let heard = async {
        while !told.iter().all(|words| logs.say(words)) {
            turns.recv().await.unwrap();
        }
        for _ in 0..5 {
            turns.recv().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard).await.expect("it is told, and the other one works on");
    drop(release);
    drain.cancel();
    running.await.unwrap().unwrap();
}
