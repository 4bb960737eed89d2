//! What a process shows to the outside: metrics, probes, the admin page.

use super::{Context, Manager, ManagerError, Phase};
use crate::admin::Admin;
use crate::cache::Informers;
use crate::serve::{Beside, Endpoint, Pages};
use crate::watch::Trouble;

/// The checks that every process has.
pub(super) fn add_checks(manager: &Manager) {
    let settings = &manager.0.settings;
    let caches = manager.informers().clone();
    manager.probes().readiness_with_remarks("caches", move || caches_ready(&caches));
    let board = std::sync::Arc::clone(&manager.0.board);
    manager.probes().readiness("components", move || match board.not_ready() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("waits for {}", missing.join(", "))),
    });
    if settings.ready_when_leading {
        let standing = manager.standing();
        manager.probes().readiness("leader", move || {
            let standing = standing.borrow();
            if standing.leads() { Ok(()) } else { Err(standing.to_string()) }
        });
    }
    if let Some(limit) = settings.max_watch_lag {
        let caches = manager.informers().clone();
        manager.probes().readiness("watch-lag", move || {
            let late = |report: &crate::cache::CacheReport| report.lag.is_some_and(|lag| lag > limit);
            match caches.reports().into_iter().find(late) {
                Some(report) => Err(format!("{} has not been heard of for longer than {limit:?}", report.scope)),
                None => Ok(()),
            }
        });
    }
}

/// A kind that is missing or forbidden does not make the process useless, but is remarked on; one that is still being
/// listed does. What was complete once stays so: what joins later, and what is opened only when it is read, takes nothing
/// from it.
fn caches_ready(informers: &Informers) -> Result<Option<String>, String> {
    let mut absent = Vec::new();
    for cache in informers.caches().iter().filter(|cache| cache.is_needed()) {
        let (scope, state) = (cache.scope(), cache.state());
        match (state.has_been_synced, &state.trouble) {
            (true, _) => {}
            (false, Some(trouble @ (Trouble::KindMissing | Trouble::Forbidden(_)))) => {
                absent.push(format!("{scope}: {trouble}"));
            }
            (false, None) => return Err(format!("{scope} is being listed")),
            (false, Some(trouble)) => return Err(format!("{scope}: {trouble}")),
        }
    }
    Ok((!absent.is_empty()).then(|| format!("without {}", absent.join("; "))))
}

/// Listens on what is asked for: what cannot be listened on is an error before anything runs.
pub(super) async fn add_endpoints(manager: &Manager) -> Result<(), ManagerError> {
    let settings = &manager.0.settings;
    if let Some(mut endpoint) = bind(settings.metrics.as_ref(), Reach::Anywhere).await? {
        if let Some(security) = settings.metrics_security.clone() {
            endpoint = endpoint.secured(security, manager.client().clone())?;
        }
        add(manager, "metrics", endpoint, Beside(manager.metrics().clone(), manager.0.shelf.clone()))?;
    }
    if let Some(endpoint) = bind(settings.probes.as_ref(), Reach::Anywhere).await? {
        add(manager, "probes", endpoint, manager.probes().clone())?;
    }
    let reach = if settings.admin_beyond_loopback { Reach::Anywhere } else { Reach::Loopback };
    if let Some(endpoint) = bind(settings.admin.as_ref(), reach).await? {
        add(manager, "admin", endpoint, Admin::new(manager.clone()))?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Anywhere,
    Loopback,
}

async fn bind(place: Option<&(String, String)>, reach: Reach) -> Result<Option<Endpoint>, ManagerError> {
    let Some((flag, address)) = place else { return Ok(None) };
    Ok(match reach {
        Reach::Anywhere => Endpoint::bind(flag, address).await?,
        Reach::Loopback => Endpoint::bind_loopback(flag, address).await?,
    })
}

fn add(manager: &Manager, name: &'static str, endpoint: Endpoint, pages: impl Pages) -> Result<(), ManagerError> {
    tracing::info!(address = %endpoint.address(), "{name} endpoint");
    manager.add(Phase::Servers, name, move |mut context: Context| async move {
        context.ready();
        endpoint.serve(pages, context.cancel.clone()).await;
        Ok(())
    })
}
