//! What a process shows to the outside: metrics, probes, the admin page.

use super::{Context, Manager, ManagerError, Phase};
use crate::admin::Admin;
use crate::cache::Informers;
use crate::serve::{Endpoint, Pages};
use crate::watch::Trouble;

/// The checks that every process has.
pub(super) fn add_checks(manager: &Manager) {
    let settings = &manager.0.settings;
    let caches = manager.informers().clone();
    manager.probes().readiness("caches", move || caches_ready(&caches));
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

/// A kind that is missing or forbidden does not make the process useless; one that is still being listed does.
fn caches_ready(informers: &Informers) -> Result<(), String> {
    for (scope, state) in informers.states() {
        match (state.synced, &state.trouble) {
            (true, _) | (false, Some(Trouble::KindMissing | Trouble::Forbidden(_))) => {}
            (false, None) => return Err(format!("{scope} is being listed")),
            (false, Some(trouble)) => return Err(format!("{scope}: {trouble}")),
        }
    }
    Ok(())
}

/// Listens on what is asked for: what cannot be listened on is an error before anything runs.
pub(super) async fn add_endpoints(manager: &Manager) -> Result<(), ManagerError> {
    let settings = &manager.0.settings;
    add(manager, "metrics", settings.metrics.as_ref(), Reach::Anywhere, manager.metrics().clone()).await?;
    add(manager, "probes", settings.probes.as_ref(), Reach::Anywhere, manager.probes().clone()).await?;
    let reach = if settings.admin_beyond_loopback { Reach::Anywhere } else { Reach::Loopback };
    add(manager, "admin", settings.admin.as_ref(), reach, Admin::new(manager.clone())).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Anywhere,
    Loopback,
}

async fn add(
    manager: &Manager,
    name: &'static str,
    place: Option<&(String, String)>,
    reach: Reach,
    pages: impl Pages,
) -> Result<(), ManagerError> {
    let Some((flag, address)) = place else { return Ok(()) };
    let bound = match reach {
        Reach::Anywhere => Endpoint::bind(flag, address).await?,
        Reach::Loopback => Endpoint::bind_loopback(flag, address).await?,
    };
    let Some(endpoint) = bound else { return Ok(()) };
    tracing::info!(address = %endpoint.address(), "{name} endpoint");
    manager.add(Phase::Servers, name, move |mut context: Context| async move {
        context.ready();
        endpoint.serve(pages, context.cancel.clone()).await;
        Ok(())
    })
}
