package main

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// workers take so many keys at a time, as with the other subjects.
const workers = 10

type keys []reconcile.Request

func newKeys(count int) keys {
	made := make(keys, count)
	for number := range made {
		made[number].NamespacedName = types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("key-%07d", number)}
	}
	return made
}

// pass adds all keys at once and returns when each is done, so many times: through the queue alone, or a controller.
func (k keys) pass(ctx context.Context, through string, rounds int) error {
	if through == "alone" {
		for range rounds {
			k.alone(k)
		}
		return nil
	}
	return k.controller(ctx, rounds)
}

// repeat adds a few keys again and again while the workers take them.
func (k keys) repeat(few, adds int) error {
	queue := priorityqueue.New[reconcile.Request]("bench")
	done := drain(queue, func(reconcile.Request) {})
	for at := range adds {
		queue.Add(k[at%few])
	}
	queue.ShutDownWithDrain()
	done.Wait()
	return nil
}

func (k keys) alone(all keys) {
	queue := priorityqueue.New[reconcile.Request]("bench")
	var left sync.WaitGroup
	left.Add(len(all))
	for _, key := range all {
		queue.Add(key)
	}
	done := drain(queue, func(reconcile.Request) { left.Done() })
	left.Wait()
	queue.ShutDown()
	done.Wait()
}

func drain(queue priorityqueue.PriorityQueue[reconcile.Request], note func(reconcile.Request)) *sync.WaitGroup {
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for {
				key, _, shutdown := queue.GetWithPriority()
				if shutdown {
					return
				}
				note(key)
				queue.Forget(key)
				queue.Done(key)
			}
		})
	}
	return &done
}

// controller has a whole controller round the queue, without a server: its one source is us.
func (k keys) controller(ctx context.Context, rounds int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var left sync.WaitGroup
	count := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		left.Done()
		return reconcile.Result{}, nil
	})
	made, err := controller.NewUnmanaged("bench", controller.Options{
		Reconciler: count, MaxConcurrentReconciles: workers, SkipNameValidation: ptr.To(true),
	})
	if err != nil {
		return err
	}
	intake := make(chan workqueue.TypedRateLimitingInterface[reconcile.Request], 1)
	ours := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		intake <- queue
		return nil
	})
	if err := made.Watch(ours); err != nil {
		return err
	}
	go func() { _ = made.Start(ctx) }()
	queue := <-intake
	for range rounds {
		left.Add(len(k))
		for _, key := range k {
			queue.Add(key)
		}
		left.Wait()
	}
	return nil
}
