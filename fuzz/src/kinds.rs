//! The kinds that inputs speak of. Choices are places in these tables: new ones go to their ends.

use concert_api::Gvk;
use serde_json::{Value, json};

/// A kind, and where its objects are.
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) name: &'static str,
    plural: &'static str,
    namespaced: bool,
}

const fn of_namespaces(api_version: &'static str, name: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, name, plural, namespaced: true }
}

const fn of_cluster(api_version: &'static str, name: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, name, plural, namespaced: false }
}

/// Those with objects that can be patched and applied; each has a [`Kind::sample`].
pub(crate) const PATCHED: [Kind; 8] = [
    of_namespaces("g.example/v1", "Thing", "things"),
    of_namespaces("v1", "ConfigMap", "configmaps"),
    of_namespaces("v1", "Pod", "pods"),
    of_namespaces("v1", "Service", "services"),
    of_namespaces("apps/v1", "Deployment", "deployments"),
    of_namespaces("v1", "ServiceAccount", "serviceaccounts"),
    of_namespaces("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    of_cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
];

/// Those with objects that can be sent whole.
pub(crate) const SENT: [Kind; 40] = [
    of_namespaces("g.example/v1", "Thing", "things"),
    of_namespaces("v1", "ConfigMap", "configmaps"),
    of_namespaces("v1", "Pod", "pods"),
    of_namespaces("v1", "Service", "services"),
    of_namespaces("apps/v1", "Deployment", "deployments"),
    of_namespaces("v1", "ServiceAccount", "serviceaccounts"),
    of_namespaces("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    of_cluster("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    of_namespaces("v1", "Endpoints", "endpoints"),
    of_namespaces("v1", "Event", "events"),
    of_namespaces("v1", "LimitRange", "limitranges"),
    of_cluster("v1", "Namespace", "namespaces"),
    of_cluster("v1", "Node", "nodes"),
    of_namespaces("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    of_cluster("v1", "PersistentVolume", "persistentvolumes"),
    of_namespaces("v1", "PodTemplate", "podtemplates"),
    of_namespaces("v1", "ReplicationController", "replicationcontrollers"),
    of_namespaces("v1", "ResourceQuota", "resourcequotas"),
    of_namespaces("v1", "Secret", "secrets"),
    of_cluster("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    of_cluster("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    of_cluster("apiregistration.k8s.io/v1", "APIService", "apiservices"),
    of_namespaces("apps/v1", "ControllerRevision", "controllerrevisions"),
    of_namespaces("apps/v1", "StatefulSet", "statefulsets"),
    of_cluster("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews"),
    of_namespaces("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    of_namespaces("batch/v1", "CronJob", "cronjobs"),
    of_namespaces("batch/v1", "Job", "jobs"),
    of_cluster("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests"),
    of_namespaces("coordination.k8s.io/v1", "Lease", "leases"),
    of_namespaces("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    of_namespaces("events.k8s.io/v1", "Event", "events"),
    of_cluster("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "flowschemas"),
    of_namespaces("networking.k8s.io/v1", "Ingress", "ingresses"),
    of_namespaces("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    of_namespaces("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    of_cluster("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    of_namespaces("resource.k8s.io/v1", "ResourceClaim", "resourceclaims"),
    of_cluster("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    of_namespaces("g.example/v2", "Thing", "things"),
];

impl Kind {
    /// The path of its objects.
    pub(crate) fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let namespace = if self.namespaced { "namespaces/default/" } else { "" };
        format!("/{root}/{}/{namespace}{}", self.api_version, self.plural)
    }

    pub(crate) fn gvk(&self) -> Gvk {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        Gvk::new(group, version, self.name)
    }

    /// An object of the kind; any, if it is not one of [`PATCHED`].
    pub(crate) fn sample(&self) -> Value {
        let mut object = self.content();
        object["apiVersion"] = self.api_version.into();
        object["kind"] = self.name.into();
        let name = if self.name == "CustomResourceDefinition" { "others.g.example" } else { "a" };
        object["metadata"] = json!({"name": name, "labels": {"app": "a"}});
        object
    }

    fn content(&self) -> Value {
        let container =
            json!({"name": "c", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "E", "value": "1"}]});
        let pod = json!({"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]});
        match self.name {
            "Thing" => json!({"spec": {"size": 1, "ports": [{"port": 1}], "tags": ["x"], "free": {"a": 1}}}),
            "ConfigMap" => json!({"data": {"k": "v"}}),
            "Pod" => json!({"spec": pod}),
            "Service" => json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}}),
            "Deployment" => json!({"spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": pod},
            }}),
            "ServiceAccount" => json!({"secrets": [{"name": "s"}]}),
            "HorizontalPodAutoscaler" => {
                json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}})
            }
            "CustomResourceDefinition" => {
                json!({"spec": definition("others", "Other", &json!({"type": "object"}))["spec"]})
            }
            _ => json!({}),
        }
    }
}

/// The schema of Things: one of every way to merge.
pub(crate) fn thing_schema() -> Value {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text,
        "target": {"x-kubernetes-int-or-string": true},
    }});
    let inner = json!({"type": "object", "additionalProperties": text});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "default": 3},
            "ratio": {"type": "number"},
            "on": {"type": "boolean"},
            "tier": {"type": "string", "pattern": "^[a-z]*$", "maxLength": 8},
            "entries": {"type": "object", "additionalProperties": text},
            "nested": {"type": "object", "additionalProperties": inner},
            "structs": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": text}}},
            "ports": {
                "type": "array", "items": port,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            },
            "named": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": text, "entries": inner}},
            },
            "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "numbers": {"type": "array", "items": {"type": "number"}, "x-kubernetes-list-type": "set"},
            "words": {"type": "array", "items": text},
            "choice": {"type": "object", "properties": {"a": text, "b": text}, "x-kubernetes-map-type": "atomic"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "maybe": {"type": "string", "nullable": true},
        }},
        "status": {"type": "object", "properties": {"phase": text}},
    }})
}

/// The definition of Things, in two versions.
pub(crate) fn thing_definition() -> Value {
    definition("things", "Thing", &thing_schema())
}

fn definition(plural: &str, kind: &str, schema: &Value) -> Value {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.g.example")},
        "spec": {
            "group": "g.example", "scope": "Namespaced", "versions": [version("v1", true), version("v2", false)],
            "names": {"plural": plural, "kind": kind},
        },
    })
}
