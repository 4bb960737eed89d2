// Command kube-apiserver is the real Kubernetes API server with etcd in the same process, as the tests' reference.
//
// The first argument is the directory for etcd's data; every other argument goes to kube-apiserver unchanged. Etcd
// listens on unix sockets below that directory, so two servers never meet. It syncs to disk unless
// REFERENCE_ETCD_NO_FSYNC=1 (tests that kill nothing do not need it).
package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kube-apiserver DATA_DIR [kube-apiserver flags]")
		os.Exit(2)
	}
	dir := os.Args[1]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		fmt.Fprintf(os.Stderr, "cannot make %s: %v\n", dir, err)
		os.Exit(1)
	}
	endpoint, err := startEtcd(dir)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot start etcd in %s: %v\n", dir, err)
		os.Exit(1)
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(append([]string{"--etcd-servers=" + endpoint}, os.Args[2:]...))
	os.Exit(cli.Run(command))
}

func startEtcd(dir string) (string, error) {
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "error"
	config.UnsafeNoFsync = os.Getenv("REFERENCE_ETCD_NO_FSYNC") == "1"
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "client.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return "", err
	}
	select {
	case <-server.Server.ReadyNotify():
		return "unix://" + client.Path, nil
	case err := <-server.Err():
		return "", err
	case <-time.After(60 * time.Second):
		return "", fmt.Errorf("etcd was not ready after 60 s")
	}
}
