//! Server-side apply of types: partial forms, and what one has applied before.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use concert_api::{ObjectKey, meta};
use concert_merge::{ManagedFields, drop_nulls};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as machinery;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Objects, Patch};
use crate::client::ApiError;

/// A type that can be applied in part. Derive it: `Foo` gets a `FooApply`, in which every field is optional; a field that is not set
/// is not applied. On a kind of kube's (`#[kube(derive = "concert_runtime::Apply")]`) it also knows apiVersion, kind and name.
///
/// ```
/// use concert_runtime::Apply;
/// use kube::CustomResource;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(CustomResource, Apply, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
/// #[kube(group = "example.dev", version = "v1", kind = "Database", namespaced, derive = "concert_runtime::Apply")]
/// #[serde(rename_all = "camelCase")]
/// struct DatabaseSpec {
///     size_gb: u32,
///     owner: Option<String>,
///     backups: Vec<Backup>,
/// }
///
/// #[derive(Apply, Clone, Debug, Deserialize, Serialize, schemars::JsonSchema)]
/// struct Backup {
///     at: String,
///     keep: u32,
/// }
///
/// let mut mine = DatabaseApply::new("default", "main");
/// mine.spec = Some(DatabaseSpecApply {
///     size_gb: Some(20),
///     backups: Some(vec![BackupApply { at: Some("noon".into()), ..Default::default() }]),
///     ..Default::default()
/// });
/// assert_eq!(
///     serde_json::to_value(&mine)?,
///     serde_json::json!({
///         "apiVersion": "example.dev/v1", "kind": "Database",
///         "metadata": { "namespace": "default", "name": "main" },
///         "spec": { "sizeGb": 20, "backups": [{ "at": "noon" }] },
///     })
/// );
/// // databases.apply(&mine, false).await?;
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// Whose form in JSON is made by a function has no partial form:
///
/// ```compile_fail
/// #[derive(concert_runtime::Apply, serde::Serialize)]
/// struct Spec {
///     #[serde(serialize_with = "in_hex")]
///     colour: u32,
/// }
/// # fn in_hex<S: serde::Serializer>(colour: &u32, to: S) -> Result<S::Ok, S::Error> { to.serialize_str(&format!("{colour:x}")) }
/// ```
pub trait Apply {
    /// The same with every field optional; the type itself, where it is applied as a whole.
    type Partial;
}

macro_rules! applied_as_a_whole {
    ($($type:ty),* $(,)?) => {
        $(impl Apply for $type {
            type Partial = Self;
        })*
    };
}

applied_as_a_whole!(
    bool, char, String, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64, Value
);
// What kinds of one's own often have in them. They are optional in all parts, or of one piece.
applied_as_a_whole!(
    Quantity,
    IntOrString,
    machinery::ObjectMeta,
    machinery::Condition,
    machinery::LabelSelector,
    machinery::MicroTime,
    machinery::OwnerReference,
    machinery::Time,
    core::Affinity,
    core::ConfigMapKeySelector,
    core::EnvVar,
    core::LocalObjectReference,
    core::ObjectReference,
    core::ResourceRequirements,
    core::SecretKeySelector,
    core::SecretReference,
    core::SecurityContext,
    core::Toleration,
    core::TypedLocalObjectReference,
);

impl<T: Apply> Apply for Option<T> {
    type Partial = T::Partial;
}

impl<T: Apply> Apply for Box<T> {
    type Partial = Box<T::Partial>;
}

impl<T: Apply> Apply for Vec<T> {
    type Partial = Vec<T::Partial>;
}

impl<K, V: Apply> Apply for BTreeMap<K, V> {
    type Partial = BTreeMap<K, V::Partial>;
}

impl<K, V: Apply, S> Apply for HashMap<K, V, S> {
    type Partial = HashMap<K, V::Partial, S>;
}

impl<T> Apply for BTreeSet<T> {
    type Partial = Self;
}

impl<T, S> Apply for HashSet<T, S> {
    type Partial = Self;
}

impl<K: Serialize + DeserializeOwned + Send + Sync + 'static> Objects<K> {
    /// Server-side apply: what is said becomes so and belongs to us, what we said before and do not say any more goes.
    /// Takes anything that serializes to a part of the object: a [partial form](Apply), or the type itself. With
    /// `force`, fields of others are taken over; without, they are a conflict.
    ///
    /// # Errors
    /// As [`Objects::create`]; a conflict that names the fields and whose they are.
    pub async fn apply(&self, object: &impl Serialize, force: bool) -> Result<K, ApiError> {
        let mut body = self.body(object)?;
        // Options that are not set are not applied.
        drop_nulls(&mut body);
        let key = self.key_of(&body);
        self.send(&key, &Patch::apply(body, force)).await
    }

    /// What we have applied to an object and still own, to be changed and applied again: `FooApply`, or any other type of
    /// that shape. `None` if there is no such object, or nothing of it is ours. Always read from the server; a field below
    /// which we own nothing by name is taken as a whole.
    ///
    /// # Errors
    /// As [`Objects::get`].
    pub async fn applied<P: DeserializeOwned>(&self, key: &ObjectKey) -> Result<Option<P>, ApiError> {
        let key = &self.placed(key)?;
        let Some(object) = self.client.get_whole(&self.resource, key).await? else { return Ok(None) };
        let unreadable = |why: String| {
            ApiError::undecodable(
                format!("read what was applied to {} {key}", self.resource.group_resource()),
                false,
                &why,
            )
        };
        let books = ManagedFields::of(&object).map_err(|error| unreadable(error.to_string()))?;
        let subresource = self.subresource_name().unwrap_or_default();
        let Some(fields) = books.applied_by(self.client.field_manager(), subresource) else { return Ok(None) };
        let mut part = fields.extract(&object);
        part["apiVersion"] = self.resource.gvk.api_version().into();
        part["kind"] = self.resource.gvk.kind.as_str().into();
        meta::set_text(&mut part, "namespace", &*key.namespace);
        meta::set_text(&mut part, "name", &*key.name);
        serde_json::from_value(part).map(Some).map_err(|error| unreadable(error.to_string()))
    }
}
