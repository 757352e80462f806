package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/cmd/zkbench/bench/fake"
	"github.com/zkd-project/zkd/jute"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// zkbench runs the program and returns its output.
func zkbench(t *testing.T, args ...string) (stdout, stderr string, err error) {
	var out, errs strings.Builder
	err = run(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), err
}

func TestFlagErrors(t *testing.T) {
	tests := []struct {
		args string
		want string
	}{
		{"nonsense", "unknown command"},
		{"set -h a:1", "write zkbench set a:1"},
		{"-h a:1", "as the argument of a command: children, clean, create"},
		{"set a:1 b:1", "accepts at most 1 arg"},
		{"set --nonsense", "unknown flag"},
		{"set -o xml", `output "xml"`},
		{"set -c 0", "connections: 0"},
		{"set :1", "no host"},
		{"set --compare a:1", "want two servers"},
		{"set --compare a:1 b:1 --pid 1", "[compare pid]"},
		{"set --compare a:1 b:1 --keep", "[compare keep]"},
		{"set --compare a:1 b:1 --pairs 0", "pairs: 0"},
		{"get --reads 0.5", "unknown flag"},
		{"mixed --reads 2", "share of reads"},
		{"load --path-length 9", "path length"},
		{"set 127.0.0.1:1", "connection refused"},
		{"set --auth secret a:1", "has no scheme"},
		{"set --sasl-user ann", "set ZKBENCH_SASL_PASSWORD, or name a file by --sasl-password-file"},
		{"clean --sasl ntlm --sasl-user ann", "there is no such mechanism"},
		{"set --sasl plain --sasl-user ann --sasl-password-file none", "needs TLS"},
	}
	for _, tt := range tests {
		_, _, err := zkbench(t, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("zkbench %s: got %v, want %q", tt.args, err, tt.want)
		}
		exit := 2
		if tt.want == "connection refused" {
			exit = 1
		}
		if got := exitCode(err); got != exit {
			t.Errorf("zkbench %s: exit code %d, want %d", tt.args, got, exit)
		}
	}
}

func TestJSON(t *testing.T) {
	s := fake.Start(t)
	out, _, err := zkbench(t, "mixed", "--reads", "0.5", "-c", "2", "-w", "4", "-k", "10", "-s", "20", "-n", "50",
		"--warmup", "0s", "-o", "json", "--pid", strconv.Itoa(os.Getpid()), s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if r.Ops != 50 || r.Connections != 2 || r.Window != 4 || r.ValueSize != 20 || r.Server == nil {
		t.Errorf("got %s", out)
	}
}

func TestLone(t *testing.T) {
	s := fake.Start(t)
	out, _, err := zkbench(t, "get", "--lone", "-n", "5", "--warmup", "0s", s.Addr)
	if err != nil || !strings.Contains(out, "1 connections with windows of 1") {
		t.Errorf("got %v and %s", err, out)
	}
}

func TestOutages(t *testing.T) {
	s := fake.Start(t)
	out, _, err := zkbench(t, "outages", "-c", "2", "-n", "20", "--rate", "0", s.Addr+",127.0.0.1:1")
	if err != nil || !strings.Contains(out, "without a write") || !strings.Contains(out, "0 wrong") {
		t.Errorf("got %v and %s", err, out)
	}
}

// A run with a wrong reply prints its figures and fails.
func TestWrongReply(t *testing.T) {
	s := fake.Start(t)
	gets := 0
	s.Spoil = func(op jute.OpCode, frame []byte) []byte {
		if op == jute.OpGetData {
			if gets++; gets == 7 {
				frame[len(frame)-1]++
				return frame[:len(frame)-1]
			}
		}
		return frame
	}
	out, _, err := zkbench(t, "get", "-n", "20", "--warmup", "0s", s.Addr)
	if !errors.Is(err, bench.ErrWrong) || !strings.Contains(out, "19 in") || !strings.Contains(out, "1 wrong") {
		t.Errorf("got %v and %s", err, out)
	}
}

func TestCompare(t *testing.T) {
	a, b := fake.Start(t), fake.Start(t)
	pid := strconv.Itoa(os.Getpid())
	out, log, err := zkbench(t, "set", "-n", "20", "--warmup", "0s", "--pairs", "2", "--pid-a", pid, "--pid-b", pid, "--compare", a.Addr, b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"set, 2 pairs", "server CPU per operation", "latency p99.9"} {
		if !strings.Contains(out, want) {
			t.Errorf("table lacks %q:\n%s", want, out)
		}
	}
	if n := strings.Count(log, "set:"); n != 4 {
		t.Errorf("%d runs are reported, want 4:\n%s", n, log)
	}
}

func TestKeepThenClean(t *testing.T) {
	s := fake.Start(t)
	if _, _, err := zkbench(t, "load", "-n", "30", "--keep", s.Addr); err != nil {
		t.Fatal(err)
	}
	out, _, err := zkbench(t, "clean", s.Addr)
	if err != nil || !strings.HasPrefix(out, "deleted /zb-") {
		t.Errorf("clean: %v, %q", err, out)
	}
	if left := s.Paths(); !slices.Equal(left, []string{"/"}) {
		t.Errorf("clean left %v", left)
	}
}

// TestLogin logs in on a server that serves nobody else, with each way in which runs connect.
func TestLogin(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := zktest.Start(t, zktest.Config("sessionRequireClientSASLAuth=true", "zkd.sasl.users="+file("users", "ann plain:secret\n")))
	secret, wrong := file("secret", "secret\n"), file("wrong", "secret2\n")
	for _, args := range []string{
		"set -c 2 -n 20 --warmup 0s", "sessions -c 2 -n 4 --ephemerals 2 --warmup 0s", "idle -c 2 -d 1ms", "outages -c 2 -n 20 --rate 0",
		"load -n 10 --keep", "clean",
	} {
		login := []string{"--sasl-user", "ann", "--sasl-password-file", secret, s.ConnectString()}
		if out, _, err := zkbench(t, append(strings.Fields(args), login...)...); err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	if _, _, err := zkbench(t, "set", "--sasl-user", "ann", "--sasl-password-file", wrong, s.ConnectString()); !errors.Is(err, sasl.ErrRefused) {
		t.Errorf("with a wrong password: %v", err)
	}
	if _, _, err := zkbench(t, "set", "-n", "1", s.ConnectString()); err == nil {
		t.Error("the server serves a client without a login")
	}
}

// TestAuth works below a node that is closed to others, with each way in which runs connect.
func TestAuth(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t, func(o *client.Options) {
		o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("ann:secret")}}
	})
	if _, err := c.Create(t.Context(), "/closed", nil, client.CreateOptions{ACL: client.CreatorACL()}); err != nil {
		t.Fatal(err)
	}
	closed := s.ConnectString() + "/closed"
	for _, args := range []string{
		"set -c 2 -n 20 --warmup 0s", "sessions -c 2 -n 4 --ephemerals 2 --warmup 0s", "idle -c 2 -d 1ms", "outages -c 2 -n 20 --rate 0",
		"load -n 10 --keep", "clean",
	} {
		if out, _, err := zkbench(t, append(strings.Fields(args), "--auth", "digest:ann:secret", closed)...); err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	if _, _, err := zkbench(t, "set", "-n", "1", closed); !errors.Is(err, jute.ErrNoAuth) {
		t.Errorf("without an identity: %v", err)
	}
	if _, _, err := zkbench(t, "set", "-n", "1", "--auth", "nosuch:ann", closed); err == nil || !strings.Contains(err.Error(), `identity of scheme "nosuch"`) {
		t.Errorf("with a scheme that the server does not have: %v", err)
	}
	t.Setenv(envAuth, "digest:ann:secret")
	if out, _, err := zkbench(t, "set", "-n", "20", "--warmup", "0s", closed); err != nil {
		t.Errorf("with the identity of the environment: %v\n%s", err, out)
	}
	if out, _, err := zkbench(t, "set", "--help"); err != nil || strings.Contains(out, "secret") {
		t.Errorf("help shows the password: %v\n%s", err, out)
	}
}

// TestLoadBelowAChroot checks that the length of paths is without the chroot, so that the
// default fits below any.
func TestLoadBelowAChroot(t *testing.T) {
	s := zktest.Start(t)
	c := s.Client(t)
	const chroot = "/application"
	if _, err := c.Create(t.Context(), chroot, nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, _, err := zkbench(t, "load", "-n", "1", "--keep", s.ConnectString()+chroot); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path := chroot
	for depth := range 3 { // the run, the directory, the node
		list, err := c.Children(t.Context(), path)
		if err != nil || len(list.Names) != 1 {
			t.Fatalf("level %d: %q, %v", depth, list.Names, err)
		}
		path += "/" + list.Names[0]
	}
	if want := len(chroot) + bench.Defaults(bench.Load).PathLength; len(path) != want {
		t.Errorf("%s has %d bytes, want %d", path, len(path), want)
	}
}

// The flag and the subcommand print the same.
func TestVersion(t *testing.T) {
	flag, _, err1 := zkbench(t, "--version")
	sub, _, err2 := zkbench(t, "version")
	if err1 != nil || err2 != nil || flag != sub || !strings.HasPrefix(flag, "zkbench ") {
		t.Errorf("--version: %q, %v; version: %q, %v", flag, err1, sub, err2)
	}
}
