package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJoin starts an ensemble of one server, and another that joins it: without a
// configuration file, with the one that it has written, and without its data.
func TestJoin(t *testing.T) {
	dir, ports := t.TempDir(), freePorts(t, 6)
	secret, first := filepath.Join(dir, "secret"), filepath.Join(dir, "first.cfg")
	write(t, secret, "0123456789abcdef")
	write(t, first, "dataDir="+filepath.Join(dir, "1")+"\ninitLimit=10\nsyncLimit=5\nreconfigEnabled=true\nstandaloneEnabled=false\n"+
		"zkd.quorumSecretFile="+secret+"\nzkd.myid=1\nserver.1=127.0.0.1:"+ports[0]+":"+ports[1]+";127.0.0.1:"+ports[2]+"\n")
	start := func(args ...string) (log *output, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		log, done := newOutput(), make(chan error, 1)
		go func() { done <- run(ctx, args, io.Discard, log) }()
		return log, func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("stopped: %v\n%s", err, log)
			}
		}
	}
	leader, stop := start(first)
	defer stop()
	leader.await(t, "now (leader)\t")
	data := filepath.Join(dir, "2")
	args := []string{"--join", "127.0.0.1:" + ports[2], "--advertise", "127.0.0.1:" + ports[3] + ":" + ports[4], "--port", ports[5],
		"--data-dir", data, "--set", "zkd.quorumSecretFile=" + secret}
	joiner, stopJoiner := start(args...)
	joiner.await(t, "the members are (1, 2 .observer.) since")
	stopJoiner()
	joiner, stopJoiner = start(args...)
	joiner.await(t, "now (observer)")
	stopJoiner()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	joiner, stopJoiner = start(args...)
	joiner.await(t, "now (observer)")
	stopJoiner()
	if strings.Contains(joiner.String(), "asks the leader") {
		t.Errorf("it is a member already, and asks:\n%s", joiner)
	}
	if id, err := os.ReadFile(filepath.Join(data, "myid")); string(id) != "2\n" {
		t.Errorf("its id is %q, %v", id, err)
	}
}

// TestJoinSaysWhyItCannot asks for what can't work.
func TestJoinSaysWhyItCannot(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	alone := filepath.Join(dir, "alone.cfg")
	port := freePorts(t, 1)[0]
	write(t, alone, "dataDir="+filepath.Join(dir, "alone")+"\nclientPortAddress=127.0.0.1\nclientPort="+port+"\n")
	ctx, stop := context.WithCancel(t.Context())
	log, done := newOutput(), make(chan error, 1)
	go func() { done <- run(ctx, []string{alone}, io.Discard, log) }()
	log.await(t, "(serving) clients")
	for _, tc := range []struct {
		ctx  context.Context
		args []string
		exit int
		want string
	}{
		{t.Context(), []string{"--join", "a", "--advertise", "b"}, exitUsage, "needs --data-dir and --advertise"},
		{t.Context(), []string{"--advertise", "b", "--data-dir", dir, alone}, exitUsage, "no configuration file"},
		{ended, []string{"--join", "127.0.0.1:1", "--advertise", "b", "--data-dir", dir}, exitFailure, "no member can be reached"},
		{t.Context(), []string{"--join", "127.0.0.1:" + port, "--advertise", "b", "--data-dir", dir}, exitFailure, "that server runs alone"},
	} {
		err := run(tc.ctx, tc.args, io.Discard, io.Discard)
		if err == nil || exitCode(err) != tc.exit || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.args, err, tc.want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("stopped: %v\n%s", err, log)
	}
}
