//go:build unix

package main

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zkd-project/zkd/client"
)

// TestFilesArePrivate runs a server that writes snapshots, rotates its audit log and saves its
// members, and another that joins it, without a umask. All that they make can be read by their
// owner alone.
func TestFilesArePrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir, ports := t.TempDir(), freePorts(t, 6)
	secret, first := filepath.Join(dir, "secret"), filepath.Join(dir, "zoo.cfg")
	write(t, secret, "0123456789abcdef")
	data := filepath.Join(dir, "1")
	write(t, first, "dataDir="+data+"\ndataLogDir="+filepath.Join(dir, "log", "1")+"\ninitLimit=10\nsyncLimit=5\nreconfigEnabled=true\nstandaloneEnabled=false\n"+
		"snapCount=4\nskipACL=yes\naudit.enable=true\nzkd.audit.file="+filepath.Join(dir, "audit", "log")+"\nzkd.audit.maxFileSizeKb=1\n"+
		"zkd.quorumSecretFile="+secret+"\nzkd.myid=1\nserver.1=127.0.0.1:"+ports[0]+":"+ports[1]+";127.0.0.1:"+ports[2]+"\n")
	start := func(args ...string) (log *output, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		log = newOutput()
		go func() { done <- run(ctx, args, io.Discard, log) }()
		return log, func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("stopped: %v\n%s", err, log)
			}
		}
	}
	leader, stop := start(first)
	leader.await(t, "now (leader)\t")
	c, err := client.New("127.0.0.1:"+ports[2], client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if _, err := c.Create(t.Context(), "/"+strconv.Itoa(i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	leader.await(t, "(snapshot written)")
	joiner, stopJoiner := start("--join", "127.0.0.1:"+ports[2], "--advertise", "127.0.0.1:"+ports[3]+":"+ports[4], "--port", ports[5],
		"--data-dir", filepath.Join(dir, "2"), "--set", "zkd.quorumSecretFile="+secret)
	joiner.await(t, "the members are (1, 2 .observer.) since")
	stopJoiner()
	stop()
	seen := make(map[string]bool)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir || path == secret || path == first {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = fs.ModeDir | 0o700
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
		for _, kind := range []string{".wal", ".db", "zoo.cfg.dynamic", "myid", filepath.Join("audit", "log."), filepath.Join("2", "zoo.cfg")} {
			seen[kind] = seen[kind] || strings.Contains(path, kind)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for kind, ok := range seen {
		if !ok {
			t.Errorf("there is no %s", kind)
		}
	}
}
