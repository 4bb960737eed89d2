//! The roles that everybody expects, as the real server makes them.

use std::sync::LazyLock;

use concert_api::{ObjectKey, Status, meta};
use serde_json::Value;

use crate::Server;
use crate::body::Media;
use crate::target::{Query, Target};

/// Asked of kube-apiserver v1.37.1.
static OBJECTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("bootstrap.json")).expect("bootstrap.json is checked by a test")
});

impl Server {
    /// Writes those that are not there, and fills the aggregated ones.
    pub(crate) async fn write_bootstrap_roles(&self) -> Result<(), Status> {
        let kinds = self.kinds();
        for object in OBJECTS.iter() {
            let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_ascii_lowercase());
            let resource = kinds.get(super::GROUP, &plural).ok_or_else(|| Status::internal(&plural))?;
            let mut target = Target::stored(resource, &ObjectKey::cluster(meta::text(object, "name")));
            target.name = None;
            match self.create(&target, &Query::default(), Media::Json, object.to_string().as_bytes()).await {
                Err(status) if status.reason != "AlreadyExists" => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        self.aggregate_roles().await;
        Ok(())
    }
}
