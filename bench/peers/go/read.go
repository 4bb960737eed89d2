package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const nodeField = "spec.nodeName"

// cache starts the informer of Pods or ConfigMaps and returns when the first list is in it.
func (s *subject) cache(ctx context.Context, kind, form string, strip, index bool) (int, error) {
	options := cache.Options{}
	if strip {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	pods, err := cache.New(s.config, options)
	if err != nil {
		return 0, err
	}
	object := sample(kind, form)
	if index {
		node := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
		if err := pods.IndexField(ctx, object, nodeField, node); err != nil {
			return 0, err
		}
	}
	go func() { _ = pods.Start(ctx) }()
	informer, err := pods.GetInformer(ctx, object)
	if err != nil {
		return 0, err
	}
	if !pods.WaitForCacheSync(ctx) || !informer.HasSynced() {
		return 0, fmt.Errorf("the cache does not sync")
	}
	s.reader = pods
	if kind == "maps" {
		list := &corev1.ConfigMapList{}
		err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy)
		return len(list.Items), err
	}
	return s.count(ctx, form)
}

// sample says which informer is meant.
func sample(kind, form string) client.Object {
	if form == "dynamic" {
		pod := &unstructured.Unstructured{}
		pod.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		return pod
	}
	if kind == "maps" {
		return &corev1.ConfigMap{}
	}
	return &corev1.Pod{}
}

// count says how many Pods are known, without copying them.
func (s *subject) count(ctx context.Context, form string) (int, error) {
	if form == "dynamic" {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "PodList"})
		err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy)
		return len(list.Items), err
	}
	list := &corev1.PodList{}
	err := s.reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	return len(list.Items), err
}

// lists lists the Pods of one node after the other.
func (s *subject) lists(ctx context.Context, count, nodes int, shared bool) (int, error) {
	options := []client.ListOption{nil}
	if shared {
		options = append(options, client.UnsafeDisableDeepCopy)
	}
	returned := 0
	for at := range count {
		options[0] = client.MatchingFields{nodeField: fmt.Sprintf("node-%04d", at%nodes)}
		list := &corev1.PodList{}
		if err := s.reader.List(ctx, list, options...); err != nil {
			return 0, err
		}
		returned += len(list.Items)
	}
	return returned, nil
}

// gets gets one Pod after the other.
func (s *subject) gets(ctx context.Context, count int) (int, error) {
	known, err := s.count(ctx, "typed")
	if err != nil {
		return 0, err
	}
	found := 0
	for at := range count {
		pod := &corev1.Pod{}
		key := client.ObjectKey{Namespace: "shop", Name: fmt.Sprintf("pod-%07d", at*7919%max(known, 1))}
		if err := s.reader.Get(ctx, key, pod); err == nil {
			found++
		}
	}
	return found, nil
}

// check has the real types read one Pod in both encodings of the load server: they must be equal.
func check(ctx context.Context, config *rest.Config) error {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	get := func(accept string) ([]byte, error) {
		path := config.Host + "/api/v1/namespaces/shop/pods/pod-0000003"
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept", accept)
		response, err := transport.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		return io.ReadAll(response.Body)
	}
	text, err := get("application/json")
	if err != nil {
		return err
	}
	wire, err := get("application/vnd.kubernetes.protobuf")
	if err != nil {
		return err
	}
	fromText, fromWire := &corev1.Pod{}, &corev1.Pod{}
	if err := json.Unmarshal(text, fromText); err != nil {
		return err
	}
	if _, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(wire, nil, fromWire); err != nil {
		return err
	}
	fromWire.TypeMeta = fromText.TypeMeta
	if !equality.Semantic.DeepEqual(fromText, fromWire) {
		return fmt.Errorf("the Pod in protobuf is not the Pod in JSON: %v against %v", fromWire, fromText)
	}
	return nil
}
