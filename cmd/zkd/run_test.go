package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/internal/ask"
)

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "":
		goleak.VerifyTestMain(m)
	case wanderer:
		wander()
	default:
		main()
	}
}

// output collects the log of a running server, and reports when a pattern occurs.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// await returns the first group of the pattern when it occurs.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m[1]
		}
		select {
		case <-o.wrote:
		case <-t.Context().Done():
			t.Fatalf("no %s in:\n%s", pattern, o)
		}
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	good := file("good.cfg", "dataDir="+dir+"/data\nclientPort=2181\ntikTime=5\n")
	clean := file("clean.cfg", "dataDir="+dir+"/data\nclientPort=2181\n")
	secure := file("secure.cfg", "dataDir="+dir+"/data\nclientPort=2181\n\nssl.newFeature=1\n")
	bad := file("bad.cfg", "dataDir="+dir+"/data\nclientPort=99999\ntikTime=5\n")
	ensemble := file("ensemble.cfg", "dataDir="+dir+"/data\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n"+
		"server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n")

	for _, test := range []struct {
		name           string
		args           []string
		exit           int
		stdout, stderr string // patterns
	}{
		{"version", []string{"version"}, 0, `^zkd \S+ \(.*\), speaks ZooKeeper 3\.9`, ""},
		{"--version", []string{"--version"}, 0, regexp.QuoteMeta(versionLine()), ""},
		{"help", []string{"--help"}, 0, "zoo.cfg", ""},
		{"config check", []string{"config", "check", good}, 0, `(?s)^dataDir=\S+ +\S+good.cfg:1\n(\S+ .*\n)*clientPort=2181 .*\n\d+ other keys have their defaults: --all shows them\nwarning: .*tikTime`, ""},
		{"config check of a bad file says all", []string{"config", "check", bad}, exitUsage, "", "tikTime"},
		{"config check of the default file", []string{"config", "check", "--config", good}, 0, `clientPort=2181`, ""},
		{"config check of a default file that is not there", []string{"config", "check", "--config", filepath.Join(dir, "none.cfg")}, exitUsage, "", ""},
		{"config check --all", []string{"config", "check", "--all", clean}, 0, `(?s)clientPort=2181 .*tickTime=3000 \(ms\) +default`, ""},
		{"config", []string{"config"}, exitUsage, "", ""},
		{"no command of config", []string{"config", "chek"}, exitUsage, "", ""},
		{"no command of takeover", []string{"takeover", "finsh"}, exitUsage, "", ""},
		{"no command of log", []string{"log", "x", "y"}, exitUsage, "", ""},
		{"no topic of help", []string{"help", "x"}, exitUsage, "", ""},
		{"config check --strict", []string{"config", "check", "--strict", clean}, 0, "clientPort=2181", ""},
		{"config check --strict of a file with a warning", []string{"config", "check", "--strict", good}, exitUsage, "tikTime", ""},
		{"config check of a key that protects", []string{"config", "check", secure}, exitUsage, "", ""},
		{"config check of a key that protects, ignored", []string{"config", "check", "--set", "zkd.ignoreSecurityKeys=true", secure}, 0,
			"warning: .*secure.cfg:4: ssl.newFeature", ""},
		{"config check --strict of a key that protects, ignored",
			[]string{"config", "check", "--strict", "--set", "zkd.ignoreSecurityKeys=true", secure}, exitUsage, "", ""},
		{"start with a key that protects", []string{secure}, exitUsage, "", ""},
		{"bad file", []string{bad}, exitUsage, "", ""},
		{"missing file", []string{filepath.Join(dir, "none.cfg")}, exitUsage, "", ""},
		{"two files", []string{good, "--config", good}, exitUsage, "", ""},
		{"too many arguments", []string{good, good}, exitUsage, "", ""},
		{"unknown flag", []string{"--nosuch"}, exitUsage, "", ""},
		{"no value", []string{"--set", "tickTime", good}, exitUsage, "", ""},
		{"bad value", []string{"--set", "tickTime=x", good}, exitUsage, "", ""},
		{"bad zxid", []string{"--accept-data-loss-after", "zz", good}, exitUsage, "", ""},
		{"ensemble without an id", []string{ensemble}, exitUsage, "", ""},
		{"ensemble with another's id", []string{"--myid", "4", ensemble}, exitUsage, "", ""},
		{"config check of an ensemble", []string{"config", "check", "--myid", "2", ensemble}, 0,
			`(?s)zkd.myid=2 .*3 voters; a quorum is 2, 1 may fail.*this server: 2, a participant`, ""},
		{"verify nothing", []string{"verify", filepath.Join(dir, "none.cfg")}, exitUsage, "^$", ""},
		{"verify a bad file", []string{"verify", bad}, exitUsage, "^$", ""},
		{"verify an empty snapshot", []string{"verify", file("zkd.db", "")}, exitFailure, "NOT SOUND: .*0 bytes are no bbolt file", ""},
		{"verify no data", []string{"verify", clean}, exitFailure, "NOT SOUND: .*journal: there is no log", ""},
		{"verify a snapshot and a log", []string{"verify", "--log-dir", dir, clean}, exitUsage, "", ""},
		{"status -h", []string{"status", "-h", "127.0.0.1:1"}, exitUsage, "^$", ""},
		{"ready -h", []string{"ready", "-h", "127.0.0.1:1"}, exitUsage, "^$", ""},
		{"live --host", []string{"live", "--host", "127.0.0.1:1"}, exitUsage, "^$", ""},
		{"status of nobody", []string{"status", "--config", filepath.Join(dir, "none.cfg")}, exitUsage, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := run(t.Context(), test.args, &stdout, &stderr)
			exit := 0
			if err != nil {
				exit = exitCode(err)
			}
			if exit != test.exit {
				t.Errorf("exit code %d (%v), want %d", exit, err, test.exit)
			}
			if !regexp.MustCompile(test.stdout).MatchString(stdout.String()) {
				t.Errorf("stdout does not have %s:\n%s", test.stdout, stdout.String())
			}
			if !regexp.MustCompile(test.stderr).MatchString(stderr.String()) {
				t.Errorf("stderr does not have %s:\n%s", test.stderr, stderr.String())
			}
		})
	}
}

// A misspelled command is not taken for a file.
func TestMisspelledCommand(t *testing.T) {
	for _, args := range [][]string{{"statsu"}, {"statsu", "127.0.0.1:2181"}} {
		err := run(t.Context(), args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "did you mean zkd status?") {
			t.Errorf("zkd %v: %v", args, err)
		}
	}
}

// A log for programs has JSON alone, also when the server fails.
func TestFailureIsLoggedAsJSON(t *testing.T) {
	var stderr bytes.Buffer
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	err = run(t.Context(), []string{"--data-dir", t.TempDir(), "--set", "zkd.logFormat=json", "--set", "clientPortAddress=127.0.0.1", "--port", port}, io.Discard, &stderr)
	if _, logged := errors.AsType[loggedError](err); !logged || exitCode(err) != exitFailure {
		t.Errorf("error %v, exit code %d", err, exitCode(err))
	}
	last := ""
	for line := range strings.Lines(stderr.String()) {
		if last = line; !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if !strings.Contains(last, `"level":"error"`) || !strings.Contains(last, "address already in use") {
		t.Errorf("the last line is %s", last)
	}
}

// TestServe runs the whole program: it serves clients, metrics and profiles, stops when
// it is signaled, and recovers its data at the next start.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	systemd := filepath.Join(dir, "notify")
	heard, err := net.ListenPacket("unixgram", systemd)
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	t.Setenv("NOTIFY_SOCKET", systemd)
	args := []string{
		"--data-dir", dir, "--set", "clientPort=0", "--set", "4lw.commands.whitelist=*", "--pprof", "127.0.0.1:0",
		"--set", "clientPortAddress=127.0.0.1", "--set", "metricsProvider.httpHost=127.0.0.1", "--set", "metricsProvider.httpPort=0",
		"--set", "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
	}
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		log := newOutput()
		done := make(chan error, 1)
		go func() { done <- run(ctx, args, io.Discard, log) }()
		clients := log.await(t, `serving clients.*"address": "([^"]*)"`)
		metrics := log.await(t, `serving metrics.*"address": "([^"]*)"`)
		profiles := log.await(t, `serving profiles.*"address": "([^"]*)"`)
		if got := answer(t, clients, "ruok"); got != "imok" {
			t.Errorf("ruok: %q", got)
		}
		if page := fetch(t, "http://"+metrics+"/metrics"); !strings.Contains(page, "\nznode_count 5\n") || !strings.Contains(page, "\ngo_goroutines ") {
			t.Errorf("metrics lack znode_count or go_goroutines:\n%.2000s", page)
		}
		if page := fetch(t, "http://"+profiles+"/debug/pprof/"); !strings.Contains(page, "goroutine") {
			t.Errorf("profiles: %.200s", page)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("stopped: %v\n%s", err, log)
		}
		for _, want := range []string{"READY=1", "STOPPING=1"} {
			b := make([]byte, 100)
			if n, _, err := heard.ReadFrom(b); err != nil || string(b[:n]) != want {
				t.Errorf("systemd heard %q, %v, want %s", b[:n], err, want)
			}
		}
	}
	var dump bytes.Buffer
	if err := run(t.Context(), []string{"log", "dump", dir}, &dump, io.Discard); err != nil || !strings.Contains(dump.String(), ".wal: ") {
		t.Errorf("log dump: %v\n%s", err, dump.String())
	}
}

func TestServeSaysWhyItCannot(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	err = run(t.Context(), []string{"--data-dir", t.TempDir(), "--set", "clientPortAddress=127.0.0.1", "--port", port}, io.Discard, io.Discard)
	if err == nil || exitCode(err) != exitFailure || !strings.Contains(err.Error(), port) {
		t.Errorf("port in use: %v", err)
	}
}

// answer sends a four-letter word as typed by a user, and returns the answer.
func answer(t *testing.T, addr, word string) string {
	t.Helper()
	text, err := ask.Within(time.Minute, addr, word+"\r\n")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCollectorPercentage(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{
		{0, gcMost}, {1 << 20, gcMost}, {64 << 20, 100}, {256 << 20, 25}, {8 << 30, gcLeast},
	} {
		if got := gcPercent(test.live); got != test.want {
			t.Errorf("%d MiB live: %d %%, want %d", test.live>>20, got, test.want)
		}
	}
}

// TestPortOfPeersIsTaken checks that a server ends, and says why, if another program has the port at which
// the other servers find it.
func TestPortOfPeersIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = run(t.Context(), []string{"--data-dir", t.TempDir(), "--port", "0", "--myid", "1", "--set", "standaloneEnabled=false", "--set", "initLimit=5", "--set", "syncLimit=2",
		"--set", fmt.Sprintf("server.1=%s:1", taken.Addr())}, io.Discard, io.Discard)
	if err == nil || exitCode(err) != exitFailure || !strings.Contains(err.Error(), "can't listen for the other servers of the ensemble: listen tcp "+taken.Addr().String()) {
		t.Errorf("the server ended with %v", err)
	}
}

// TestWithoutPath: the commands that check a server take the file of this machine's, and the error names it where
// it is not there.
func TestWithoutPath(t *testing.T) {
	conf := t.TempDir()
	t.Setenv("ZOO_CONF_DIR", conf)
	t.Setenv("ZOO_DATA_DIR", filepath.Join(conf, "data"))
	for _, args := range [][]string{{"verify"}, {"upgrade-check"}, {"config", "check"}} {
		err := run(t.Context(), args, io.Discard, io.Discard)
		if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), "zoo.cfg") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v without a file: %v", args, err)
		}
	}
	write(t, filepath.Join(conf, "zoo.cfg"), "dataDir="+conf+"/tree\nclientPort=2181\n")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"verify"}, &out, io.Discard); exitCode(err) != exitFailure || !strings.Contains(out.String(), conf+"/tree") {
		t.Errorf("verify: %v\n%s", err, &out)
	}
	for _, args := range [][]string{{"upgrade-check"}, {"config", "check"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
