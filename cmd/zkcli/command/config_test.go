package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

func TestParseConfig(t *testing.T) {
	cfg := parseConfig([]byte("server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888;2182\n" +
		"server.3=[::1]:2888:3888:observer;[::1]:2183\nserver.4=c:1:2\nother=x\nversion=100000000"))
	want := []configServer{
		{"1", "a:2888:3888", "participant", "0.0.0.0:2181"},
		{"2", "b:2888:3888", "participant", "b:2182"},
		{"3", "[::1]:2888:3888", "observer", "[::1]:2183"},
		{"4", "c:1:2", "participant", ""},
	}
	if !slices.Equal(cfg.Servers, want) || cfg.Version != "100000000" {
		t.Errorf("parseConfig = %+v", cfg)
	}
	if got, want := cfg.clients(), "0.0.0.0:2181,b:2182,[::1]:2183"; got != want {
		t.Errorf("clients = %q, want %q", got, want)
	}
}

// TestConfigOfEnsemble prints the members of a real one.
func TestConfigOfEnsemble(t *testing.T) {
	e := zktest.StartEnsemble(t, 3)
	env := map[string]string{envServer: e.ConnectString()}
	out, errOut, code := run(t, t.Context(), env, "-o", "table", "config")
	if rows := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(rows) != 4 || !strings.Contains(rows[3], "participant") {
		t.Errorf("exit %d, stdout:\n%s\nstderr:\n%s", code, out, errOut)
	}
	out, _, code = run(t, t.Context(), env, "config")
	if code != 0 || strings.Count(out, "server.") != 3 || !strings.Contains(out, "\nversion=") {
		t.Errorf("exit %d, stdout:\n%s", code, out)
	}
	_, errOut, code = run(t, t.Context(), env, "reconfig", "-remove", "3")
	if code != exitError || errOut != "KeeperErrorCode = Reconfig is disabled\n" {
		t.Errorf("reconfig: exit %d, stderr:\n%s", code, errOut)
	}
}
