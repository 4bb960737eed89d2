package main

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func entriesOf(list []any) []metav1.ManagedFieldsEntry {
	raw, err := json.Marshal(list)
	check(err)
	entries := []metav1.ManagedFieldsEntry{}
	check(json.Unmarshal(raw, &entries))
	return entries
}

// owners are managers of which some own the number of replicas, at most one entry for each.
func owners(g *gen, versions ...string) []any {
	entries := []any{}
	for _, name := range []string{"a", "b", "c", "d"}[:g.Intn(5)] {
		entry := object{
			"manager": name, "operation": g.pick("Apply", "Update"), "apiVersion": g.pick(versions...), "fieldsType": "FieldsV1",
			"fieldsV1": object{"f:spec": object{"f:" + g.pick("replicas", "replicas", "image"): object{}, "f:" + g.pick("replicas", "x"): object{}}},
			"time":     g.pick("2019-01-01T00:00:00Z", "2019-01-01T00:00:01Z"),
		}
		if g.one(3) {
			entry["subresource"] = "scale"
		}
		entries = append(entries, entry)
	}
	return entries
}

func scaleCase(g *gen) any {
	parent := owners(g, "g/v1", "g/v1", "g/v2", "g/v0")
	paths := managedfields.ResourcePathMappings{"g/v1": fieldpath.MakePathOrDie("spec", "replicas"), "g/v2": nil}
	handler := managedfields.NewScaleHandler(entriesOf(parent), k8s.GroupVersion{Group: "g", Version: "v1"}, paths)
	seen, err := handler.ToSubresource()
	check(err)
	scale := copied(seen)
	if g.one(2) || scale == nil {
		scale = owners(g, "autoscaling/v1")
	} else if list := scale.([]any); len(list) > 0 && g.one(2) {
		scale = list[1:]
	}
	back, err := handler.ToParent(entriesOf(scale.([]any)))
	check(err)
	return object{"parent": parent, "seen": copied(seen), "scale": scale, "back": copied(back)}
}
