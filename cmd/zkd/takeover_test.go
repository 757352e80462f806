package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
)

// TestTakeoverRefuses checks what the commands say to what they can't do.
func TestTakeoverRefuses(t *testing.T) {
	dir := t.TempDir()
	single := filepath.Join(dir, "single.cfg")
	member := filepath.Join(dir, "member.cfg")
	data := filepath.Join(dir, "data")
	for name, text := range map[string]string{
		single: "clientPort=2181\ndataDir=" + data + "\n",
		member: "clientPort=2181\ndataDir=" + data + "\nzkd.myid=7\nserver.7=localhost:1:2\nserver.8=localhost:3:4\nserver.9=localhost:5:6\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args string
		exit int
		want string
	}{
		{"mirror --to " + data, exitUsage, "--from"},
		{"mirror --from zk1:2888", exitUsage, "--to"},
		{"mirror --from zk1:2888 --to " + data + " --config " + member, exitUsage, "either"},
		{"mirror --from zk1 --to " + data, exitUsage, "HOST:PORT"},
		{"mirror --from zk1:2888 --to " + data, exitFailure, "--sid"},
		{"mirror --from zk1:2888 --to " + data + " --sid 255", exitUsage, "1 to 254"},
		{"mirror --from zk1:2888 --to " + data + " --sid 7 --sync-limit 0", exitUsage, "--sync-limit"},
		{"mirror --from zk1:2888 --config " + single, exitUsage, "no server lines"},
		{"mirror --from zk1:2888 --config nothing", exitUsage, "nothing"},
		{"mirror --from zk1:2888 --to " + data + " --sid 7 --listen 2181", exitUsage, "HOST:PORT"},
		{"mirror --from zk1:2888 --to " + data + " --sid 7 --listen :clients", exitUsage, "HOST:PORT"},
		{"status " + dir, exitFailure, "no running copy"},
		{"status --output yaml " + dir, exitUsage, "text and json"},
		{"finish a b c", exitFailure, "a: "},
		{"finish --accept-data-loss-after 0x12 --from x a b c", exitUsage, "without --from"},
		{"finish --accept-data-loss-after last a", exitUsage, "is no zxid"},
		{"finish --from x --decision y a", exitFailure, "y: no such file"},
		{"finish --from x a b", exitFailure, "three members"},
		{"finish --decision " + single + " a", exitFailure, "single.cfg"},
		{"decide --from x a", exitUsage, "--decision"},
		{"decide --from x --decision y --member 1 a", exitFailure, "ID:INCARNATION:ZXID"},
	} {
		err := run(t.Context(), append([]string{"takeover"}, strings.Fields(tt.args)...), io.Discard, io.Discard)
		if err == nil || exitCode(err) != tt.exit || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("takeover %s: exit code %d, %v; want %d, %s", tt.args, exitCode(err), err, tt.exit, tt.want)
		}
	}
}

// TestServerRefusesMirror starts a server with the directory of a mirror.
func TestServerRefusesMirror(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "101")
	if err := data.CreateMirror(data.Place{DataDir: dir, LogDir: dir, Server: 101}, datadirs.OfApache); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"--data-dir", dir, "--port", "0"}, &out, &out)
	if err == nil || !strings.Contains(err.Error(), "zkd takeover finish") {
		t.Errorf("a server starts as a mirror: %v", err)
	}
}
