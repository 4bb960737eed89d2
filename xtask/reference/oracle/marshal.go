package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8s "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// every kind that has protobuf and is no trial; lists and options left out.
func marshalled() []k8s.GroupVersionKind {
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiregistration.AddToScheme, metav1.AddMetaToScheme} {
		check(add(scheme.Scheme))
	}
	var all []k8s.GroupVersionKind
	for gvk := range scheme.Scheme.AllKnownTypes() {
		meta := gvk.Kind == "WatchEvent" || strings.HasSuffix(gvk.Kind, "Options") || strings.HasSuffix(gvk.Kind, "List")
		trial := strings.Contains(gvk.Version, "alpha") || strings.Contains(gvk.Version, "beta")
		if !meta && !trial && gvk.Version != runtime.APIVersionInternal {
			all = append(all, gvk)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

// marshalCase fills an object at random and prints it in both encodings.
func marshalCase(g *gen, gvk k8s.GroupVersionKind) any {
	made, err := scheme.Scheme.New(gvk)
	check(err)
	fill(g, reflect.ValueOf(made).Elem(), 0)
	made.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(made)
	check(err)
	// What JSON cannot tell (an empty list from none) is as it is read again.
	again, err := scheme.Scheme.New(gvk)
	check(err)
	check(json.Unmarshal(text, again))
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(again, &out); err != nil {
		return nil
	}
	return object{"json": json.RawMessage(text), "protobuf": base64.StdEncoding.EncodeToString(out.Bytes())}
}

func fill(g *gen, v reflect.Value, depth int) {
	if v.CanAddr() && special(g, v, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if g.Intn(3+depth) < 3 && depth < 12 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(g, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			if v.Type().Field(i).Name != "TypeMeta" && g.Intn(3+depth) < 3 {
				fill(g, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(word(g)))
			return
		}
		for n := g.Intn(3); n > 0 && depth < 12; n-- {
			item := reflect.New(v.Type().Elem()).Elem()
			fill(g, item, depth+1)
			v.Set(reflect.Append(v, item))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for n := g.Intn(3); n > 0 && depth < 12; n-- {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(word(g))
			fill(g, value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(word(g))
	case reflect.Bool:
		v.SetBool(g.Intn(2) == 0)
	case reflect.Int32:
		v.SetInt([]int64{0, 1, 80, 300, -1, 1<<31 - 1, -1 << 31}[g.Intn(7)])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, 127, 128, -1, 1<<63 - 1}[g.Intn(6)])
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, 0.5, -2e9}[g.Intn(4)])
	}
}

func special(g *gen, v reflect.Value, depth int) bool {
	raw := func() []byte { return [][]byte{[]byte(`{"a":[1,"x"]}`), []byte(`"t"`), []byte(`5`)}[g.Intn(3)] }
	schema := func() *apiextensions.JSONSchemaProps {
		made := &apiextensions.JSONSchemaProps{}
		fill(g, reflect.ValueOf(made).Elem(), depth+4)
		return made
	}
	switch at := v.Addr().Interface().(type) {
	case *metav1.Time:
		at.Time = time.Unix(int64(g.Intn(1<<31)), 0)
	case *metav1.MicroTime:
		at.Time = time.Unix(int64(g.Intn(1<<31)), int64(g.Intn(1000000))*1000)
	case *metav1.Duration:
		at.Duration = time.Duration(g.Intn(1 << 31)) * []time.Duration{1, 1000, -1000000}[g.Intn(3)]
	case *resource.Quantity:
		*at = resource.MustParse([]string{"0", "1", "500m", "2Gi", "1e3", "-3"}[g.Intn(6)])
	case *intstr.IntOrString:
		*at = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(80), intstr.FromString(""), intstr.FromString("50%")}[g.Intn(4)]
	case *runtime.RawExtension:
		at.Raw = []byte(`{"apiVersion":"v1","kind":"X"}`)
	case *metav1.FieldsV1:
		at.Raw = []byte(`{"f:spec":{".":{},"f:a":{}}}`)
	case *apiextensions.JSON:
		at.Raw = raw()
	case *apiextensions.JSONSchemaPropsOrBool:
		at.Allows = g.Intn(2) == 0
		if at.Allows && depth < 8 {
			at.Schema = schema()
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		at.Schema = schema()
		if g.Intn(2) == 0 {
			at.Schema, at.JSONSchemas = nil, []apiextensions.JSONSchemaProps{*schema()}
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		at.Schema = schema()
		if g.Intn(2) == 0 {
			at.Schema, at.Property = nil, []string{word(g)}
		}
	default:
		return false
	}
	return true
}

func word(g *gen) string {
	return []string{"", "a", "zebra", "ä\n\"", fmt.Sprint(g.Intn(1000)), strings.Repeat("long", 40)}[g.Intn(6)]
}
