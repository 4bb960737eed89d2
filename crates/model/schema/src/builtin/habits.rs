//! What kinds do that no data say: which names they take, which changes they count, what they fill in and refuse.

use concert_api::{FieldErrors, Time};
use serde_json::Value;

use super::{NameRule, config_map, event, lease, namespace, rbac, secret};
use crate::crd;

/// The cells of an object in a table, one for each column.
pub(super) type Cells = fn(&Value, Time) -> Vec<Value>;

/// Which changes of an object its generation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// None: there is no generation.
    Never,
    /// None, but it is 1.
    Once,
    /// All outside metadata and status.
    Content,
    /// Those, and those of annotations.
    ContentAndAnnotations,
    /// All but those of what the server keeps.
    Everything,
}

/// What a kind does.
#[derive(Debug)]
pub(super) struct Habits {
    pub(super) name_rule: NameRule,
    pub(super) unconditional_update: bool,
    pub(super) create_on_update: bool,
    pub(super) returned: bool,
    pub(super) keeps_status: bool,
    pub(super) counted: Counted,
    pub(super) prepare: fn(&mut Value, Option<&Value>),
    pub(super) check: fn(&Value, Option<&Value>) -> FieldErrors,
    pub(super) cells: Option<Cells>,
}

const PLAIN: Habits = Habits {
    name_rule: NameRule::Subdomain,
    unconditional_update: true,
    create_on_update: false,
    returned: false,
    keeps_status: false,
    counted: Counted::Never,
    prepare: |_, _| {},
    check: |_, _| FieldErrors::new(),
    cells: None,
};
/// Kinds whose deletion is answered with the object.
const RETURNED: Habits = Habits { returned: true, ..PLAIN };
/// Kinds that count changes.
const COUNTED: Habits = Habits { counted: Counted::Content, ..PLAIN };
/// Kinds that are only changed by who has seen them.
const CONDITIONAL: Habits = Habits { unconditional_update: false, ..PLAIN };
/// What the kinds of roles and bindings share.
const ROLE: Habits = Habits { name_rule: NameRule::PathSegment, create_on_update: true, ..PLAIN };
/// Both kinds of webhooks, and policies.
const ADMISSION: Habits = Habits { counted: Counted::Content, ..CONDITIONAL };

/// By group and kind.
static TABLE: &[(&str, &str, Habits)] = &[
    ("", "ConfigMap", Habits { check: config_map::check, cells: Some(config_map::cells), ..PLAIN }),
    ("", "Endpoints", Habits { create_on_update: true, ..PLAIN }),
    (
        "",
        "Event",
        Habits {
            name_rule: NameRule::PathSegment,
            create_on_update: true,
            prepare: event::prepare_core,
            check: event::check_core,
            cells: Some(event::cells),
            ..PLAIN
        },
    ),
    ("", "LimitRange", Habits { create_on_update: true, ..PLAIN }),
    (
        "",
        "Namespace",
        Habits {
            name_rule: NameRule::Label,
            prepare: namespace::prepare,
            check: namespace::check,
            cells: Some(namespace::cells),
            ..PLAIN
        },
    ),
    ("", "Node", Habits { keeps_status: true, ..PLAIN }),
    ("", "PersistentVolume", RETURNED),
    ("", "PersistentVolumeClaim", RETURNED),
    ("", "Pod", Habits { returned: true, ..COUNTED }),
    ("", "PodTemplate", Habits { returned: true, ..COUNTED }),
    ("", "ReplicationController", COUNTED),
    ("", "ResourceQuota", RETURNED),
    ("", "Secret", Habits { prepare: secret::prepare, check: secret::check, cells: Some(secret::cells), ..PLAIN }),
    ("", "Service", Habits { returned: true, create_on_update: true, ..PLAIN }),
    ("", "ServiceAccount", RETURNED),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", ADMISSION),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", ADMISSION),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", ADMISSION),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", ADMISSION),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", ADMISSION),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", ADMISSION),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        Habits {
            counted: Counted::Content,
            prepare: crd::prepare,
            check: crd::check,
            cells: Some(crd::cells),
            ..CONDITIONAL
        },
    ),
    ("apiregistration.k8s.io", "APIService", CONDITIONAL),
    ("apps", "DaemonSet", COUNTED),
    ("apps", "Deployment", Habits { counted: Counted::ContentAndAnnotations, ..PLAIN }),
    ("apps", "ReplicaSet", COUNTED),
    ("apps", "StatefulSet", COUNTED),
    ("autoscaling", "HorizontalPodAutoscaler", PLAIN),
    ("batch", "CronJob", COUNTED),
    ("batch", "Job", COUNTED),
    ("certificates.k8s.io", "ClusterTrustBundle", CONDITIONAL),
    ("certificates.k8s.io", "PodCertificateRequest", CONDITIONAL),
    (
        "coordination.k8s.io",
        "Lease",
        Habits {
            create_on_update: true,
            prepare: lease::prepare,
            check: lease::check,
            cells: Some(lease::cells),
            ..CONDITIONAL
        },
    ),
    ("discovery.k8s.io", "EndpointSlice", Habits { counted: Counted::Everything, ..PLAIN }),
    (
        "events.k8s.io",
        "Event",
        Habits {
            create_on_update: true,
            prepare: event::prepare_events,
            check: event::check_events,
            cells: Some(event::cells),
            ..PLAIN
        },
    ),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", COUNTED),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", COUNTED),
    ("networking.k8s.io", "Ingress", COUNTED),
    ("networking.k8s.io", "IngressClass", COUNTED),
    ("networking.k8s.io", "NetworkPolicy", COUNTED),
    ("node.k8s.io", "RuntimeClass", Habits { create_on_update: true, ..CONDITIONAL }),
    ("policy", "PodDisruptionBudget", Habits { counted: Counted::Content, ..CONDITIONAL }),
    ("rbac.authorization.k8s.io", "ClusterRole", Habits { check: rbac::check_cluster_role, ..ROLE }),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        Habits { check: rbac::check_cluster_role_binding, cells: Some(rbac::binding_cells), ..ROLE },
    ),
    ("rbac.authorization.k8s.io", "Role", Habits { check: rbac::check_role, ..ROLE }),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        Habits { check: rbac::check_role_binding, cells: Some(rbac::binding_cells), ..ROLE },
    ),
    ("resource.k8s.io", "DeviceClass", Habits { returned: true, ..COUNTED }),
    ("resource.k8s.io", "DeviceTaintRule", COUNTED),
    ("resource.k8s.io", "ResourceClaim", RETURNED),
    ("resource.k8s.io", "ResourceClaimTemplate", RETURNED),
    ("resource.k8s.io", "ResourceSlice", Habits { returned: true, ..COUNTED }),
    ("scheduling.k8s.io", "PriorityClass", Habits { counted: Counted::Once, ..PLAIN }),
    ("storage.k8s.io", "CSIDriver", Habits { returned: true, ..CONDITIONAL }),
    ("storage.k8s.io", "CSINode", Habits { returned: true, ..CONDITIONAL }),
    ("storage.k8s.io", "CSIStorageCapacity", CONDITIONAL),
    ("storage.k8s.io", "StorageClass", RETURNED),
    ("storage.k8s.io", "VolumeAttachment", Habits { returned: true, ..CONDITIONAL }),
    ("storage.k8s.io", "VolumeAttributesClass", RETURNED),
    ("storagemigration.k8s.io", "StorageVersionMigration", CONDITIONAL),
];

/// What a kind does.
pub(super) fn of(group: &str, kind: &str) -> &'static Habits {
    static OTHER: Habits = PLAIN;
    let row = TABLE.iter().find(|(in_group, name, _)| (*in_group, *name) == (group, kind));
    row.map_or(&OTHER, |(_, _, habits)| habits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_habit_is_of_a_kind_there_is() {
        for (group, kind, _) in TABLE {
            let known = super::super::builtins().iter().any(|one| one.gvk.group == *group && one.gvk.kind == *kind);
            assert!(known, "{group} {kind}");
        }
    }
}
