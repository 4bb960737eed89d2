package main

import (
	"encoding/json"
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// kinds that cases are made of; those of the first line are in every version of our tables.
var kinds = []string{
	"v1 ServiceAccount", "v1 ConfigMap", "v1 Secret", "v1 Namespace", "rbac.authorization.k8s.io/v1 ClusterRole", "coordination.k8s.io/v1 Lease",
	"apps/v1 Deployment", "v1 Service", "v1 Pod", "v1 PersistentVolume", "policy/v1 PodDisruptionBudget", "apps/v1 StatefulSet", "batch/v1 CronJob",
	"networking.k8s.io/v1 Ingress", "autoscaling/v2 HorizontalPodAutoscaler", "v1 PersistentVolumeClaim", "v1 Node", "networking.k8s.io/v1 NetworkPolicy",
	"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", "storage.k8s.io/v1 StorageClass", "v1 ResourceQuota", "apps/v1 ControllerRevision",
}

type builtins struct {
	models    map[string]*spec.Schema
	converter managedfields.TypeConverter
	names     map[k8s.GroupVersionKind]string
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

func gvkOf(kind string) k8s.GroupVersionKind {
	for i := range kind {
		if kind[i] == ' ' {
			return k8s.FromAPIVersionAndKind(kind[:i], kind[i+1:])
		}
	}
	panic(kind)
}

func newBuiltins() *builtins {
	b := &builtins{names: map[k8s.GroupVersionKind]string{}}
	config := genericapiserver.DefaultOpenAPIV3Config(generated.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(scheme.Scheme))
	names := []string{}
	for _, kind := range kinds {
		sample, err := scheme.Scheme.New(gvkOf(kind))
		check(err)
		names = append(names, openapiutil.GetCanonicalTypeName(sample))
	}
	var err error
	b.models, err = builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	check(err)
	b.converter, err = managedfields.NewTypeConverter(b.models, false)
	check(err)
	for name, model := range b.models {
		for _, gvk := range asList(model.Extensions["x-kubernetes-group-version-kind"]) {
			g := gvk.(map[string]any)
			b.names[k8s.GroupVersionKind{Group: g["group"].(string), Version: g["version"].(string), Kind: g["kind"].(string)}] = name
		}
	}
	return b
}

func asList(v any) []any { list, _ := v.([]any); return list }

// value makes a value for a model, deep enough to be of interest.
func (b *builtins) value(g *gen, s *spec.Schema, depth int) any {
	ref := s.Ref.String()
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref.String()
	}
	if ref != "" {
		name := ref[len("#/components/schemas/"):]
		switch name {
		case "io.k8s.apimachinery.pkg.api.resource.Quantity":
			return g.pick("1", "2")
		case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
			return []any{int64(1), "50%"}[g.Intn(2)]
		case "io.k8s.apimachinery.pkg.runtime.RawExtension":
			return object{"a": g.pick("x", "y")}
		case "io.k8s.apimachinery.pkg.apis.meta.v1.Time":
			return g.pick("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
		case "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":
			return "2020-01-01T00:00:00.000001Z"
		case "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":
			m := metadata(g)
			delete(m, "namespace")
			return m
		}
		return b.value(g, b.models[name], depth)
	}
	kind := ""
	if len(s.Type) > 0 {
		kind = s.Type[0]
	}
	switch kind {
	case "string":
		if s.Format == "byte" {
			return g.pick("YQ==", "Yg==")
		}
		return g.pick("x", "y", "z")
	case "integer", "number":
		return int64(1 + g.Intn(3))
	case "boolean":
		return g.one(2)
	case "array":
		return b.list(g, s, depth)
	}
	m := object{}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		for range 1 + g.Intn(2) {
			m[g.pick("p", "q", "r")] = b.value(g, s.AdditionalProperties.Schema, depth-1)
		}
	}
	names := []string{}
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if name == "apiVersion" || name == "kind" || name == "metadata" && depth == 9 {
			continue
		}
		rare := depth < 3 || len(names) > 12
		if g.one(2) || rare && !g.one(4) {
			continue
		}
		if depth > 0 {
			p := s.Properties[name]
			m[name] = b.value(g, &p, depth-1)
		}
	}
	return m
}

func (b *builtins) list(g *gen, s *spec.Schema, depth int) any {
	list, seen := []any{}, map[string]bool{}
	keys := []string{}
	for _, k := range asList(s.Extensions["x-kubernetes-list-map-keys"]) {
		keys = append(keys, k.(string))
	}
	if k, ok := s.Extensions["x-kubernetes-patch-merge-key"].(string); ok && len(keys) == 0 {
		keys = []string{k}
	}
	for range 1 + g.Intn(3) {
		item := b.value(g, s.Items.Schema, depth-1)
		text := ""
		if m, ok := item.(object); ok && len(keys) > 0 {
			for _, k := range keys {
				if p, ok := b.resolved(s.Items.Schema).Properties[k]; ok && (m[k] == nil && !g.one(6) || p.Default == nil) {
					m[k] = b.value(g, &p, depth-1)
				}
				raw, _ := json.Marshal(m[k])
				text += string(raw)
			}
		} else {
			raw, _ := json.Marshal(item)
			text = string(raw)
		}
		if !seen[text] {
			list = append(list, item)
		}
		seen[text] = true
	}
	return list
}

func (b *builtins) resolved(s *spec.Schema) *spec.Schema {
	ref := s.Ref.String()
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref.String()
	}
	if ref == "" {
		return s
	}
	return b.models[ref[len("#/components/schemas/"):]]
}

func (b *builtins) object(g *gen, gvk k8s.GroupVersionKind) object {
	o := b.value(g, b.models[b.names[gvk]], 9).(object)
	o["metadata"] = metadata(g)
	o["apiVersion"], o["kind"] = gvk.GroupVersion().String(), gvk.Kind
	return o
}

// typed reads an object as the server does.
func typed(o object, gvk k8s.GroupVersionKind) runtime.Object {
	into, err := scheme.Scheme.New(gvk)
	check(err)
	raw, err := json.Marshal(o)
	check(err)
	check(json.Unmarshal(raw, into))
	into.GetObjectKind().SetGroupVersionKind(gvk)
	return into
}

func builtinCase(g *gen, b *builtins, first int) any {
	gvk := gvkOf(kinds[g.Intn(first)])
	reset := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
	m, err := managedfields.NewDefaultFieldManager(b.converter, scheme.Scheme, noDefaults{}, scheme.Scheme, gvk, gvk.GroupVersion(), "", fieldpath.NewExcludeFilterSetMap(reset))
	check(err)
	empty := typed(object{}, gvk)
	live := empty
	steps := []any{}
	configs := map[string]object{}
	for n := 1; n <= 2+g.Intn(4); n++ {
		manager := g.pick("one", "two")
		fresh := b.object(g, gvk)
		step := object{"manager": manager, "live": copied(live)}
		var result runtime.Object
		var err error
		if g.one(2) {
			if old, ok := configs[manager]; ok && !g.one(3) {
				fresh = changed(g, copied(old), fresh, 4).(object)
			}
			configs[manager] = fresh
			step["op"], step["object"] = "apply", copied(fresh)
			step["force"] = !g.one(3)
			result, err = m.Apply(live.DeepCopyObject(), &unstructured.Unstructured{Object: copied(fresh).(object)}, manager, step["force"].(bool))
		} else {
			if n > 1 && !g.one(3) {
				fresh = changed(g, copied(live), fresh, 4).(object)
			}
			next := typed(fresh, gvk)
			next.(metav1.Object).SetUID(live.(metav1.Object).GetUID())
			next.(metav1.Object).SetManagedFields(nil)
			step["op"], step["object"] = "update", copied(next)
			result = m.UpdateNoErrors(live.DeepCopyObject(), next, manager)
		}
		if err != nil {
			step["error"] = failure(err)
		} else {
			live = result
			live.(metav1.Object).SetUID("u")
			raw := &unstructured.Unstructured{Object: copied(live).(object)}
			logical(raw, n)
			live = typed(raw.Object, gvk)
			step["result"] = copied(live)
		}
		steps = append(steps, step)
	}
	return object{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "empty": copied(empty), "steps": steps}
}
