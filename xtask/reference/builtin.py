"""Writes crates/model/schema/src/builtin.json: the schemas of the built-in kinds we serve, as facts asked of a real
kube-apiserver. Descriptions are left out; Go type names are kept for decode errors.

    python3 xtask/reference/builtin.py https://127.0.0.1:16443 TOKEN > crates/model/schema/src/builtin.json
"""

import json
import ssl
import sys
import urllib.request

ROOTS = {
    "api/v1": [
        "io.k8s.api.core.v1.Namespace",
        "io.k8s.api.core.v1.ConfigMap",
        "io.k8s.api.core.v1.Secret",
        "io.k8s.api.core.v1.ServiceAccount",
        "io.k8s.api.core.v1.Event",
        "io.k8s.api.authentication.v1.TokenRequest",
    ],
    "apis/events.k8s.io/v1": ["io.k8s.api.events.v1.Event"],
    "apis/coordination.k8s.io/v1": ["io.k8s.api.coordination.v1.Lease"],
    "apis/apiextensions.k8s.io/v1": [
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    ],
    "apis/rbac.authorization.k8s.io/v1": [
        "io.k8s.api.rbac.v1.Role",
        "io.k8s.api.rbac.v1.ClusterRole",
        "io.k8s.api.rbac.v1.RoleBinding",
        "io.k8s.api.rbac.v1.ClusterRoleBinding",
    ],
    "apis/authorization.k8s.io/v1": [
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        "io.k8s.api.authorization.v1.SubjectAccessReview",
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    ],
    "apis/authentication.k8s.io/v1": [
        "io.k8s.api.authentication.v1.SelfSubjectReview",
        "io.k8s.api.authentication.v1.TokenReview",
    ],
}
# Strings with a Go type of their own, which OpenAPI does not tell.
NAMED = {
    ("io.k8s.api.core.v1.Secret", "type"): "v1.SecretType",
    ("io.k8s.api.core.v1.NamespaceSpec", "finalizers[]"): "v1.FinalizerName",
    ("io.k8s.api.core.v1.NamespaceStatus", "phase"): "v1.NamespacePhase",
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec", "scope"): "v1.ResourceScope",
}
DROP = {"description", "x-kubernetes-group-version-kind", "title"}


def get(path):
    request = urllib.request.Request(f"{sys.argv[1]}/openapi/v3/{path}", headers={"Authorization": f"Bearer {sys.argv[2]}"})
    with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
        return json.load(answer)["components"]["schemas"]


def clean(node, needed):
    if isinstance(node, list):
        return [clean(one, needed) for one in node]
    if not isinstance(node, dict):
        return node
    # `allOf: [{$ref}]` is how a reference with a description or a default is written.
    inner = node.get("allOf")
    if inner and len(inner) == 1 and "$ref" in inner[0]:
        node = {**inner[0]}
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        needed.append(name)
        return {"$ref": name}
    result = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {name: clean(child, needed) for name, child in value.items()}
        elif key not in DROP and not (key == "default" and value in ({}, "", 0, False, None)):
            result[key] = clean(value, needed)
    return result


def main():
    definitions = {}
    for path, roots in ROOTS.items():
        source = get(path)
        pending = list(roots)
        while pending:
            name = pending.pop()
            if name in definitions:
                continue
            needed = []
            node = clean(source[name], needed)
            parts = name.split(".")
            if node.get("type") in ("object", "string") and parts[-1] not in ("JSON",):
                node["x-go-type"] = f"{parts[-2]}.{parts[-1]}"
            definitions[name] = node
            pending.extend(needed)
    for (name, field), go_type in NAMED.items():
        node = definitions[name]["properties"][field.removesuffix("[]")]
        (node["items"] if field.endswith("[]") else node)["x-go-type"] = go_type
    # What OpenAPI leaves open: any JSON, and a schema that may also be a bool or a list.
    apiextensions = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
    for name in [apiextensions + "JSON", apiextensions + "JSONSchemaPropsOrStringArray", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"]:
        definitions[name]["x-kubernetes-preserve-unknown-fields"] = True
    for name in ["JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray"]:
        definitions[apiextensions + name]["properties"] = definitions[apiextensions + "JSONSchemaProps"]["properties"]
    json.dump({"definitions": definitions}, sys.stdout, separators=(",", ":"), sort_keys=True)
    print()


main()
