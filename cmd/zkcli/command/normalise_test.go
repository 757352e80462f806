package command

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/console"
)

func testRoot() (*App, func() []string, func(args ...string) ([]string, error)) {
	a := New(Streams{Getenv: func(string) string { return "" }})
	read := func(args ...string) ([]string, error) {
		opts := a.opts
		return normalise(a.root(&opts), args)
	}
	return a, a.names, read
}

func TestNormalise(t *testing.T) {
	_, _, read := testRoot()
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"ls /", "ls -- /"},
		{"LS /", "ls -- /"},
		{"getacl /a", "getAcl -- /a"},
		{"-server h:1 ls /", "--server=h:1 ls -- /"},
		{"--server=h:1 ls /", "--server=h:1 ls -- /"},
		{"-server=h:1 -timeout 5 ls /", "--server=h:1 --timeout=5 ls -- /"},
		{"-r ls /", "--r ls -- /"},
		{"ls -s /", "ls --stat -- /"},
		{"ls / -s", "ls --stat -- /"},
		{"ls -sR /", "ls --stat --recursive -- /"},
		{"ls -o json /", "ls --output=json -- /"},
		{"ls -ojson /", "ls --output=json -- /"},
		{"ls / -server h:1", "ls --server=h:1 -- /"},
		{"set -v -1 /a x", "set --version=-1 -- /a x"},
		{"set -v3 /a x", "set --version=3 -- /a x"},
		{"set -v=3 /a x", "set --version=3 -- /a x"},
		{"set -sv 3 /a x", "set --stat --version=3 -- /a x"},
		{"set /a -5", "set -- /a -5"},
		{"set /a -", "set -- /a -"},
		{"set /a -- -s", "set -- /a -s"},
		{"set -- /a -s", "set -- /a -s"},
		{"-- ls /", "ls -- /"},
		{"create -t 100 -s /a", "create --ttl=100 --sequential -- /a"},
		{"deleteall /a -b 7", "deleteall --batch=7 -- /a"},
		{"reconfig -add a -add b -remove 1,2", "reconfig --add=a --add=b --remove=1,2 --"},
		{"reconfig -members x -v 5", "reconfig --members=x --version=5 --"},
		{"removewatches /a -r", "removewatches --recursive -- /a"},
		{"addWatch -m PERSISTENT /a", "addWatch --mode=PERSISTENT -- /a"},
		{"__complete -server h:1 ls -s /a -", "__complete --server=h:1 ls --stat /a -"},
		{"__complete find /a -type e", "__complete find /a --type e"},
	} {
		got, err := read(strings.Fields(c.in)...)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("normalise(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestNormaliseRefuses(t *testing.T) {
	_, _, read := testRoot()
	for _, c := range []struct{ in, want string }{
		{"ls -z /", "unknown flag -z"},
		{"ls -sz /", "unknown flag -sz"},
		{"ls --nosuch /", "unknown flag --nosuch"},
		{"-nosuch ls /", "unknown flag -nosuch"},
		{"ls -ü /", "unknown flag -ü"},
		{"set /a -v", "-v needs a value"},
		{"-server", "-server needs a value"},
		{"gte /a", "Did you mean get?"},
		{"xyzzy /a", "See: help"},
	} {
		_, err := read(strings.Fields(c.in)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("normalise(%q) = %v; want an error with %q", c.in, err, c.want)
		}
	}
}

// TestServerFlags: a flag that names a server in other programs is refused, and the error says what to write. To
// print help would look like success.
func TestServerFlags(t *testing.T) {
	_, _, read := testRoot()
	for _, c := range []struct{ in, want string }{
		{"-h h:1", "-h prints help. To name a server write -server h:1"},
		{"-h zk1 ls /", "-h prints help. To name a server write -server zk1"},
		{"-h=zk1 ls /", "-h=zk1 prints help. To name a server write -server zk1"},
		{"-h h:1,i:2/app", "write -server h:1,i:2/app"},
		{"-r -h localhost", "write -server localhost"},
		{"ls / -h h:1", "write -server h:1"},
		{"get -h zk1.example.com /a", "write -server zk1.example.com"},
		{"--host h:1 ls /", "unknown flag --host. To name a server write -server h:1"},
		{"-host", "unknown flag -host. To name a server write -server HOST:PORT"},
		{"-H h:1", "unknown flag -H. To name a server write -server h:1"},
		{"--zookeeper=h:1 ls /", "To name a server write -server h:1"},
		{"-h", ""},
		{"-h ls", ""},
		{"ls -h", ""},
		{"ls -h /a.b", ""},
		{"ls -h /", ""},
		{"--help", ""},
	} {
		_, err := read(strings.Fields(c.in)...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("normalise(%q): %v; want %q", c.in, err, c.want)
		}
	}
}

// FuzzNormalise checks that what is behind "--" arrives as it is, whatever the
// rest, and that what normalise returns it leaves alone.
func FuzzNormalise(f *testing.F) {
	f.Add("ls -s", "/a", "-x")
	f.Add("set -v -1 /a", "--", "-")
	f.Add("-server h:1 create -es", "@@", "")
	f.Add("ls -= --= -ss=", "a=b", "ü")
	f.Add("-\x82", "0", "") // once a panic
	_, _, read := testRoot()
	f.Fuzz(func(t *testing.T, line, a, b string) {
		got, err := read(append(strings.Fields(line), "--", a, b)...)
		if err != nil {
			_, usage := errors.AsType[*UsageError](err)
			_, unknown := errors.AsType[*UnknownCommandError](err)
			if !usage && !unknown {
				t.Fatalf("%q: %v is of no known type", line, err)
			}
			return
		}
		i := slices.Index(got, "--")
		if i < 0 {
			return // no command
		}
		again, err := read(got...)
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("normalise(%q) = %q, and of that %q, %v", line, got, again, err)
		}
		if slices.Contains(strings.Fields(line), "--") || got[0] == "__complete" || got[0] == "__completeNoDesc" {
			return
		}
		if n := len(got); n < i+3 || got[n-2] != a || got[n-1] != b {
			t.Fatalf("normalise(%q -- %q %q) = %q", line, a, b, got)
		}
	})
}

func TestNearest(t *testing.T) {
	a, names, _ := testRoot()
	for _, c := range []struct{ name, want string }{
		{"gte", "get"}, {"creat", "create"}, {"Sett", "set"}, {"deletall", "deleteall"}, {"getephemeral", "getEphemerals"},
		{"whomai", "whoami"}, {"xyzzy", ""}, {"", ""},
	} {
		if got := nearest(c.name, names()); got != c.want {
			t.Errorf("nearest(%q) = %q, want %q", c.name, got, c.want)
		}
	}
	for _, c := range a.commands {
		if got := nearest(c.Name+"x", names()); got == "" {
			t.Errorf("nearest(%q) finds nothing", c.Name+"x")
		}
	}
}

// TestTable checks that each command says what help and completion need.
func TestTable(t *testing.T) {
	a, _, _ := testRoot()
	for i := range a.commands {
		c := &a.commands[i]
		switch {
		case c.Short == "" || strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: Short %q: it should be there, and without a full stop", c.Name, c.Short)
		case len(c.Args) > 0 && len(c.Examples) == 0 && c.Name != "printwatches":
			t.Errorf("%s has no example", c.Name)
		case c.Required > len(c.Args):
			t.Errorf("%s requires %d of %d arguments", c.Name, c.Required, len(c.Args))
		}
		for line := range strings.Lines(console.Wrap(a.helpOf(c), 40)) {
			if words := strings.Fields(line); len(strings.TrimRight(line, "\n")) > 40 && len(words) > 1 {
				t.Errorf("help %s at 40 columns has the line %q", c.Name, line)
			}
		}
		if help := a.helpOf(c); !strings.Contains(help, c.usage()) {
			t.Errorf("help %s has no usage:\n%s", c.Name, help)
		}
	}
}
