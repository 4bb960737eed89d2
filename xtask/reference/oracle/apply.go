package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var group = "g.example"

// server is the smallest thing around the library: two versions, of which v2 calls spec.a spec.alpha.
type server struct {
	converter managedfields.TypeConverter
	schemas   map[string]object
}

func (s *server) New(k8s.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{}, nil
}
func (s *server) Default(runtime.Object)    {}
func (s *server) Convert(_, _, _ any) error { panic("not asked for") }
func (s *server) ConvertFieldLabel(_ k8s.GroupVersionKind, _, _ string) (string, string, error) {
	panic("not asked for")
}

func (s *server) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	to := gv.(k8s.GroupVersion)
	from := in.GetObjectKind().GroupVersionKind().GroupVersion()
	if to == from {
		return in, nil
	}
	if to.Group != group || s.schemas[to.Version] == nil {
		return nil, runtime.NewNotRegisteredErrForKind("oracle", to.WithKind("Thing"))
	}
	out := in.DeepCopyObject().(*unstructured.Unstructured)
	out.SetAPIVersion(to.String())
	if spec, ok := out.Object["spec"].(object); ok {
		old, new := "a", "alpha"
		if to.Version == "v1" {
			old, new = new, old
		}
		if v, ok := spec[old]; ok {
			delete(spec, old)
			spec[new] = v
		}
	}
	return out, nil
}

func newServer(v1 object, both bool) *server {
	s := &server{schemas: map[string]object{"v1": v1}}
	if both {
		v2 := copied(v1).(object)
		properties := v2["properties"].(object)["spec"].(object)["properties"].(object)
		properties["alpha"] = properties["a"]
		delete(properties, "a")
		s.schemas["v2"] = v2
	}
	crd := &apiextensions.CustomResourceDefinition{}
	crd.Name = "things." + group
	crd.Spec.Group = group
	crd.Spec.Scope = "Namespaced"
	crd.Spec.Names = apiextensions.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"}
	crd.Status.AcceptedNames = crd.Spec.Names
	for _, name := range []string{"v1", "v2"} {
		if s.schemas[name] == nil {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		raw, _ := json.Marshal(s.schemas[name])
		check(json.Unmarshal(raw, props))
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: name == "v1",
			Schema:       &apiextensions.CustomResourceValidation{OpenAPIV3Schema: props},
			Subresources: &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}},
		})
	}
	first, err := builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
	check(err)
	if both {
		second, err := builder.BuildOpenAPIV3(crd, "v2", builder.Options{})
		check(err)
		first, err = builder.MergeSpecsV3(first, second)
		check(err)
	}
	s.converter, err = managedfields.NewTypeConverter(first.Components.Schemas, false)
	check(err)
	return s
}

func (s *server) manager(version, subresource string) *managedfields.FieldManager {
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	if subresource == "" {
		reset[fieldpath.APIVersion(group+"/"+version)] = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	} else {
		for v := range s.schemas {
			reset[fieldpath.APIVersion(group+"/"+v)] = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"))
		}
	}
	gv := k8s.GroupVersion{Group: group, Version: version}
	hub := k8s.GroupVersion{Group: group, Version: "v1"}
	m, err := managedfields.NewDefaultCRDFieldManager(s.converter, s, s, s, gv.WithKind("Thing"), hub, subresource, fieldpath.NewExcludeFilterSetMap(reset))
	check(err)
	return m
}

func failure(err error) object {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return object{"code": 500, "message": err.Error()}
	}
	s := status.Status()
	causes := []object{}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			causes = append(causes, object{"reason": c.Type, "message": c.Message, "field": c.Field})
		}
	}
	sort.SliceStable(causes, func(i, j int) bool { return fmt.Sprint(causes[i]) < fmt.Sprint(causes[j]) })
	return object{"code": s.Code, "message": s.Message, "causes": causes}
}

// logical replaces the time of the wall clock by that of the step.
func logical(o *unstructured.Unstructured, step int) {
	at := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, step, 0, time.UTC))
	entries := o.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil && entries[i].Time.Year() > 2020 {
			entries[i].Time = &at
		}
	}
	if entries != nil {
		o.SetManagedFields(entries)
	}
}

func applyCase(g *gen) any {
	s := newServer(rootSchema(g), g.one(3))
	wild := g.one(3)
	var live *unstructured.Unstructured
	configs := map[string]object{}
	steps := []any{}
	for n := 1; n <= 3+g.Intn(6); n++ {
		version := "v1"
		if s.schemas["v2"] != nil && g.one(2) {
			version = "v2"
		}
		subresource := ""
		if live != nil && g.one(5) {
			subresource = "status"
		}
		manager := g.pick("one", "two", "three", "kubectl")
		before := &unstructured.Unstructured{Object: object{"apiVersion": group + "/" + version, "kind": "Thing"}}
		if live != nil {
			converted, err := s.ConvertToVersion(live, k8s.GroupVersion{Group: group, Version: version})
			check(err)
			before = converted.(*unstructured.Unstructured).DeepCopy()
		}
		step := object{"version": version, "subresource": subresource, "manager": manager}
		fresh := whole(g, s.schemas[version], version, wild)
		apply := g.one(2)
		run := func() (runtime.Object, error) { return nil, nil }
		if apply {
			id := manager + version + subresource
			config := fresh
			if old, ok := configs[id]; ok && !g.one(3) {
				config = changed(g, copied(old), fresh, 4).(object)
			} else if live != nil && g.one(3) {
				config = changed(g, copied(before.Object), fresh, 5).(object)
				config["metadata"] = metadata(g)
			}
			if g.one(40) {
				config["metadata"].(object)["managedFields"] = []any{}
			}
			force := g.one(2)
			configs[id] = config
			step["op"], step["force"], step["object"] = "apply", force, copied(config)
			run = func() (runtime.Object, error) {
				return s.manager(version, subresource).Apply(before.DeepCopy(), &unstructured.Unstructured{Object: copied(config).(object)}, manager, force)
			}
		} else {
			next := fresh
			if live != nil && !g.one(3) {
				next = changed(g, copied(before.Object), fresh, 4).(object)
			}
			next["metadata"] = copied(next["metadata"])
			sentManaged(g, before, next["metadata"].(object))
			if live != nil {
				next["metadata"].(object)["uid"] = "u"
			}
			if g.one(4) {
				clientSide(next)
			}
			step["op"], step["object"] = "update", copied(next)
			run = func() (runtime.Object, error) {
				return s.manager(version, subresource).UpdateNoErrors(before.DeepCopy(), &unstructured.Unstructured{Object: copied(next).(object)}, manager), nil
			}
		}
		result, err := run()
		if err != nil {
			step["error"] = failure(err)
			for range 30 {
				if _, again := run(); again == nil || again.Error() != err.Error() {
					step["error"].(object)["message"] = "*"
				}
			}
		} else {
			live = result.(*unstructured.Unstructured)
			if live.GetUID() == "" {
				live.SetUID("u")
			}
			logical(live, n)
			step["result"] = copied(live.Object)
			live = &unstructured.Unstructured{Object: copied(live.Object).(object)}
		}
		steps = append(steps, step)
	}
	return object{"schema": s.schemas["v1"], "second": s.schemas["v2"], "steps": steps}
}

// clientSide does what kubectl does without --server-side.
func clientSide(next object) {
	config := copied(next).(object)
	config["metadata"] = object{"name": "n", "namespace": "ns"}
	raw, err := json.Marshal(config)
	check(err)
	annotations, ok := next["metadata"].(object)["annotations"].(object)
	if !ok {
		annotations = object{}
	}
	annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(raw)
	next["metadata"].(object)["annotations"] = annotations
}

// sentManaged is what clients do with managedFields.
func sentManaged(g *gen, live *unstructured.Unstructured, metadata object) {
	switch g.Intn(14) {
	case 0:
		metadata["managedFields"] = []any{}
	case 1:
		metadata["managedFields"] = []any{object{}}
	case 2:
		metadata["managedFields"] = []any{object{"manager": "x", "operation": "Patch", "apiVersion": group + "/v1"}}
	case 3:
		metadata["managedFields"] = crowd(g)
	case 4, 5, 6, 7:
		delete(metadata, "managedFields")
	default:
		delete(metadata, "managedFields")
		if entries := live.GetManagedFields(); entries != nil {
			metadata["managedFields"] = copied(entries)
		}
	}
}

// crowd is more managers than are kept, some of a version that is gone, some of the same second.
func crowd(g *gen) []any {
	entries := []any{}
	for n := range 3 + g.Intn(12) {
		name := fmt.Sprintf("m%02d", n)
		if g.one(10) {
			name = "ancient-changes"
		}
		entry := object{
			"manager": name, "operation": "Update", "apiVersion": group + "/" + g.pick("v1", "v1", "v1", "v2", "v0"),
			"fieldsType": "FieldsV1",
			"fieldsV1":   object{"f:spec": object{"f:" + g.pick("a", "b", "c", "d"): g.children(2), "f:" + g.pick("a", "b"): object{}}},
			"time":       fmt.Sprintf("2019-01-01T00:00:%02dZ", g.Intn(4)),
		}
		if g.one(6) {
			entry["operation"] = "Apply"
		}
		if g.one(8) {
			entry["subresource"] = "status"
		}
		entries = append(entries, entry)
	}
	return entries
}

func (g *gen) children(depth int) object {
	o := object{}
	if depth == 0 || g.one(3) {
		return o
	}
	for range 1 + g.Intn(2) {
		key := g.pick("f:a", "f:b", "f:p", "k:{\"k\":\"x\"}", "k:{\"k\":1,\"l\":\"x\"}", "v:\"x\"", "v:1", "i:0", ".", "x:new")
		o[key] = g.children(depth - 1)
	}
	return o
}
