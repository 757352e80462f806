//go:build compat && apps

package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoAppsGozk runs the tests of apps/ with copies of client/gozk in place of go-zookeeper/zk and
// of Vitess's fork of it.
func TestGoAppsGozk(t *testing.T) {
	dir := gozkApps(t)
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) { goAppsIn(t, dir, start(t, k, config{}).addr, "-mod=mod") })
	}
}

// gozkApps copies apps/ to a directory, and has its go.mod replace the libraries.
func gozkApps(t *testing.T) string {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	repository, err := filepath.Abs("../..")
	ok(err)
	dir := t.TempDir()
	apps := filepath.Join(dir, "apps")
	ok(os.CopyFS(apps, os.DirFS("apps")))
	sums, err := os.ReadFile(filepath.Join(apps, "go.sum"))
	ok(err)
	ours, err := os.ReadFile(filepath.Join(repository, "go.sum"))
	ok(err)
	ok(os.WriteFile(filepath.Join(apps, "go.sum"), append(sums, ours...), 0o666))

	sources, err := filepath.Glob(filepath.Join(repository, "client", "gozk", "*.go"))
	ok(err)
	edit := []string{"mod", "edit", "-replace=github.com/zkd-project/zkd=" + repository}
	for _, module := range []struct{ path, sub, more string }{
		{"github.com/go-zookeeper/zk", "", ""},
		{"github.com/z-division/go-zookeeper", "zk", "type SimpleDNSHostProvider = DNSHostProvider\n"},
	} {
		home := filepath.Join(dir, strings.ReplaceAll(module.path, "/", "-"))
		at := filepath.Join(home, module.sub)
		ok(os.MkdirAll(at, 0o777))
		for _, file := range sources {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			ok(err)
			ok(os.WriteFile(filepath.Join(at, filepath.Base(file)), text, 0o666))
		}
		ok(os.WriteFile(filepath.Join(at, "fork.go"), []byte("package zk\n\n"+module.more), 0o666))
		ok(os.WriteFile(filepath.Join(home, "go.mod"), []byte("module "+module.path+"\n\ngo 1.26\n\nrequire github.com/zkd-project/zkd v0.0.0\n"), 0o666))
		edit = append(edit, "-replace="+module.path+"="+home)
	}
	if out, err := finish(t, apps, nil, "go", edit...); err != nil {
		t.Fatalf("go mod edit: %v\n%s", err, out)
	}
	return apps
}
