"""Writes crates/model/schema/src/protobuf.txt: which number a field has on the wire and what it is called in JSON, as
facts read from the struct tags of Kubernetes' Go types (which `cargo xtask reference` has put into Go's module cache).

    python3 xtask/reference/protobuf.py ~/go/pkg/mod/k8s.io v0.37.1 > crates/model/schema/src/protobuf.txt

One line for each message: `package.Name number:name:type …`. Types: s text, y bytes, b bool, i integer, d double,
t Time, u MicroTime, f FieldsV1, or a message; `[]` before it: many, `{}`: a map with text keys, `?`: there even if it
is zero (a pointer in Go). A line `= apiVersion kind message` says which message a kind is.
"""

import re
import sys

ROOT, VERSION = sys.argv[1], sys.argv[2]
PACKAGES = {
    "meta": f"{ROOT}/apimachinery@{VERSION}/pkg/apis/meta/v1/types.go",
    "core": f"{ROOT}/api@{VERSION}/core/v1/types.go",
    "events": f"{ROOT}/api@{VERSION}/events/v1/types.go",
    "coordination": f"{ROOT}/api@{VERSION}/coordination/v1/types.go",
    "rbac": f"{ROOT}/api@{VERSION}/rbac/v1/types.go",
    "authorization": f"{ROOT}/api@{VERSION}/authorization/v1/types.go",
    "authentication": f"{ROOT}/api@{VERSION}/authentication/v1/types.go",
}
# How Go files name the packages they import.
ALIASES = {"metav1": "meta", "corev1": "core", "v1": "core", "types": "meta"}
KINDS = {
    "v1": ("core", "Namespace ConfigMap Secret ServiceAccount Event"),
    "events.k8s.io/v1": ("events", "Event"),
    "coordination.k8s.io/v1": ("coordination", "Lease"),
    "rbac.authorization.k8s.io/v1": ("rbac", "Role ClusterRole RoleBinding ClusterRoleBinding"),
    "authorization.k8s.io/v1": (
        "authorization",
        "SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview SelfSubjectRulesReview",
    ),
    "authentication.k8s.io/v1": ("authentication", "SelfSubjectReview TokenReview TokenRequest"),
    # Options come in any group.
    "*": ("meta", "DeleteOptions"),
}
SCALARS = {"string": "s", "bool": "b", "int32": "i", "int64": "i", "int": "i", "float64": "d"}
SPECIAL = {"meta.Time": "t", "meta.MicroTime": "u", "meta.FieldsV1": "f", "meta.UID": "s"}


def sources():
    structs, names = {}, {}
    for package, path in PACKAGES.items():
        text = re.sub(r"//[^\n]*", "", open(path).read())
        for name, body in re.findall(r"^type (\w+) struct \{(.*?)^\}", text, re.S | re.M):
            structs[f"{package}.{name}"] = (package, body)
        for name, meaning in re.findall(r"^type (\w+) ((?:\[\])?\w+)$", text, re.M):
            names[f"{package}.{name}"] = meaning
    return structs, names


STRUCTS, NAMES = sources()
FIELD = re.compile(r"^\s*(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*)`", re.M)


def kind_of(go, package, needed):
    if go.startswith("map[string]"):
        return "{}" + kind_of(go[len("map[string]"):], package, needed)
    if go == "[]byte":
        return "y"
    if go.startswith("[]"):
        return "[]" + kind_of(go[2:], package, needed)
    if go in SCALARS:
        return SCALARS[go]
    if "." in go:
        alias, name = go.split(".")
        full = f"{ALIASES[alias]}.{name}"
    else:
        full = f"{package}.{go}"
    if full in SPECIAL:
        return SPECIAL[full]
    if full in STRUCTS:
        needed.append(full)
        return full
    meaning = NAMES[full]
    if meaning.startswith("[]"):
        # A list with a name of its own is a message with one field.
        return "list"
    return kind_of(meaning, full.split(".")[0], needed)


def fields(full, needed):
    package, body = STRUCTS[full]
    for _, go, tags in FIELD.findall(body):
        tag = dict(re.findall(r'(\w+):"([^"]*)"', tags))
        if "protobuf" not in tag:
            continue
        number = tag["protobuf"].split(",")[1]
        name, _, options = tag["json"].partition(",")
        pointer = go.startswith("*")
        kind = kind_of(go.lstrip("*"), package, needed)
        keeps = pointer and kind in ("s", "b", "i", "d") or kind in ("b", "i") and "omitempty" not in options
        yield int(number), f"{number}:{name}:{'?' if keeps else ''}{kind}"


def main():
    done, pending = {}, []
    for version, (package, kinds) in KINDS.items():
        for kind in kinds.split():
            print(f"= {version} {kind} {package}.{kind}")
            pending.append(f"{package}.{kind}")
    while pending:
        full = pending.pop()
        if full not in done:
            done[full] = [text for _, text in sorted(fields(full, pending))]
    print("list 1:items:[]s")
    for full in sorted(done):
        print(" ".join([full, *done[full]]))


main()
