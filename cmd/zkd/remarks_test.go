package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/config"
)

func TestConfigRemarks(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, "0123456789abcdef")
	remarks := func(more ...config.Setting) string {
		on := append(more, config.Override("dataDir", dir), config.Override("clientPort", "0"))
		cfg, _, err := config.Default(func(string) string { return "" }, on...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(configRemarks(cfg), "\n")
	}
	shared, cautious := config.Override("zkd.quorumSecretFile", secret), config.Override("db.autocreate", "false")
	if got := remarks(shared); got != "" {
		t.Errorf("nothing to remark: %s", got)
	}
	if err := os.Chmod(secret, 0o640); err != nil {
		t.Fatal(err)
	}
	if got := remarks(shared); !strings.Contains(got, "chmod 600 "+secret) {
		t.Errorf("secret for a group: %q", got)
	}
	if got := remarks(cautious); !strings.Contains(got, "touch "+filepath.Join(dir, "initialize")) {
		t.Errorf("no data, no marker: %q", got)
	}
	write(t, filepath.Join(dir, "initialize"), "")
	if got := remarks(cautious); got != "" {
		t.Errorf("with the marker: %q", got)
	}
	if got := remarks(config.Override("4lw.commands.whitelist", "ruok,wach")); !strings.Contains(got, "no command wach") {
		t.Errorf("an unknown four-letter word: %q", got)
	}
}

// TestForeignFilesAreRemarked checks that config check reports the same about directories
// as a start.
func TestForeignFilesAreRemarked(t *testing.T) {
	dir := t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	data := filepath.Join(dir, "data")
	write(t, cfg, "clientPort=0\nclientPortAddress=127.0.0.1\ndataDir="+data+"\n")
	if err := os.MkdirAll(filepath.Join(data, "version-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	const want = "version-2 is the data of Apache ZooKeeper. To move it to zkd"
	var out bytes.Buffer
	if err := run(t.Context(), []string{"config", "check", cfg}, &out, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("config check: %v\n%s", err, out.String())
	}
	if err := run(t.Context(), []string{cfg}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("start: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNotifySystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := notifySystemd(socket, "READY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, _, err := c.ReadFrom(b)
	if err != nil || string(b[:n]) != "READY=1" {
		t.Errorf("systemd heard %q, %v", b[:n], err)
	}
	if err := notifySystemd("", "READY=1"); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	if err := notifySystemd(socket+"x", "READY=1"); err == nil {
		t.Error("nobody listens, and no error")
	}
}
