// controller-runtime as a subject: the same lines as the others (bench/src/runtime/protocol.rs), carried out by its cache,
// client, queue and controllers with their defaults. The only setting: no limit on requests, as the others have none.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// subject is what this process has built up so far.
type subject struct {
	config *rest.Config
	reader client.Reader
	mgr    manager.Manager
	tally  tally
	keys   keys
}

func main() {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		fmt.Println("error KUBECONFIG does not lead to a server:", err)
		os.Exit(1)
	}
	config.QPS = -1
	s := &subject{config: config}
	fmt.Println("ok")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		reply, err := s.obey(context.Background(), strings.Fields(lines.Text()))
		if err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", reply)
		}
	}
}

func (s *subject) obey(ctx context.Context, words []string) (string, error) {
	number := func(at int) int {
		if at >= len(words) {
			return 0
		}
		n, _ := strconv.Atoi(words[at])
		return n
	}
	unsupported := fmt.Errorf("unsupported: %s", strings.Join(words, " "))
	if len(words) == 0 {
		return "", unsupported
	}
	switch words[0] {
	case "cache":
		count, err := s.cache(ctx, words[1], words[2], words[3] == "strip", words[4] == "index")
		return fmt.Sprintf("objects=%d", count), err
	case "control":
		count, err := s.control(ctx, number(1), number(2))
		return fmt.Sprintf("objects=%d", count), err
	case "kinds":
		return fmt.Sprintf("kinds=%d", number(1)), s.kinds(ctx, number(1))
	case "share":
		return "", s.share(ctx, number(1))
	case "reconciles":
		return s.tally.report(), nil
	case "lists":
		returned, err := s.lists(ctx, number(1), number(2), words[3] == "shared")
		return fmt.Sprintf("returned=%d", returned), err
	case "gets":
		found, err := s.gets(ctx, number(1))
		return fmt.Sprintf("found=%d", found), err
	case "keys":
		s.keys = newKeys(number(1))
		return "", nil
	case "queue":
		return "", s.keys.pass(ctx, words[1], number(2))
	case "repeat":
		return "", s.keys.repeat(number(1), number(2))
	case "allocated":
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return fmt.Sprintf("bytes=%d", stats.TotalAlloc), nil
	case "collect":
		debug.FreeOSMemory()
		return "", nil
	case "check":
		return "", check(ctx, s.config)
	}
	return "", unsupported
}
