//go:build unix

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchPassesTheConnection checks that zkbench connects to what zkcli would connect to, as
// who zkcli is. The only identity is not on its command line, which others can read.
func TestBenchPassesTheConnection(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\necho \"$@\" auth=$ZKBENCH_AUTH password=$ZKBENCH_SASL_PASSWORD\n"
	if err := os.WriteFile(filepath.Join(dir, "zkbench"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const user = "digest:ann:secret"
	env := map[string]string{"ZKCLI_SASL_PASSWORD": "hidden"}
	for _, tt := range []struct{ args, want string }{
		{"-server h1:1,h2:2 bench", "get h1:1 auth= password=hidden"},
		{"-server h1:1,h2:2/app bench set -- -n 3", "set -n 3 h1:1/app auth= password=hidden"},
		{"-server h1:1 --auth " + user + " bench", "get h1:1 auth=" + user + " password=hidden"},
		{"-server h1:1 --auth digest:a:b --auth " + user + " bench", "get --auth=digest:a:b --auth=" + user + " h1:1 auth= password=hidden"},
		{"-server h1:1 --tls bench", "get tls://h1:1 auth= password=hidden"},
		{"-server h1:1 --sasl-user ann bench", "get --sasl-user=ann h1:1 auth= password=hidden"},
		{"-server h1:1 -o json bench", "get -o json h1:1 auth= password=hidden"},
		{"-server h1:1 bench -- --help", "--help auth= password="},
	} {
		var out, errs bytes.Buffer
		a := New(Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(name string) string { return env[name] }})
		code := a.Run(t.Context(), strings.Fields(tt.args))
		a.Close()
		if got := strings.TrimSuffix(out.String(), "\n"); code != 0 || got != tt.want {
			t.Errorf("%s: exit %d, zkbench gets\n%q, want\n%q\n%s", tt.args, code, got, tt.want, &errs)
		}
	}
}
