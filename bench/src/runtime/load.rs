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
//! | `pods N NODES`, `maps N`, `small-maps N`, `kinds KINDS N PODS` | holds that many objects, fresh ones, and nothing else |
//! | `events COUNT RATE SPEC_EVERY WHICH` | sends so many changes of objects (of `all` kinds, `pods` or `custom` ones), so many a second; every so many-th changes the spec |
//! | `write RATE SPEC_EVERY`, `rest` | does so in the background from now on, until it is to rest |
//! | `expire` | ends every watch with 410; what was seen before is too old to go on from |
//! | `state` | counts lists, watches and connections |

mod answer;
mod listen;
mod site;

pub use listen::serve;
pub use site::{Content, Site, Which, nanoseconds};

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::time::Instant;

use super::objects::Kind;
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
        "maps" => site.hold(Content::Maps { count: words.number()?, kind: Kind::ConfigMap }),
        "small-maps" => site.hold(Content::Maps { count: words.number()?, kind: Kind::SmallMap }),
        "kinds" => {
            site.hold(Content::Kinds { kinds: words.number()?, count: words.number()?, pods: words.number()? });
        }
        "events" => {
            let (count, rate, spec_every) = (words.number()?, words.number()?, words.number()?);
            events(site, which(words.text()?)?, count, rate, spec_every).await;
        }
        "write" => {
            let (site, rate, spec_every) = (Arc::clone(site), words.number()?, words.number()?);
            let writer = Arc::clone(&site);
            let task = tokio::spawn(async move { events(&writer, Which::All, u64::MAX, rate, spec_every).await });
            site.write(Some(task.abort_handle()));
        }
        "rest" => site.write(None),
        "expire" => site.expire(),
        "state" => {}
        other => return Err(anyhow!("unknown command \"{other}\"")),
    }
    Ok(site.state())
}

fn which(word: &str) -> Result<Which> {
    match word {
        "all" => Ok(Which::All),
        "pods" => Ok(Which::Pods),
        "custom" => Ok(Which::Custom),
        other => Err(anyhow!("\"{other}\" is neither all, pods nor custom")),
    }
}

/// Sends `count` changes, `rate` a second. It does not wait for readers: who is slow has a backlog, and its latency shows.
async fn events(site: &Site, which: Which, count: u64, rate: u64, spec_every: u64) {
    let start = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    let mut sent = 0;
    while sent < count {
        ticks.tick().await;
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due.min(count) {
            site.change(which, sent, spec_every != 0 && sent % spec_every == 0);
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
