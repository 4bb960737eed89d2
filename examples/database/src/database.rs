//! The kind.

use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a database should be.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.concert.dev", version = "v1alpha1", kind = "Database", namespaced, status = "DatabaseStatus")]
#[kube(printcolumn(name = "Phase", json_path = ".status.phase", type_ = "string"))]
#[kube(printcolumn(name = "Replicas", json_path = ".spec.replicas", type_ = "integer"))]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// How many replicas run.
    #[schemars(range(min = 1, max = 9))]
    pub replicas: i32,
    /// What they run.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The Secret that holds the password.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub password_secret: String,
    /// Host and port of the network that it needs, outside of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// In a word.
    pub phase: Phase,
    /// In words.
    #[serde(default)]
    pub message: String,
    /// How many databases there are in its namespace.
    #[serde(default)]
    pub neighbours: i32,
}

/// How far a database is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// It waits for something.
    #[default]
    Pending,
    /// All it is made of is there.
    Running,
    /// It cannot become what it should.
    Failed,
}

/// The CustomResourceDefinition, for `kubectl apply -f -`.
#[must_use]
pub fn definition() -> Value {
    serde_json::to_value(Database::crd()).expect("a definition is plain data")
}
