//! The roles that everybody expects, as the real server makes them.

use concert_api::{ObjectKey, Status, meta};
use serde_json::Value;

use crate::Server;
use crate::body::Media;
use crate::books::SERVER;
use crate::target::{Query, Target};
use crate::write::Written;

/// Asked of kube-apiserver by `cargo xtask kinds`.
const OBJECTS: &str = include_str!("bootstrap.json");
/// So many are written together: they wait for the disk once, and few are in memory at a time.
const TOGETHER: usize = 30;

impl Server {
    /// Writes those that are not there, and fills the aggregated ones.
    pub(crate) async fn write_bootstrap_roles(&self) -> Result<(), Status> {
        let objects: Vec<Value> = serde_json::from_str(OBJECTS).map_err(Status::internal)?;
        for some in objects.chunks(TOGETHER) {
            let written =
                futures::future::join_all(some.iter().map(async |object| self.write_role(object).await)).await;
            written.into_iter().try_for_each(|written| match written {
                Err(status) if status.reason != "AlreadyExists" => Err(status),
                _ => Ok(()),
            })?;
        }
        self.aggregate_roles().await;
        Ok(())
    }

    async fn write_role(&self, object: &Value) -> Result<Written, Status> {
        let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_ascii_lowercase());
        let resource = self.kinds().get(super::GROUP, &plural).cloned().ok_or_else(|| Status::internal(&plural))?;
        let key = ObjectKey::new(meta::text(object, "namespace"), meta::text(object, "name"));
        let mut target = Target::stored(&resource, &key);
        target.name = None;
        self.create(&target, &Query::own(SERVER), Media::Json, object.to_string().as_bytes()).await
    }
}
