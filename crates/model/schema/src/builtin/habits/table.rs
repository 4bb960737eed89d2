//! The habits of the kinds that have some.

use concert_api::FieldErrors;

use super::{Counted, Habits};
use crate::builtin::{
    NameRule, autoscaler, cells, certificate, cluster, config_map, event, flow, lease, namespace, network, pod, policy,
    quota, rbac, scaling, secret, storage, volume, webhook, workload,
};
use crate::crd;

/// What most kinds do.
pub(super) const PLAIN: Habits = Habits {
    name_rule: NameRule::Subdomain,
    unconditional_update: true,
    create_on_update: false,
    returned: false,
    keeps_status: false,
    counted: Counted::Never,
    read: |_| {},
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
/// Policies and their bindings.
const ADMISSION: Habits = Habits { counted: Counted::Content, ..CONDITIONAL };

/// By group and kind.
pub(super) static TABLE: &[(&str, &str, Habits)] = &[
    ("", "ComponentStatus", Habits { cells: Some(cells::cluster::component), ..PLAIN }),
    ("", "ConfigMap", Habits { check: config_map::check, cells: Some(config_map::cells), ..PLAIN }),
    (
        "",
        "Endpoints",
        Habits {
            check: network::endpoints::check,
            cells: Some(cells::network::endpoints),
            create_on_update: true,
            ..PLAIN
        },
    ),
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
    ("", "LimitRange", Habits { check: quota::check_limit_range, create_on_update: true, ..PLAIN }),
    (
        "",
        "Namespace",
        Habits {
            name_rule: NameRule::Label,
            read: namespace::read,
            prepare: namespace::prepare,
            check: namespace::check,
            cells: Some(namespace::cells),
            ..PLAIN
        },
    ),
    (
        "",
        "Node",
        Habits {
            read: cluster::read_node,
            prepare: cluster::prepare_node,
            check: cluster::check_node,
            cells: Some(cells::cluster::node),
            keeps_status: true,
            ..PLAIN
        },
    ),
    (
        "",
        "PersistentVolume",
        Habits {
            prepare: volume::prepare_volume,
            check: volume::check_volume,
            cells: Some(cells::storage::volume),
            ..RETURNED
        },
    ),
    (
        "",
        "PersistentVolumeClaim",
        Habits {
            prepare: volume::prepare_claim,
            check: volume::claim::check,
            cells: Some(cells::storage::claim),
            ..RETURNED
        },
    ),
    (
        "",
        "Pod",
        Habits {
            read: pod::read,
            prepare: pod::prepare,
            check: pod::check,
            cells: Some(cells::pod::cells),
            returned: true,
            ..COUNTED
        },
    ),
    (
        "",
        "PodTemplate",
        Habits {
            check: workload::check_pod_template,
            cells: Some(cells::workload::pod_template),
            returned: true,
            ..COUNTED
        },
    ),
    (
        "",
        "ReplicationController",
        Habits {
            check: workload::check_replication_controller,
            cells: Some(cells::workload::replication_controller),
            ..COUNTED
        },
    ),
    ("", "ResourceQuota", Habits { check: quota::check_quota, cells: Some(cells::cluster::quota), ..RETURNED }),
    ("", "Secret", Habits { read: secret::read, check: secret::check, cells: Some(secret::cells), ..PLAIN }),
    (
        "",
        "Service",
        Habits {
            name_rule: NameRule::Label,
            check: network::service::check,
            cells: Some(cells::network::service),
            returned: true,
            create_on_update: true,
            ..PLAIN
        },
    ),
    ("", "ServiceAccount", RETURNED),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy",
        Habits { check: policy::check_mutating, cells: Some(cells::cluster::policy), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding",
        Habits { check: policy::check_mutating_binding, cells: Some(cells::cluster::policy_binding), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        Habits {
            check: webhook::check,
            cells: Some(cells::cluster::webhooks),
            counted: Counted::ContentAndHollow,
            ..CONDITIONAL
        },
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        Habits { check: policy::check_validating, cells: Some(cells::cluster::policy), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        Habits { check: policy::check_validating_binding, cells: Some(cells::cluster::policy_binding), ..ADMISSION },
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        Habits {
            check: webhook::check,
            cells: Some(cells::cluster::webhooks),
            counted: Counted::ContentAndHollow,
            ..CONDITIONAL
        },
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        Habits {
            counted: Counted::Content,
            read: crd::read,
            check: crd::check,
            cells: Some(crd::cells),
            ..CONDITIONAL
        },
    ),
    (
        "apiregistration.k8s.io",
        "APIService",
        Habits { check: cluster::check_api_service, cells: Some(cells::cluster::api_service), ..CONDITIONAL },
    ),
    (
        "apps",
        "DaemonSet",
        Habits {
            read: workload::read_daemon_set,
            prepare: workload::prepare_daemon_set,
            check: workload::check_daemon_set,
            cells: Some(cells::workload::daemon_set),
            ..COUNTED
        },
    ),
    (
        "apps",
        "Deployment",
        Habits {
            check: workload::check_deployment,
            cells: Some(cells::workload::deployment),
            counted: Counted::ContentAndAnnotations,
            ..PLAIN
        },
    ),
    (
        "apps",
        "ReplicaSet",
        Habits { check: workload::check_replica_set, cells: Some(cells::workload::replica_set), ..COUNTED },
    ),
    (
        "apps",
        "StatefulSet",
        Habits {
            name_rule: NameRule::Label,
            prepare: workload::prepare_stateful_set,
            check: workload::check_stateful_set,
            cells: Some(cells::workload::stateful_set),
            ..COUNTED
        },
    ),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        Habits {
            read: autoscaler::read,
            prepare: autoscaler::prepare,
            check: scaling::check,
            cells: Some(cells::workload::autoscaler),
            counted: Counted::ContentAndNotes,
            ..COUNTED
        },
    ),
    ("batch", "CronJob", Habits { check: workload::cron::check, cells: Some(cells::workload::cron_job), ..COUNTED }),
    (
        "batch",
        "Job",
        Habits {
            prepare: workload::job::prepare,
            check: workload::job::check,
            cells: Some(cells::workload::job),
            ..COUNTED
        },
    ),
    ("certificates.k8s.io", "ClusterTrustBundle", Habits { cells: Some(cells::cluster::trust_bundle), ..CONDITIONAL }),
    (
        "certificates.k8s.io",
        "PodCertificateRequest",
        Habits { cells: Some(cells::cluster::pod_certificate), ..CONDITIONAL },
    ),
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
    (
        "discovery.k8s.io",
        "EndpointSlice",
        Habits {
            check: network::endpoints::check_slice,
            cells: Some(cells::network::endpoint_slice),
            counted: Counted::ContentAndLabels,
            ..PLAIN
        },
    ),
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
    (
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        Habits { check: flow::check_schema, cells: Some(cells::cluster::flow_schema), ..COUNTED },
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        Habits { check: flow::check_level, cells: Some(cells::cluster::priority_level), ..COUNTED },
    ),
    (
        "networking.k8s.io",
        "Ingress",
        Habits { check: network::ingress::check, cells: Some(cells::network::ingress), ..COUNTED },
    ),
    (
        "networking.k8s.io",
        "IngressClass",
        Habits { check: network::ingress::check_class, cells: Some(cells::network::ingress_class), ..COUNTED },
    ),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        Habits {
            check: network::policy::check,
            cells: Some(cells::network::network_policy),
            counted: Counted::ContentAndHollow,
            ..PLAIN
        },
    ),
    (
        "node.k8s.io",
        "RuntimeClass",
        Habits {
            check: cluster::check_runtime_class,
            cells: Some(cells::cluster::runtime_class),
            create_on_update: true,
            ..CONDITIONAL
        },
    ),
    (
        "policy",
        "PodDisruptionBudget",
        Habits {
            check: workload::check_disruption_budget,
            cells: Some(cells::workload::disruption_budget),
            counted: Counted::Content,
            ..CONDITIONAL
        },
    ),
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
    ("resource.k8s.io", "DeviceClass", Habits { check: cluster::check_device_class, returned: true, ..COUNTED }),
    ("resource.k8s.io", "DeviceTaintRule", Habits { cells: Some(cells::cluster::taint_rule), ..COUNTED }),
    ("resource.k8s.io", "ResourceClaim", Habits { cells: Some(cells::cluster::resource_claim), ..RETURNED }),
    ("resource.k8s.io", "ResourceClaimTemplate", RETURNED),
    (
        "resource.k8s.io",
        "ResourceSlice",
        Habits { cells: Some(cells::cluster::resource_slice), returned: true, ..COUNTED },
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        Habits {
            check: cluster::check_priority_class,
            cells: Some(cells::cluster::priority_class),
            counted: Counted::Once,
            ..PLAIN
        },
    ),
    (
        "storage.k8s.io",
        "CSIDriver",
        Habits { check: storage::check_driver, cells: Some(cells::storage::driver), returned: true, ..CONDITIONAL },
    ),
    (
        "storage.k8s.io",
        "CSINode",
        Habits { check: storage::check_node, cells: Some(cells::storage::node), returned: true, ..CONDITIONAL },
    ),
    ("storage.k8s.io", "CSIStorageCapacity", Habits { check: storage::check_capacity, ..CONDITIONAL }),
    (
        "storage.k8s.io",
        "StorageClass",
        Habits { check: storage::check_storage_class, cells: Some(cells::storage::storage_class), ..RETURNED },
    ),
    (
        "storage.k8s.io",
        "VolumeAttachment",
        Habits {
            check: storage::check_attachment,
            cells: Some(cells::storage::attachment),
            returned: true,
            ..CONDITIONAL
        },
    ),
    (
        "storage.k8s.io",
        "VolumeAttributesClass",
        Habits { check: storage::check_attributes_class, cells: Some(cells::storage::attributes_class), ..RETURNED },
    ),
    (
        "storagemigration.k8s.io",
        "StorageVersionMigration",
        Habits { cells: Some(cells::cluster::migration), ..CONDITIONAL },
    ),
    (
        "apps",
        "ControllerRevision",
        Habits { check: cluster::check_revision, cells: Some(cells::workload::controller_revision), ..PLAIN },
    ),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        Habits {
            prepare: certificate::prepare,
            check: certificate::check,
            cells: Some(cells::cluster::signing_request),
            ..PLAIN
        },
    ),
    ("networking.k8s.io", "IPAddress", Habits { cells: Some(cells::network::address), ..PLAIN }),
    ("networking.k8s.io", "ServiceCIDR", Habits { cells: Some(cells::network::service_range), ..PLAIN }),
];
