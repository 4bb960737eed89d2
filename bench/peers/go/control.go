package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// tally is what reconciles have seen.
type tally struct {
	sync.Mutex
	began     time.Time
	count     int
	latencies []int64
	initial   time.Duration
}

func (t *tally) note(sent int64) {
	t.Lock()
	defer t.Unlock()
	t.count++
	if sent == 0 {
		t.initial = time.Since(t.began)
	} else {
		t.latencies = append(t.latencies, max(time.Now().UnixNano()-sent, 0))
	}
}

// report gives the figures; latencies begin anew.
func (t *tally) report() string {
	t.Lock()
	defer t.Unlock()
	slices.Sort(t.latencies)
	at := func(share float64) int64 {
		if len(t.latencies) == 0 {
			return 0
		}
		return t.latencies[min(int(float64(len(t.latencies))*share), len(t.latencies)-1)]
	}
	text := fmt.Sprintf("count=%d live=%d p50=%d p99=%d initial=%d",
		t.count, len(t.latencies), at(0.5), at(0.99), t.initial.Nanoseconds())
	t.latencies = nil
	return text
}

func (s *subject) manager() (manager.Manager, error) {
	return ctrl.NewManager(s.config, ctrl.Options{
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
}

// reconciler gets the object, looks when it was sent, and works for a while.
func (s *subject) reconciler(reader client.Reader, object func() client.Object, work time.Duration) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		found := object()
		if err := reader.Get(ctx, request.NamespacedName, found); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		sent, _ := strconv.ParseInt(found.GetAnnotations()["bench.concert.dev/sent"], 10, 64)
		if work > 0 {
			time.Sleep(work)
		}
		s.tally.note(sent)
		return reconcile.Result{}, nil
	})
}

// control starts a controller of Pods that looks at changed generations only; each turn takes so many microseconds.
func (s *subject) control(ctx context.Context, workers, micros int) (int, error) {
	mgr, err := s.manager()
	if err != nil {
		return 0, err
	}
	s.tally.began = time.Now()
	pod := func() client.Object { return &corev1.Pod{} }
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(s.reconciler(mgr.GetClient(), pod, time.Duration(micros)*time.Microsecond))
	if err != nil {
		return 0, err
	}
	go func() { _ = mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return 0, fmt.Errorf("the cache does not sync")
	}
	s.reader = mgr.GetClient()
	return s.count(ctx, "typed")
}

// kinds starts a controller for each of so many custom kinds.
func (s *subject) kinds(ctx context.Context, count int) error {
	s.tally.began = time.Now()
	mgr, err := s.manager()
	if err != nil {
		return err
	}
	for number := range count {
		object := func() client.Object {
			object := &unstructured.Unstructured{}
			kind := fmt.Sprintf("Kind%03d", number)
			object.SetGroupVersionKind(schema.GroupVersionKind{Group: "bench.concert.dev", Version: "v1", Kind: kind})
			return object
		}
		// A manager's client reads unstructured objects live unless told otherwise; the cache is what is compared.
		err := ctrl.NewControllerManagedBy(mgr).Named(fmt.Sprintf("kind%03d", number)).For(object()).
			Complete(s.reconciler(mgr.GetCache(), object, 0))
		if err != nil {
			return err
		}
	}
	go func() { _ = mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the cache does not sync")
	}
	s.mgr = mgr
	return nil
}

// share adds so many controllers of Pods to the manager of the custom kinds: they share its informer.
func (s *subject) share(ctx context.Context, count int) error {
	pod := func() client.Object { return &corev1.Pod{} }
	for number := range count {
		err := ctrl.NewControllerManagedBy(s.mgr).Named(fmt.Sprintf("shared%d", number)).For(&corev1.Pod{}).
			Complete(s.reconciler(s.mgr.GetClient(), pod, 0))
		if err != nil {
			return err
		}
	}
	if !s.mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the cache does not sync")
	}
	return nil
}
