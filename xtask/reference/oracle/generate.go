package main

import (
	"fmt"
	"math/rand"

	kjson "sigs.k8s.io/json"
)

type gen struct{ *rand.Rand }
type object = map[string]any

func decoded(raw []byte) any {
	var v any
	check(kjson.UnmarshalCaseSensitivePreserveInts(raw, &v))
	return v
}

func (g *gen) pick(of ...string) string { return of[g.Intn(len(of))] }
func (g *gen) one(in int) bool          { return g.Intn(in) == 0 }

func scalarSchema(g *gen) object {
	switch g.Intn(8) {
	case 0:
		return object{"type": "integer"}
	case 1:
		return object{"type": "boolean"}
	case 2:
		return object{"type": "number"}
	case 3:
		return object{"x-kubernetes-int-or-string": true}
	case 4:
		return object{"type": "string", "format": "date-time"}
	default:
		return object{"type": "string"}
	}
}

func schema(g *gen, depth int) object {
	if depth == 0 || g.one(4) {
		return scalarSchema(g)
	}
	switch g.Intn(9) {
	case 0, 1:
		return structSchema(g, depth)
	case 2:
		s := structSchema(g, depth)
		s["x-kubernetes-map-type"] = g.pick("atomic", "granular")
		return s
	case 3:
		s := object{"type": "object", "additionalProperties": schema(g, depth-1)}
		if g.one(4) {
			s["x-kubernetes-map-type"] = "atomic"
		}
		return s
	case 4:
		s := object{"type": "array", "items": schema(g, depth-1)}
		if g.one(2) {
			s["x-kubernetes-list-type"] = "atomic"
		}
		return s
	case 5:
		return object{"type": "array", "x-kubernetes-list-type": "set", "items": object{"type": g.pick("string", "integer")}}
	case 6, 7:
		return keyedSchema(g, depth)
	default:
		switch g.Intn(4) {
		case 0:
			return object{"x-kubernetes-preserve-unknown-fields": true}
		case 1:
			return object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		case 2:
			return object{"type": "object"}
		default:
			s := structSchema(g, depth)
			s["x-kubernetes-preserve-unknown-fields"] = true
			return s
		}
	}
}

func structSchema(g *gen, depth int) object {
	properties := object{}
	for _, name := range []string{"a", "b", "c", "d"}[:1+g.Intn(4)] {
		s := schema(g, depth-1)
		if g.one(6) {
			s["nullable"] = true
		}
		properties[name] = s
	}
	return object{"type": "object", "properties": properties}
}

func keyedSchema(g *gen, depth int) object {
	items := structSchema(g, depth)
	properties := items["properties"].(object)
	keys, required := []any{"k"}, []any{}
	properties["k"] = object{"type": g.pick("string", "integer")}
	if g.one(2) {
		keys = append(keys, "l")
		properties["l"] = object{"type": "string", "default": "x"}
	}
	if g.one(4) {
		properties["k"].(object)["default"] = map[string]any{"string": "x", "integer": 1}[properties["k"].(object)["type"].(string)]
	} else {
		required = append(required, "k")
		items["required"] = required
	}
	return object{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}
}

func rootSchema(g *gen) object {
	return object{"type": "object", "properties": object{"spec": structSchema(g, 2+g.Intn(3)), "status": structSchema(g, 1+g.Intn(2))}}
}

func anything(g *gen, depth int) any {
	switch g.Intn(7) {
	case 0:
		return int64(g.Intn(3))
	case 1:
		return g.one(2)
	case 2:
		return nil
	case 3:
		if depth > 0 {
			list := []any{}
			for range g.Intn(3) {
				list = append(list, anything(g, depth-1))
			}
			return list
		}
	case 4, 5:
		if depth > 0 {
			m := object{}
			for range g.Intn(4) {
				m[g.pick("a", "b", "c", "p")] = anything(g, depth-1)
			}
			return m
		}
	}
	return g.pick("x", "y", "z<")
}

// value makes a value for a schema; wild ones have wrong types, duplicates and unknown members now and then.
func value(g *gen, s object, wild bool) any {
	if g.one(14) {
		return nil
	}
	if wild && g.one(25) {
		return anything(g, 2)
	}
	kind, _ := s["type"].(string)
	switch kind {
	case "integer":
		return int64(g.Intn(3))
	case "number":
		return []any{int64(1), 1.5, int64(2)}[g.Intn(3)]
	case "boolean":
		return g.one(2)
	case "string":
		return g.pick("x", "y", "z")
	case "array":
		return listValue(g, s, wild)
	case "object":
		return mapValue(g, s, wild)
	}
	if s["x-kubernetes-int-or-string"] == true {
		return []any{int64(1), "50%"}[g.Intn(2)]
	}
	return anything(g, 3)
}

func mapValue(g *gen, s object, wild bool) any {
	m := object{}
	properties, _ := s["properties"].(object)
	for _, name := range []string{"a", "b", "c", "d", "alpha", "k", "l"} {
		if p, ok := properties[name]; ok && !g.one(3) {
			m[name] = value(g, p.(object), wild)
		}
	}
	if other, ok := s["additionalProperties"].(object); ok {
		for range g.Intn(4) {
			m[g.pick("p", "q", "r")] = value(g, other, wild)
		}
	} else if s["x-kubernetes-preserve-unknown-fields"] == true || len(properties) == 0 {
		for range g.Intn(3) {
			m[g.pick("p", "q", "r")] = anything(g, 2)
		}
	} else if wild && g.one(25) {
		m["unknown"] = "x"
	}
	return m
}

func listValue(g *gen, s object, wild bool) any {
	list := []any{}
	items := s["items"].(object)
	seen := map[string]bool{}
	for range g.Intn(5) {
		item := value(g, items, wild)
		if s["x-kubernetes-list-type"] == nil || s["x-kubernetes-list-type"] == "atomic" {
			list = append(list, item)
			continue
		}
		key := fmt.Sprint(item)
		if keys, ok := s["x-kubernetes-list-map-keys"].([]any); ok {
			m, isMap := item.(object)
			if !isMap {
				continue
			}
			key = ""
			for _, k := range keys {
				p := items["properties"].(object)[k.(string)].(object)
				if m[k.(string)] == nil && !(wild && g.one(10)) {
					m[k.(string)] = map[string]any{"string": g.pick("x", "y", "z"), "integer": int64(g.Intn(3))}[p["type"].(string)]
				}
				v, present := m[k.(string)]
				if !present {
					v = p["default"]
				}
				key += fmt.Sprint(v) + ","
			}
		} else if item == nil {
			continue
		}
		if seen[key] && !(wild && g.one(8)) {
			continue
		}
		seen[key] = true
		list = append(list, item)
	}
	return list
}

func metadata(g *gen) object {
	m := object{"name": "n", "namespace": "ns"}
	for _, part := range []string{"labels", "annotations"} {
		if g.one(3) {
			entries := object{}
			for range g.Intn(3) {
				entries[g.pick("a", "b", "c")] = g.pick("x", "y")
			}
			m[part] = entries
		}
	}
	if g.one(5) {
		m["finalizers"] = []any{g.pick("f/a", "f/b"), "f/c"}
	}
	if g.one(5) {
		m["ownerReferences"] = []any{object{"apiVersion": "v1", "kind": "Pod", "name": g.pick("a", "b"), "uid": g.pick("1", "2")}}
	}
	return m
}

// whole makes an object of the kind; mutated ones keep most of what was there.
func whole(g *gen, s object, version string, wild bool) object {
	o := object{"apiVersion": "g.example/" + version, "kind": "Thing", "metadata": metadata(g)}
	for _, part := range []string{"spec", "status"} {
		if !g.one(4) || part == "spec" {
			if v := value(g, s["properties"].(object)[part].(object), wild); v != nil {
				o[part] = v
			}
		}
	}
	return o
}

// changed drops and replaces some of what an object has.
func changed(g *gen, v any, fresh any, rate int) any {
	m, ok := v.(object)
	f, fits := fresh.(object)
	if !ok || !fits {
		if g.one(rate) {
			return fresh
		}
		return v
	}
	out := object{}
	for name, member := range m {
		if name == "apiVersion" || name == "kind" || name == "metadata" {
			out[name] = member
			continue
		}
		if g.one(rate * 2) {
			continue
		}
		if other, ok := f[name]; ok {
			member = changed(g, member, other, rate)
		}
		out[name] = member
	}
	for name, member := range f {
		if _, ok := m[name]; !ok && g.one(rate) {
			out[name] = member
		}
	}
	return out
}
