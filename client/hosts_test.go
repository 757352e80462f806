package client

import (
	"math/rand/v2"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestParseServers(t *testing.T) {
	for _, tt := range []struct {
		in, root string
		servers  []string
	}{
		{"zk1", "", []string{"zk1:2181"}},
		{"zk1:99", "", []string{"zk1:99"}},
		{"zk1:99,zk2,zk3:1", "", []string{"zk1:99", "zk2:2181", "zk3:1"}},
		{" zk1 , zk2:7 ,", "", []string{"zk1:2181", "zk2:7"}},
		{"zk1/", "", []string{"zk1:2181"}},
		{"zk1,zk2/app/x", "/app/x", []string{"zk1:2181", "zk2:2181"}},
		{"zk1/app/", "/app", []string{"zk1:2181"}},
		{"127.0.0.1:99", "", []string{"127.0.0.1:99"}},
		{"[::1]:99", "", []string{"[::1]:99"}},
		{"[::1]", "", []string{"[::1]:2181"}},
		{"::1", "", []string{"[::1]:2181"}},
		{"zk1:1/app,zk2:2/app", "/app", []string{"zk1:1", "zk2:2"}},
		{"zk1/app/,zk2:2/app , zk3/app", "/app", []string{"zk1:2181", "zk2:2", "zk3:2181"}},
		{"zk1/,zk2/", "", []string{"zk1:2181", "zk2:2181"}},
		{"zk1,zk2/a,b", "/a,b", []string{"zk1:2181", "zk2:2181"}},
		{"[fe80::1%eth0]:99/a", "/a", []string{"[fe80::1%eth0]:99"}},
	} {
		servers, root, err := ParseServers(tt.in)
		if err != nil || root != tt.root || !reflect.DeepEqual(servers, tt.servers) {
			t.Errorf("%q: %v, %q, %v; want %v, %q", tt.in, servers, root, err, tt.servers, tt.root)
		}
	}
	for in, want := range map[string]string{
		"":            "no server",
		",":           "no server",
		"/app":        "no server",
		"zk:":         "port",
		"zk:0":        "port",
		"zk:65536":    "port",
		"zk:+5":       "port",
		"zk:http":     "port",
		":2181":       "no host",
		"zk:1:2":      "too many colons",
		"[::1":        "[::1",
		"[zk]":        "[zk]",
		"zk/a//b":     "path",
		"zk//":        "path",
		"zk/a/../b":   "path",
		"zk1 zk2":     "commas",
		"zk1:1;zk2:2": "commas",
		"zk1|zk2":     "commas",
		// The path stands once, or is the same for all.
		"zk1:1/app,zk2:2":             `server "zk2:2"`,
		"zk1:1/app,zk2:2/other":       `server "zk2:2"`,
		"zk1/app,zk2/other":           `server "zk2"`,
		"zk1:1/app,[::1]:2":           `server "[::1]:2"`,
		"zk1,zk2/app,zk3:1/app":       "the path (chroot) stands once",
		"zk1:1/a,zk2:2/a,zk3:3":       "the path (chroot) stands once",
		"127.0.0.1:1/,127.0.0.1:2":    "the path (chroot) stands once",
		"zk1:1/app,zk2:2/app,zk3:3/b": "the path (chroot) stands once",
		"zk:1,zk2/a,b":                "",
	} {
		servers, root, err := ParseServers(in)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %q, %v; want an error with %q", in, servers, root, err, want)
		}
	}
}

// What is accepted is a list of addresses that can be dialed, and means the same
// when it is parsed again.
func FuzzParseServers(f *testing.F) {
	for _, s := range []string{"zk1,zk2:99/app", "[::1]:1", "::1", "a:1,,b/", "[fe80::1%e]:2/x", "[zk]", "[[::1]]", "a b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		servers, root, err := ParseServers(in)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") && !strings.ContainsAny(in, "\n") {
				t.Errorf("%q: error of several lines %q", in, err)
			}
			return
		}
		if len(servers) == 0 {
			t.Fatalf("%q: no servers, no error", in)
		}
		if root != "" && (jute.ValidatePath(root) != nil || root == "/") {
			t.Errorf("%q: root %q", in, root)
		}
		for _, s := range servers {
			if isSRV(s) {
				continue
			}
			host, port, err := net.SplitHostPort(s)
			if n, perr := strconv.Atoi(port); err != nil || perr != nil || host == "" || n < 1 || n > 65535 {
				t.Errorf("%q: server %q", in, s)
			}
		}
		again, root2, err := ParseServers(strings.Join(servers, ",") + root)
		if err != nil || root2 != root || !reflect.DeepEqual(again, servers) {
			t.Errorf("%q: %q%q, and parsed again %q%q, %v", in, servers, root, again, root2, err)
		}
	})
}
