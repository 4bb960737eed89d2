//! Named checks over HTTP, as controller-runtime and the API server itself answer them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::{Page, Pages, Visit};

/// Why it fails, or what there is to say though it does not.
type Check = Arc<dyn Fn() -> Result<Option<String>, String> + Send + Sync>;

/// Named checks behind `/healthz` (is the process alive) and `/readyz` (is it any use). Cheap to clone; checks can
/// be added and replaced at any time.
#[derive(Clone, Default)]
pub struct Probes(Arc<Mutex<Checks>>);

#[derive(Default)]
struct Checks {
    health: BTreeMap<String, Check>,
    readiness: BTreeMap<String, Check>,
}

impl Probes {
    /// Adds a check of `/healthz`.
    pub fn health(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).health.insert(name.to_owned(), plain(check));
    }

    /// Adds a check of `/readyz`.
    pub fn readiness(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).readiness.insert(name.to_owned(), plain(check));
    }

    /// The same for one that passes with a remark, which who asks for reasons is told.
    pub(crate) fn readiness_with_remarks(
        &self,
        name: &str,
        check: impl Fn() -> Result<Option<String>, String> + Send + Sync + 'static,
    ) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).readiness.insert(name.to_owned(), Arc::new(check));
    }

    /// Removes a check from both.
    pub fn remove(&self, name: &str) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checks.health.remove(name);
        checks.readiness.remove(name);
    }

    fn report(title: &str, checks: &BTreeMap<String, Check>, visit: &Visit<'_>) -> Page {
        let asked = Asked::read(visit);
        let (mut lines, mut passed) = (String::new(), true);
        for (name, check) in checks {
            let line = if asked.excluded.iter().any(|excluded| excluded == name) {
                format!("[+]{name} excluded: ok\n")
            } else {
                match check() {
                    Ok(Some(remark)) if asked.verbose => format!("[+]{name} ok: {remark}\n"),
                    Ok(_) => format!("[+]{name} ok\n"),
                    Err(why) => {
                        passed = false;
                        let why = if asked.verbose { why.as_str() } else { "reason withheld" };
                        format!("[-]{name} failed: {why}\n")
                    }
                }
            };
            lines.push_str(&line);
        }
        let unknown: Vec<_> = asked.excluded.iter().filter(|name| !checks.contains_key(&***name)).collect();
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let unknown = unknown.join(",");
            lines.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown}\n"));
        }
        let text = match (passed, asked.verbose) {
            (true, false) => "ok".to_owned(),
            (true, true) => format!("{lines}{title} check passed\n"),
            (false, _) => format!("{lines}{title} check failed\n"),
        };
        Page::text(if passed { 200 } else { 500 }, text)
    }
}

fn plain(check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Check {
    Arc::new(move || check().map(|()| None))
}

/// What the query of a probe asks for.
struct Asked<'a> {
    excluded: Vec<Cow<'a, str>>,
    /// Reasons may name what strangers should not know: only who asks for them gets them.
    verbose: bool,
}

impl<'a> Asked<'a> {
    fn read(visit: &Visit<'a>) -> Self {
        Self { excluded: visit.values("exclude").collect(), verbose: visit.values("verbose").next().is_some() }
    }
}

/// `/healthz`, `/readyz`, and `/healthz/NAME`, `/readyz/NAME` for single checks.
impl Pages for Probes {
    fn page<'a>(&'a self, visit: Visit<'a>) -> BoxFuture<'a, Option<Page>> {
        Box::pin(std::future::ready(self.answer(&visit)))
    }
}

impl Probes {
    /// What is answered to whom, at once: for tests of one's own checks.
    #[must_use]
    pub fn answer(&self, visit: &Visit<'_>) -> Option<Page> {
        let path = visit.path.strip_prefix('/')?.trim_end_matches('/');
        let (title, single) = path.split_once('/').map_or((path, None), |(title, name)| (title, Some(name)));
        let mut checks = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match title {
                "healthz" => all.health.clone(),
                "readyz" => all.readiness.clone(),
                _ => return None,
            }
        };
        checks.entry("ping".to_owned()).or_insert_with(|| plain(|| Ok(())));
        if let Some(name) = single {
            checks.retain(|known, _| known == name);
            if checks.is_empty() {
                return None;
            }
        }
        Some(Self::report(title, &checks, visit))
    }
}

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Probes")
            .field("health", &checks.health.keys())
            .field("readiness", &checks.readiness.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_name_what_fails() {
        let probes = Probes::default();
        probes.readiness("provider", || Err("not connected".into()));
        let page = |path: &str, query: &str| {
            let page = probes.answer(&Visit { path, query, accept: "" })?;
            Some((page.code, String::from_utf8_lossy(&page.body).into_owned()))
        };
        assert_eq!(page("/healthz", ""), Some((200, "ok".into())));
        let failed = "[+]ping ok\n[-]provider failed: reason withheld\nreadyz check failed\n";
        assert_eq!(page("/readyz", ""), Some((500, failed.into())));
        let why = "[+]ping ok\n[-]provider failed: not connected\nreadyz check failed\n";
        assert_eq!(page("/readyz", "verbose"), Some((500, why.into())));
        let (code, text) = page("/readyz", "exclude=provider&exclude=nope&verbose=1").unwrap_or_default();
        assert!(code == 200 && text.contains("excluded: ok") && text.contains("no matches for \"nope\""), "{text}");
        assert_eq!(page("/readyz", "exclude=provider"), Some((200, "ok".into())));
        assert_eq!(page("/healthz", "verbose"), Some((200, "[+]ping ok\nhealthz check passed\n".into())));
        assert_eq!(page("/readyz/ping", ""), Some((200, "ok".into())));
        assert_eq!(page("/readyz/nope", ""), None);
        assert_eq!(page("/else", ""), None);
    }
}
