//! How long `concert serve` takes to answer, and `concert up --example` to show its File Ready.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use concert_bench::report::median;
use concert_bench::usage::Usage;
use concert_e2e::{Exit, Process, Scratch, environment};
use tokio::time::Instant;

/// How long a start may take.
const LIMIT: Duration = Duration::from_secs(60);
/// What has run for so long is idle.
const IDLE: Duration = Duration::from_secs(1);

/// Starts `concert serve` and `concert up --example --exit-when-ready` again and again, each time on an empty store.
#[derive(Parser)]
struct Args {
    /// How often
    #[arg(long, value_name = "N", default_value_t = 20)]
    runs: u32,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let (mut serve, mut idle, mut up) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=args.runs {
        eprintln!("run {number} of {}", args.runs);
        let (ready, memory) = serve_once()?;
        serve.push(ready.as_secs_f64() * 1e3);
        idle.push(memory);
        up.push(up_once().as_secs_f64() * 1e3);
    }
    line("concert serve, start to ready line", &serve, "ms");
    line("concert serve, memory when idle", &idle, "MiB");
    line("concert up --example --exit-when-ready", &up, "ms");
    Ok(())
}

fn line(what: &str, values: &[f64], unit: &str) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    println!("{what:<40} median {:>7.1} {unit} (least {least:.1}, most {most:.1})", median(values.to_vec()));
}

fn serve_once() -> Result<(Duration, f64)> {
    let scratch = Scratch::new("serve");
    let command = concert(scratch.path(), &["serve"]);
    let begin = Instant::now();
    let process = Process::spawn("serve", command, scratch.path());
    let ready = watch_for(&process, "ready https://", begin);
    // A process that has ended has used its deadline.
    assert!(process.try_wait(IDLE).is_none(), "concert serve has ended\n{process}");
    let memory = Usage::of(process.pid())?.memory / 1024;
    process.terminate();
    process.assert_exit(Exit::Code(0), LIMIT);
    Ok((ready, f64::from(u32::try_from(memory)?) / 1024.0))
}

fn up_once() -> Duration {
    let scratch = Scratch::new("up");
    let command = concert(scratch.path(), &["up", "--example", "--exit-when-ready"]);
    let begin = Instant::now();
    let process = Process::spawn("up", command, scratch.path());
    process.assert_exit(Exit::Code(0), LIMIT);
    begin.elapsed()
}

fn concert(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(environment::binary("concert"));
    command.args(arguments).args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data"));
    command.stdin(Stdio::null());
    command
}

/// Looks for the line without pause: a start is a matter of milliseconds.
fn watch_for(process: &Process, prefix: &str, begin: Instant) -> Duration {
    loop {
        if process.stdout().starts_with(prefix) {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < LIMIT && process.exit().is_none(), "it is not ready\n{process}");
        std::thread::yield_now();
    }
}
