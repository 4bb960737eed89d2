//! The load server: one for all subjects, so that all of them get the same bytes at the same rate.
//!
//! It serves what a client of Kubernetes needs to list and watch: TLS, HTTP/1 and HTTP/2, JSON and protobuf, pages,
//! WatchList, bookmarks, discovery; it accepts writes and echoes them as events. There is no store behind it: an object is
//! a template and a few numbers, so that core 0 is never the narrow place.
//!
//! The driver tells it by lines what to hold and what to send:
//!
//! | line | what it does |
//! |---|---|
//! | `pods N NODES`, `maps N`, `kinds KINDS N` | holds that many objects, fresh ones, and nothing else |
//! | `events COUNT RATE SPEC_EVERY` | sends so many changes of objects of all kinds, so many a second; every so many-th changes the spec |
//! | `expire` | ends every watch with 410; what was seen before is too old to go on from |
//! | `state` | counts lists, watches and connections |

mod answer;
mod listen;
mod site;

pub use listen::serve;
pub use site::{Content, Site, nanoseconds};

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::time::Instant;

use super::protocol::{Reply, Words};

/// How fine events are spread over a second.
const TICK: Duration = Duration::from_millis(1);

/// Carries out one line of the driver.
///
/// # Errors
/// The line is not one of those that are known.
pub async fn obey(site: &Arc<Site>, line: &str) -> Result<Reply> {
    let mut words = Words::of(line);
    match words.text()? {
        "pods" => site.hold(Content::Pods { count: words.number()?, nodes: words.number()? }),
        "maps" => site.hold(Content::Maps { count: words.number()? }),
        "kinds" => site.hold(Content::Kinds { kinds: words.number()?, count: words.number()? }),
        "events" => events(site, words.number()?, words.number()?, words.number()?).await,
        "expire" => site.expire(),
        "state" => {}
        other => return Err(anyhow!("unknown command \"{other}\"")),
    }
    Ok(site.state())
}

/// Sends `count` changes, `rate` a second. It does not wait for readers: who is slow has a backlog, and its latency shows.
async fn events(site: &Site, count: u64, rate: u64, spec_every: u64) {
    let start = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    let mut sent = 0;
    while sent < count {
        ticks.tick().await;
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due.min(count) {
            site.change(sent, spec_every != 0 && sent % spec_every == 0);
            sent += 1;
        }
    }
}

/// A kubeconfig for a server at `address` with this certificate authority.
///
/// # Errors
/// It cannot be written.
pub fn write_kubeconfig(path: &std::path::Path, address: std::net::SocketAddr, authority: &str) -> Result<()> {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: load\n\
         clusters: [{{name: load, cluster: {{server: \"https://{address}\", certificate-authority-data: {authority}}}}}]\n\
         users: [{{name: load, user: {{token: none}}}}]\n\
         contexts: [{{name: load, context: {{cluster: load, user: load}}}}]\n"
    );
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
