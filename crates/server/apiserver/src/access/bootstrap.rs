//! The roles that everybody expects, as the real server makes them.

use std::sync::LazyLock;

use concert_api::{ObjectKey, Status, meta};
use serde_json::Value;

use crate::Server;
use crate::body::Media;
use crate::target::{Query, Target};

/// Asked of kube-apiserver by `cargo xtask kinds`.
static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("bootstrap.json")).expect("bootstrap.json is checked by a test")
});

impl Server {
    /// Writes those that are not there, and fills the aggregated ones.
    pub(crate) async fn write_bootstrap_roles(&self) -> Result<(), Status> {
        // Together, so that they wait for the disk once.
        let written = futures::future::join_all(OBJECTS.iter().map(async |object| {
            let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_ascii_lowercase());
            let resource = self.kinds().get(super::GROUP, &plural).cloned().ok_or_else(|| Status::internal(&plural))?;
            let key = ObjectKey::new(meta::text(object, "namespace"), meta::text(object, "name"));
            let mut target = Target::stored(&resource, &key);
            target.name = None;
            self.create(&target, &Query::default(), Media::Json, object.to_string().as_bytes()).await
        }));
        written.await.into_iter().try_for_each(|written| match written {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        })?;
        self.aggregate_roles().await;
        Ok(())
    }
}
