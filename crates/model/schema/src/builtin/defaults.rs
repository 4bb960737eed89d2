//! What the real server fills in when it reads an object, by the struct it fills it into.
//!
//! OpenAPI tells few of these; the rest is code in Go, mostly of constants: those are a table here. What depends on
//! other fields is a [`Hook`].

pub(super) mod hooks;

use serde_json::{Map, Value};

/// Fills in what depends on other fields of the same struct. Constants are in already.
pub(crate) type Hook = fn(&mut Map<String, Value>);

/// Struct, field, value as JSON.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("admissionregistration.v1.MatchResources", "matchPolicy", "\"Equivalent\""),
    ("admissionregistration.v1.MatchResources", "namespaceSelector", "{}"),
    ("admissionregistration.v1.MatchResources", "objectSelector", "{}"),
    ("admissionregistration.v1.MutatingAdmissionPolicySpec", "failurePolicy", "\"Fail\""),
    ("admissionregistration.v1.MutatingWebhook", "failurePolicy", "\"Fail\""),
    ("admissionregistration.v1.MutatingWebhook", "matchPolicy", "\"Equivalent\""),
    ("admissionregistration.v1.MutatingWebhook", "namespaceSelector", "{}"),
    ("admissionregistration.v1.MutatingWebhook", "objectSelector", "{}"),
    ("admissionregistration.v1.MutatingWebhook", "reinvocationPolicy", "\"Never\""),
    ("admissionregistration.v1.MutatingWebhook", "timeoutSeconds", "10"),
    ("admissionregistration.v1.NamedRuleWithOperations", "scope", "\"*\""),
    ("admissionregistration.v1.RuleWithOperations", "scope", "\"*\""),
    ("admissionregistration.v1.ServiceReference", "port", "443"),
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", "failurePolicy", "\"Fail\""),
    ("admissionregistration.v1.ValidatingWebhook", "failurePolicy", "\"Fail\""),
    ("admissionregistration.v1.ValidatingWebhook", "matchPolicy", "\"Equivalent\""),
    ("admissionregistration.v1.ValidatingWebhook", "namespaceSelector", "{}"),
    ("admissionregistration.v1.ValidatingWebhook", "objectSelector", "{}"),
    ("admissionregistration.v1.ValidatingWebhook", "timeoutSeconds", "10"),
    ("apiregistration.v1.ServiceReference", "port", "443"),
    ("apps.v1.DaemonSetSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.DaemonSetUpdateStrategy", "type", "\"RollingUpdate\""),
    ("apps.v1.DeploymentSpec", "progressDeadlineSeconds", "600"),
    ("apps.v1.DeploymentSpec", "replicas", "1"),
    ("apps.v1.DeploymentSpec", "revisionHistoryLimit", "10"),
    ("apps.v1.DeploymentStrategy", "type", "\"RollingUpdate\""),
    ("apps.v1.ReplicaSetSpec", "replicas", "1"),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenDeleted", "\"Retain\""),
    ("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy", "whenScaled", "\"Retain\""),
    ("apps.v1.StatefulSetSpec", "persistentVolumeClaimRetentionPolicy", "{}"),
    ("apps.v1.StatefulSetSpec", "podManagementPolicy", "\"OrderedReady\""),
    ("apps.v1.StatefulSetSpec", "replicas", "1"),
    ("apps.v1.StatefulSetSpec", "revisionHistoryLimit", "10"),
    ("autoscaling.v1.HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas", "1"),
    ("batch.v1.CronJobSpec", "concurrencyPolicy", "\"Allow\""),
    ("batch.v1.CronJobSpec", "failedJobsHistoryLimit", "1"),
    ("batch.v1.CronJobSpec", "successfulJobsHistoryLimit", "3"),
    ("batch.v1.CronJobSpec", "suspend", "false"),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", "status", "\"True\""),
    ("core.v1.AzureDiskVolumeSource", "readOnly", "false"),
    ("core.v1.ConfigMapVolumeSource", "defaultMode", "420"),
    ("core.v1.Container", "terminationMessagePath", "\"/dev/termination-log\""),
    ("core.v1.Container", "terminationMessagePolicy", "\"File\""),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode", "420"),
    ("core.v1.EndpointPort", "protocol", "\"TCP\""),
    ("core.v1.EphemeralContainer", "terminationMessagePath", "\"/dev/termination-log\""),
    ("core.v1.EphemeralContainer", "terminationMessagePolicy", "\"File\""),
    ("core.v1.GRPCAction", "service", "\"\""),
    ("core.v1.HTTPGetAction", "path", "\"/\""),
    ("core.v1.HTTPGetAction", "scheme", "\"HTTP\""),
    ("core.v1.HostPathVolumeSource", "type", "\"\""),
    ("core.v1.NamespaceStatus", "phase", "\"Active\""),
    ("core.v1.ObjectFieldSelector", "apiVersion", "\"v1\""),
    ("core.v1.PersistentVolumeClaimSpec", "volumeMode", "\"Filesystem\""),
    ("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy", "\"Retain\""),
    ("core.v1.PersistentVolumeSpec", "volumeMode", "\"Filesystem\""),
    ("core.v1.PodSpec", "dnsPolicy", "\"ClusterFirst\""),
    ("core.v1.PodSpec", "restartPolicy", "\"Always\""),
    ("core.v1.PodSpec", "schedulerName", "\"default-scheduler\""),
    ("core.v1.PodSpec", "securityContext", "{}"),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", "30"),
    ("core.v1.Probe", "failureThreshold", "3"),
    ("core.v1.Probe", "periodSeconds", "10"),
    ("core.v1.Probe", "successThreshold", "1"),
    ("core.v1.Probe", "timeoutSeconds", "1"),
    ("core.v1.ProjectedVolumeSource", "defaultMode", "420"),
    ("core.v1.Secret", "type", "\"Opaque\""),
    ("core.v1.SecretVolumeSource", "defaultMode", "420"),
    ("core.v1.ServiceAccountTokenProjection", "expirationSeconds", "3600"),
    ("core.v1.ServiceSpec", "sessionAffinity", "\"None\""),
    ("core.v1.ServiceSpec", "type", "\"ClusterIP\""),
    ("discovery.v1.EndpointPort", "name", "\"\""),
    ("discovery.v1.EndpointPort", "protocol", "\"TCP\""),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", "lendablePercent", "0"),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", "nominalConcurrencyShares", "0"),
    ("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence", "1000"),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", "lendablePercent", "0"),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares", "30"),
    ("flowcontrol.v1.QueuingConfiguration", "handSize", "8"),
    ("flowcontrol.v1.QueuingConfiguration", "queueLengthLimit", "50"),
    ("flowcontrol.v1.QueuingConfiguration", "queues", "64"),
    ("networking.v1.IngressClassParametersReference", "scope", "\"Cluster\""),
    ("networking.v1.NetworkPolicyPort", "protocol", "\"TCP\""),
    ("rbac.v1.RoleRef", "apiGroup", "\"rbac.authorization.k8s.io\""),
    ("scheduling.v1.PriorityClass", "preemptionPolicy", "\"PreemptLowerPriority\""),
    ("storage.v1.CSIDriverSpec", "attachRequired", "true"),
    ("storage.v1.CSIDriverSpec", "fsGroupPolicy", "\"ReadWriteOnceWithFSType\""),
    ("storage.v1.CSIDriverSpec", "podInfoOnMount", "false"),
    ("storage.v1.CSIDriverSpec", "preventPodSchedulingIfMissing", "false"),
    ("storage.v1.CSIDriverSpec", "requiresRepublish", "false"),
    ("storage.v1.CSIDriverSpec", "seLinuxMount", "false"),
    ("storage.v1.CSIDriverSpec", "storageCapacity", "false"),
    ("storage.v1.CSIDriverSpec", "volumeLifecycleModes", "[\"Persistent\"]"),
    ("storage.v1.StorageClass", "reclaimPolicy", "\"Delete\""),
    ("storage.v1.StorageClass", "volumeBindingMode", "\"Immediate\""),
];

/// What a field of a struct is by itself.
pub(crate) fn constant(structure: &str, field: &str) -> Option<Value> {
    let row = CONSTANTS.iter().find(|(name, at, _)| (*name, *at) == (structure, field))?;
    serde_json::from_str(row.2).ok()
}

/// What else is filled into a struct.
pub(crate) fn hook(structure: &str) -> Option<Hook> {
    hooks::HOOKS.iter().find(|(name, _)| *name == structure).map(|(_, hook)| *hook)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::data;

    #[test]
    fn every_default_has_its_field() {
        for (structure, field, value) in CONSTANTS {
            let known = data::flat_fields(structure).iter().any(|one| one.name == *field);
            assert!(known, "{structure} has no {field}");
            assert!(serde_json::from_str::<Value>(value).is_ok(), "{value}");
        }
        for (structure, _) in hooks::HOOKS {
            assert!(data::known(structure).is_some(), "no {structure}");
        }
    }
}
