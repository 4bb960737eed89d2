package main

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Root has a field for every way of merging.
type Root struct {
	Items   []Item            `json:"items,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	Both    []Item            `json:"both,omitempty" patchStrategy:"merge,retainKeys" patchMergeKey:"name"`
	Plain   []Item            `json:"plain,omitempty"`
	Keyless []Sub             `json:"keyless,omitempty" patchStrategy:"merge"`
	Tags    []string          `json:"tags,omitempty" patchStrategy:"merge"`
	Numbers []int64           `json:"numbers,omitempty" patchStrategy:"merge"`
	Words   []string          `json:"words,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Sub     Sub               `json:"sub,omitempty" patchStrategy:"retainKeys"`
	Whole   *Sub              `json:"whole,omitempty" patchStrategy:"replace"`
	Text    string            `json:"text,omitempty"`
}

// Item is an item of lists that have a merge key.
type Item struct {
	Name   string   `json:"name"`
	Value  string   `json:"value,omitempty"`
	Number int64    `json:"number,omitempty"`
	Tags   []string `json:"tags,omitempty" patchStrategy:"merge"`
	Parts  []Part   `json:"parts,omitempty" patchStrategy:"merge" patchMergeKey:"id"`
	Sub    *Sub     `json:"sub,omitempty"`
}

// Part has a number as its key.
type Part struct {
	ID   int64  `json:"id"`
	Text string `json:"text,omitempty"`
}

// Sub is an object in an object.
type Sub struct {
	A     string   `json:"a,omitempty"`
	B     string   `json:"b,omitempty"`
	Words []string `json:"words,omitempty"`
	Inner *Inner   `json:"inner,omitempty"`
}

// Inner is one more level.
type Inner struct {
	A    string   `json:"a,omitempty"`
	Tags []string `json:"tags,omitempty" patchStrategy:"merge"`
}

func reflected(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return reflected(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int64:
		return object{"type": "integer"}
	case reflect.Slice:
		return object{"type": "array", "items": reflected(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": reflected(t.Elem())}
	}
	properties := object{}
	for i := range t.NumField() {
		f := t.Field(i)
		s := reflected(f.Type)
		if v := f.Tag.Get("patchStrategy"); v != "" {
			s["x-kubernetes-patch-strategy"] = v
		}
		if v := f.Tag.Get("patchMergeKey"); v != "" {
			s["x-kubernetes-patch-merge-key"] = v
		}
		properties[strings.Split(f.Tag.Get("json"), ",")[0]] = s
	}
	return object{"type": "object", "properties": properties, "x-go-type": "oracle." + t.Name()}
}

// document makes a value for a schema; patches have directives, nulls and mistakes in them.
func document(g *gen, s object, patch bool) any {
	if patch && g.one(12) {
		return nil
	}
	if patch && g.one(60) {
		return anything(g, 1)
	}
	switch s["type"] {
	case "string":
		return g.pick("x", "y", "z", "w")
	case "integer":
		return int64(g.Intn(4))
	case "array":
		return documentList(g, s, patch)
	}
	m := object{}
	properties, _ := s["properties"].(object)
	if properties == nil {
		for range g.Intn(3) {
			m[g.pick("p", "q", "r")] = document(g, s["additionalProperties"].(object), patch)
		}
		return m
	}
	for _, name := range []string{"items", "both", "plain", "keyless", "tags", "numbers", "words", "labels", "sub", "whole", "text", "name", "value", "number", "parts", "id", "a", "b", "inner"} {
		p, ok := properties[name].(object)
		if !ok || (g.one(2) && name != "name" && name != "id") || (patch && name == "keyless" && !g.one(8)) {
			continue
		}
		m[name] = document(g, p, patch)
		if patch && p["type"] == "array" {
			directives(g, m, name, p)
		}
	}
	if patch && g.one(10) {
		m["$patch"] = g.pick("replace", "delete", "merge", "replace", "delete")
	}
	if patch && g.one(10) {
		keys := []any{}
		for name := range properties {
			if _, ok := m[name]; ok && !g.one(12) || g.one(5) {
				keys = append(keys, name)
			}
		}
		m["$retainKeys"] = keys
	}
	if patch && g.one(30) {
		m["$setElementOrder/"+g.pick("nothing", "labels", "text")] = []any{"x"}
	}
	return m
}

func documentList(g *gen, s object, patch bool) []any {
	list := []any{}
	seen := map[string]bool{}
	for range g.Intn(5) {
		item := document(g, s["items"].(object), patch && s["items"].(object)["type"] == "object" && g.one(2))
		if item == nil {
			continue
		}
		key := fmt.Sprint(item)
		if m, ok := item.(object); ok {
			key = fmt.Sprint(m["name"], m["id"])
		}
		if seen[key] && !g.one(6) {
			continue
		}
		seen[key] = true
		list = append(list, item)
	}
	return list
}

func directives(g *gen, m object, name string, s object) {
	items := s["items"].(object)
	if items["type"] != "object" && g.one(4) {
		m["$deleteFromPrimitiveList/"+name] = documentList(g, s, false)
		if g.one(2) {
			delete(m, name)
		}
	}
	if !g.one(3) {
		return
	}
	order := []any{}
	if list, ok := m[name].([]any); ok {
		for _, item := range list {
			if o, ok := item.(object); ok {
				key := fmt.Sprint(s["x-kubernetes-patch-merge-key"])
				order = append(order, object{key: o[key]})
			} else {
				order = append(order, item)
			}
		}
	}
	for _, more := range documentList(g, s, false) {
		if o, ok := more.(object); ok {
			key := fmt.Sprint(s["x-kubernetes-patch-merge-key"])
			more = object{key: o[key]}
		}
		at := g.Intn(len(order) + 1)
		order = append(order[:at], append([]any{more}, order[at:]...)...)
	}
	if g.one(12) {
		g.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	m["$setElementOrder/"+name] = order
	if g.one(4) {
		delete(m, name)
	}
}

func patched(original, patch object) (result any, failed object) {
	defer func() {
		if recover() != nil {
			failed = object{"code": 500, "message": "This request caused apiserver to panic. Look in the logs for details."}
		}
	}()
	// As the server makes it: slices without room to grow, which merging would write to.
	live := runtime.DeepCopyJSON(copied(original).(object))
	done, err := strategicpatch.StrategicMergeMapPatch(live, copied(patch).(object), &Root{})
	switch err {
	case nil:
		return copied(map[string]any(done)), nil
	case mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys, mergepatch.ErrBadPatchFormatForSetElementOrderList:
		return nil, object{"code": 400, "message": err.Error()}
	case mergepatch.ErrNoListOfLists:
		return nil, object{"code": 422, "message": err.Error()}
	}
	return nil, object{"code": 500, "message": err.Error()}
}

func strategicCase(g *gen) any {
	s := reflected(reflect.TypeFor[Root]())
	original, _ := document(g, s, false).(object)
	patch, ok := document(g, s, true).(object)
	if !ok {
		patch = object{}
	}
	made := object{"document": copied(original), "patch": copied(patch)}
	result, failed := patched(original, patch)
	// Go walks maps in any order: what depends on it is no case.
	for range 60 {
		again, alike := patched(original, patch)
		if fmt.Sprint(again, alike) != fmt.Sprint(result, failed) {
			return strategicCase(g)
		}
	}
	if failed == nil {
		made["result"] = result
	} else {
		made["error"] = failed
	}
	return made
}
