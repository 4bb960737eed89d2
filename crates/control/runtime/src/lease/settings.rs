//! Which lease, in whose name, how fast, and whether that makes sense.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LeaseError;
use crate::client::Client;

/// Share of the retry period by which followers spread their attempts, as client-go does.
pub(super) const JITTER: f64 = 1.2;

/// Which lease, in whose name, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; unique among candidates.
    pub identity: String,
    /// How long others wait after the last renewal before they take over; whole seconds.
    pub duration: Duration,
    /// How long a leader tries to renew before it gives up. Must be less than `duration`.
    pub renew_deadline: Duration,
    /// How long to wait between attempts.
    pub retry: Duration,
    /// Whether to give the lease up at the end, so that the next one need not wait.
    pub release: bool,
    /// Labels that the Lease gets. Others that it has are left alone.
    pub labels: BTreeMap<String, String>,
}

impl LeaseSettings {
    /// client-go's timings: 15 s, 10 s, 2 s; released at the end.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            release: true,
            labels: BTreeMap::new(),
        }
    }

    /// A lease in the client's own namespace, with an identity as client-go makes it: the name of the host, which is that of
    /// the pod, and something that no other process has.
    #[must_use]
    pub fn of_this_process(client: &Client, name: impl Into<String>) -> Self {
        let identity = format!("{}_{}", crate::host_name(), client.world().random.uuid());
        Self::new(client.default_namespace(), name, identity)
    }

    /// Whether these settings can work: who they say we are, and `duration` > `renew_deadline` > `retry` x 1.2.
    ///
    /// # Errors
    /// [`LeaseError::Settings`], which names the values.
    pub fn check(&self) -> Result<(), LeaseError> {
        let Self { duration, renew_deadline, retry, .. } = self;
        let slowest = retry.mul_f64(JITTER);
        let why = if self.name.is_empty() || self.identity.is_empty() {
            "it needs a name and an identity".to_owned()
        } else if duration.is_zero() || duration.subsec_nanos() != 0 {
            format!("a lease lasts whole seconds, not {duration:?}")
        } else if retry.is_zero() {
            "it cannot be retried without a pause".to_owned()
        } else if duration <= renew_deadline {
            format!("its duration {duration:?} must be longer than the renew deadline {renew_deadline:?}")
        } else if *renew_deadline <= slowest {
            format!("the renew deadline {renew_deadline:?} must be longer than the retry period {retry:?} x 1.2")
        } else {
            return Ok(());
        };
        Err(LeaseError::Settings { namespace: self.namespace.clone(), name: self.name.clone(), why })
    }

    /// How long one request may take: a leader needs time for a second one before its deadline.
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_by_their_values() {
        let settings = LeaseSettings::new("kube-system", "m", "a");
        let s = Duration::from_secs;
        let why = |change: &dyn Fn(&mut LeaseSettings)| {
            let mut changed = settings.clone();
            change(&mut changed);
            changed.check().map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        assert_eq!(why(&|_| ()), "");
        assert_eq!(
            why(&|settings| settings.renew_deadline = s(15)),
            "cannot use lease kube-system/m: its duration 15s must be longer than the renew deadline 15s"
        );
        assert_eq!(
            why(&|settings| settings.retry = s(9)),
            "cannot use lease kube-system/m: the renew deadline 10s must be longer than the retry period 9s x 1.2"
        );
        assert!(why(&|settings| settings.duration = Duration::from_millis(15_500)).contains("15.5s"));
        assert!(why(&|settings| settings.identity.clear()).contains("identity"));
        assert!(why(&|settings| settings.retry = s(0)).contains("pause"));
    }
}
