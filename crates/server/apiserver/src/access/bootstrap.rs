//! The roles that everybody expects, as the real server makes them.

use std::sync::atomic::Ordering;

use concert_api::{ObjectKey, Status, meta};
use concert_store::Key;
use serde_json::Value;

use crate::Server;
use crate::body::Media;
use crate::books::SERVER;
use crate::target::{Query, Target};

/// Asked of kube-apiserver by `cargo xtask kinds`.
const OBJECTS: &str = include_str!("bootstrap.json");
/// So many are written together: they wait for the disk once, and few are in memory at a time.
const TOGETHER: usize = 30;

impl Server {
    /// Writes those that are not there, and fills the aggregated ones.
    pub(crate) async fn write_bootstrap_roles(&self) -> Result<(), Status> {
        let objects: Vec<Value> = serde_json::from_str(OBJECTS).map_err(Status::internal)?;
        let (kinds, snapshot) = (self.kinds(), self.store().snapshot());
        let mut missing = Vec::new();
        for object in &objects {
            let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_ascii_lowercase());
            let resource = kinds.get(super::GROUP, &plural).ok_or_else(|| Status::internal(&plural))?;
            let key = ObjectKey::new(meta::text(object, "namespace"), meta::text(object, "name"));
            if snapshot.get(&Key { resource: resource.stored_as.clone(), object: key.clone() }).is_none() {
                missing.push((Target::stored(resource, &key), object));
            }
        }
        // They are looked at when all are there.
        self.access().aggregating.store(true, Ordering::Release);
        let written = self.write_together(missing).await;
        self.access().aggregating.store(false, Ordering::Release);
        self.aggregate_roles().await;
        written
    }

    async fn write_together(&self, mut objects: Vec<(Target, &Value)>) -> Result<(), Status> {
        for some in objects.chunks_mut(TOGETHER) {
            let written = futures::future::join_all(some.iter_mut().map(async |(target, object)| {
                target.name = None;
                self.create(target, &Query::own(SERVER), Media::Json, object.to_string().as_bytes()).await
            }));
            written.await.into_iter().try_for_each(|written| match written {
                // Somebody was faster.
                Err(status) if status.reason != "AlreadyExists" => Err(status),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }
}
