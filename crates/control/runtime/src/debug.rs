//! Profiles of a running process: where it spends its time.
//!
//! | path | gives |
//! |---|---|
//! | `/debug/pprof/profile?seconds=30` | what ran, as a profile for `go tool pprof` and its like |
//! | `/debug/pprof/profile?seconds=30&format=folded` | the same as lines of text, for flame graphs |
//!
//! A signal that comes 99 times per second of processor time notes what each thread is doing. While nobody asks, nothing is
//! noted and nothing is spent.

mod proto;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use pprof::{Frames, ProfilerGuardBuilder, Report};
use prost::Message;
use tokio::sync::oneshot;

use crate::serve::{Page, Visit};

/// How often a second; odd, so that it does not march in step with what is observed.
const FREQUENCY: i32 = 99;
/// How long, unless another time is asked for, and at most.
const SECONDS: u64 = 30;
const MOST_SECONDS: u64 = 300;

const INDEX: &str = "/debug/pprof/profile?seconds=30\n/debug/pprof/profile?seconds=30&format=folded\n";

/// The page, if it is one of these.
pub(crate) async fn page(visit: &Visit<'_>) -> Option<Page> {
    match visit.path.trim_end_matches('/') {
        "/debug" | "/debug/pprof" => Some(Page::text(200, INDEX)),
        "/debug/pprof/profile" => Some(profile(visit).await.unwrap_or_else(|page| page)),
        _ => None,
    }
}

async fn profile(visit: &Visit<'_>) -> Result<Page, Page> {
    let asked = visit.values("seconds").next();
    let seconds = asked.as_deref().map_or(Ok(SECONDS), str::parse).ok().filter(|s| (1..=MOST_SECONDS).contains(s));
    let why = || Page::text(400, format!("seconds has to be a number from 1 to {MOST_SECONDS}\n"));
    let (seconds, folded) = (seconds.ok_or_else(why)?, visit.values("format").any(|format| format == "folded"));
    // These cannot be looked through while they hold a lock that looking needs.
    let blocked = ["libc", "libgcc", "pthread", "vdso"];
    let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&blocked).build();
    let guard = guard.map_err(|error| match error {
        pprof::Error::Running => Page::text(409, "another profile is being taken; try again when it is done\n"),
        error => Page::text(500, format!("cannot take a profile: {error}\n")),
    })?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let made = aside(move || {
        let report = guard.report().build();
        drop(guard);
        report.map(|report| if folded { as_text(&report) } else { as_profile(&report) })
    });
    Ok(made.await)
}

/// Makes a page where it is in nobody's way: to find the names of a profile takes seconds of work.
async fn aside<E: std::fmt::Display>(make: impl FnOnce() -> Result<Page, E> + Send + 'static) -> Page {
    let (done, made) = oneshot::channel();
    // Who asked may have gone.
    std::thread::spawn(move || drop(done.send(make().map_err(|error| error.to_string()))));
    let page = made.await.map_err(|_| "the thread that made it died".to_owned()).flatten();
    page.unwrap_or_else(|why| Page::text(500, format!("cannot make a profile: {why}\n")))
}

/// The names on a stack, the outermost first.
fn names(frames: &Frames) -> Vec<String> {
    let inner_first = frames.frames.iter().flatten();
    let mut names: Vec<String> = inner_first.map(pprof::Symbol::name).collect();
    names.push(frames.thread_name_or_id());
    names.reverse();
    names
}

fn as_text(report: &Report) -> Page {
    let mut stacks: BTreeMap<String, isize> = BTreeMap::new();
    for (frames, count) in &report.data {
        *stacks.entry(names(frames).join(";")).or_default() += count;
    }
    let mut text = String::new();
    for (stack, count) in stacks {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{stack} {count}");
    }
    Page::text(200, text)
}

fn as_profile(report: &Report) -> Page {
    let body = proto::Profile::of(report).encode_to_vec().into();
    Page { code: 200, kind: "application/octet-stream", body }
}
