package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestContainer starts servers as an image does.
func TestContainer(t *testing.T) {
	dir := t.TempDir()
	data, conf := filepath.Join(dir, "data"), filepath.Join(dir, "conf")
	t.Setenv("ZOO_DATA_DIR", data)
	t.Setenv("ZOO_CONF_DIR", conf)
	t.Setenv("ZOO_MY_ID", "3")
	t.Setenv("ZKD_CLIENT_PORT", "0")
	t.Setenv("ZKD_ADMIN_SERVER_PORT", "0")

	// start runs a server until it serves or ends, and returns its output and its error.
	start := func() (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, done := newOutput(), make(chan error, 1)
		go func() { done <- run(ctx, []string{"container"}, out, out); out.Write([]byte("ended ()\n")) }()
		out.await(t, `(serving admin pages|ended)`)
		cancel()
		return out.String(), <-done
	}
	for range 2 {
		if out, err := start(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
	}
	id, err := os.ReadFile(filepath.Join(data, "myid"))
	if err != nil || string(id) != "3\n" {
		t.Errorf("myid is %q, %v", id, err)
	}
	text, err := os.ReadFile(filepath.Join(data, "zoo.cfg"))
	if err != nil || !strings.Contains(string(text), "dataDir="+data+"\n") {
		t.Errorf("zoo.cfg is %q, %v", text, err)
	}
	if got := localConfig(os.Getenv); got != filepath.Join(data, "zoo.cfg") {
		t.Errorf("zkd ready asks the server of %s", got)
	}

	t.Setenv("ZOO_MY_ID", "4")
	if _, err := start(); err == nil || !strings.Contains(err.Error(), "belongs to another server") {
		t.Errorf("a volume of another server: %v", err)
	}
	t.Setenv("ZOO_MY_ID", "")
	t.Setenv("ZKD_TICK_TIMES", "1")
	if _, err := start(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "ZKD_TICK_TIMES") {
		t.Errorf("a misspelled key: %v", err)
	}
	os.Unsetenv("ZKD_TICK_TIMES")

	if err := os.Mkdir(conf, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(conf, "zoo.cfg"), "dataDir="+data+"\nclientPort=0\nadmin.serverPort=0\ntickTime=777\n")
	if out, err := start(); err != nil || !strings.Contains(out, "of the variables") {
		t.Errorf("a mounted file: %v:\n%s", err, out)
	}
	if got := localConfig(os.Getenv); got != filepath.Join(conf, "zoo.cfg") {
		t.Errorf("zkd ready asks the server of %s", got)
	}

	if err := os.Remove(filepath.Join(conf, "zoo.cfg")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "zoo.cfg"), "clientPort=0\n")
	if _, err := start(); err == nil || !strings.Contains(err.Error(), "is not from zkd container") {
		t.Errorf("a file of somebody else would be overwritten: %v", err)
	}
}

func TestContainerShow(t *testing.T) {
	t.Setenv("ZOO_DATA_DIR", t.TempDir())
	t.Setenv("ZKD_TICK_TIME", "777")
	out := newOutput()
	if err := run(t.Context(), []string{"container", "--show"}, out, out); err != nil || !strings.Contains(out.String(), "\ntickTime=777\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}
