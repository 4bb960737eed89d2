//! What a write cannot change depends on where it arrives: who writes there does not own it.

use std::sync::LazyLock;

use concert_api::Gvk;

use crate::fields::FieldSet;

static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["status"]]));
static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec"]]));
static METADATA_AND_SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["metadata"], &["spec"]]));
static OF_DEPLOYMENT_STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec"], &["metadata", "labels"]]));
static OF_POD_STATUS: LazyLock<FieldSet> =
    LazyLock::new(|| FieldSet::of(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]));
static OF_REQUEST: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec"], &["status"]]));
static OF_REQUEST_STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec"], &["status", "conditions"]]));
static OF_APPROVAL: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["spec"], &["status", "certificate"]]));

/// Groups whose kinds keep their metadata when the status is written; the older ones do not.
const KEEP_METADATA: [&str; 9] = [
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "lifecycle.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// What [`Endpoint::ignored`](crate::Endpoint::ignored) is for a built-in kind of 1.37: the real server's table.
#[must_use]
pub fn ignored_by_builtin(gvk: &Gvk, subresource: &str) -> &'static FieldSet {
    match (gvk.group.as_str(), gvk.kind.as_str(), subresource) {
        ("certificates.k8s.io", "CertificateSigningRequest", "") => &OF_REQUEST,
        ("certificates.k8s.io", "CertificateSigningRequest", "status") => &OF_REQUEST_STATUS,
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => &OF_APPROVAL,
        ("apps", "Deployment", "status") => &OF_DEPLOYMENT_STATUS,
        ("", "Pod", "status") => &OF_POD_STATUS,
        ("networking.k8s.io", "ServiceCIDR", "status") => &METADATA_AND_SPEC,
        ("certificates.k8s.io", "PodCertificateRequest", "status") => &METADATA_AND_SPEC,
        (group, _, "status") if KEEP_METADATA.contains(&group) => &METADATA_AND_SPEC,
        (_, _, "status") => &SPEC,
        (_, _, _) => &STATUS,
    }
}

/// What [`Endpoint::ignored`](crate::Endpoint::ignored) is for a custom resource, which may have a status of its own.
/// For other versions of the same kind, [`Versions::ignored`](crate::Versions::ignored) gives the same for the status,
/// and nothing for the object.
#[must_use]
pub fn ignored_by_custom(has_status: bool, subresource: &str) -> &'static FieldSet {
    match (has_status, subresource) {
        (_, "status") => &METADATA_AND_SPEC,
        (true, _) => &STATUS,
        (false, _) => &NOTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_ignored_but_where_it_is_written() {
        let check = |group: &str, kind: &str, subresource: &str, expected: &[&str]| {
            assert_eq!(ignored_by_builtin(&Gvk::new(group, "v1", kind), subresource).paths(), expected);
        };
        check("", "Service", "", &[".status"]);
        check("", "Service", "status", &[".spec"]);
        check("apps", "Deployment", "status", &[".spec", ".metadata.labels"]);
        check("storage.k8s.io", "VolumeAttachment", "status", &[".metadata", ".spec"]);
        check("certificates.k8s.io", "CertificateSigningRequest", "approval", &[".spec", ".status.certificate"]);
        assert_eq!(ignored_by_custom(true, "").paths(), [".status"]);
        assert!(ignored_by_custom(false, "").is_empty());
    }
}
