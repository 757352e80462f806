package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pure are the modules without the page, the network and the clock.
var pure = []string{"plan.js", "diff.js", "exportfile.js", "past.js", "protobuf.js"}

// TestPureModules looks for what a pure module does not have.
func TestPureModules(t *testing.T) {
	impure := regexp.MustCompile(`\b(document|window|location|fetch|localStorage|setTimeout|Date\.now|Math\.random)\b|from '\./(api|dom|acts|write|mode|app)\.js'`)
	for _, name := range pure {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if m := impure.FindString(string(text)); m != "" {
			t.Errorf("%s has %q", name, m)
		}
	}
}

// planned is a plan that the pure modules have made: test/console/pure.test.mjs compares and writes them.
type planned struct {
	Name   string
	Before []struct {
		Path string
		Stat struct {
			Version, Aversion int
			EphemeralOwner    string
		}
		Data *string
		ACL  any
	}
	Steps, Undo   []step
	Refused, Lost []string
	Pieces        []int
}

type step struct {
	Op, Path, Mode string
	TTL            int
	Data           *string
	ACL            any
	Version        int
}

// znode is a node of the test's tree.
type znode struct {
	data, acl, mode   string
	version, aversion int
}

// znodes is a tree by paths, with the rules that servers have for it.
type znodes map[string]znode

func (z znodes) do(s *step) error {
	n, there := z[s.Path]
	parent := s.Path[:strings.LastIndexByte(s.Path, '/')]
	switch _, rooted := z[parent]; {
	case s.Op == "create" && there:
		return fmt.Errorf("%s exists", s.Path)
	case s.Op == "create" && parent != "" && !rooted:
		return fmt.Errorf("%s has no parent", s.Path)
	case s.Op != "create" && !there:
		return fmt.Errorf("%s does not exist", s.Path)
	case s.Op == "acl" && s.Version != n.aversion, (s.Op == "set" || s.Op == "delete") && s.Version != n.version:
		return fmt.Errorf("%s: %s at version %d, it has %+v", s.Path, s.Op, s.Version, n)
	}
	switch s.Op {
	case "create":
		z[s.Path] = znode{data: value(s.Data), acl: entries(s.ACL), mode: s.Mode + fmt.Sprint(s.TTL)}
	case "set":
		n.data, n.version = value(s.Data), n.version+1
		z[s.Path] = n
	case "acl":
		n.acl, n.aversion = entries(s.ACL), n.aversion+1
		z[s.Path] = n
	case "delete":
		for path := range z {
			if strings.HasPrefix(path, s.Path+"/") {
				return fmt.Errorf("%s has the child %s", s.Path, path)
			}
		}
		delete(z, s.Path)
	default:
		return fmt.Errorf("there is no %q", s.Op)
	}
	return nil
}

func value(data *string) string {
	if data == nil {
		return "null"
	}
	return "base64:" + *data
}

func entries(acl any) string {
	if acl == nil {
		return "[map[id:anyone perms:cdrwa scheme:world]]"
	}
	return fmt.Sprint(acl)
}

// below returns a subtree with relative paths, of what a copy has: modes, and no versions.
func (z znodes) below(root string) znodes {
	out := make(znodes)
	for path, n := range z {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') && n.mode != "ephemeral0" {
			n.version, n.aversion = 0, 0
			out[rest] = n
		}
	}
	return out
}

// modes are those of the owners in Stats.
var modes = map[string]string{"0x0": "0", "0x8000000000000000": "container0", "0xff00000000002710": "persistent_with_ttl10000", "0x1a2247fbb090007": "ephemeral0"}

// TestPlans does what the plans of plan.js say on a tree with the rules of servers, looks at what has become of it, and undoes it.
func TestPlans(t *testing.T) {
	text, err := os.ReadFile("testdata/plans.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []planned
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	want := map[string]func(before, after znodes) bool{
		"delete":                   func(_, after znodes) bool { return len(after) == 0 },
		"delete with an ephemeral": func(_, after znodes) bool { return len(after) == 0 },
		"copy": func(before, after znodes) bool {
			return reflect.DeepEqual(after.below("/n/m"), before.below("/a")) && reflect.DeepEqual(after.below("/a"), before.below("/a"))
		},
		"copy below itself": func(before, after znodes) bool {
			return reflect.DeepEqual(after.below("/a/b/copy"), before.below("/a"))
		},
		"copy without ephemerals, open to all": func(before, after znodes) bool {
			copied := after.below("/m")
			for _, n := range copied {
				if n.acl != entries(nil) {
					return false
				}
			}
			return slices.Equal(slices.Sorted(maps.Keys(copied)), slices.Sorted(maps.Keys(before.below("/a"))))
		},
		"move": func(before, after znodes) bool {
			return reflect.DeepEqual(after.below("/m"), before.below("/a")) && len(after.below("/a")) == 0
		},
		"import": func(_, after znodes) bool { return len(after.below("/new/im")) == 7 },
		"import over others": func(_, after znodes) bool {
			return len(after) == 7 && after["/im/b"].version == 6 && after["/im/b"].aversion == 1
		},
		"import beside others": func(before, after znodes) bool {
			return len(after) == 7 && after["/im/b"] == before["/im/b"]
		},
	}
	done := 0
	for _, p := range all {
		tree := make(znodes)
		for _, n := range p.Before {
			tree[n.Path] = znode{value(n.Data), entries(n.ACL), modes[n.Stat.EphemeralOwner], n.Stat.Version, n.Stat.Aversion}
		}
		before := maps.Clone(tree)
		check := want[p.Name]
		if (check == nil) != (len(p.Refused) > 0) || len(p.Refused) > 0 && len(p.Steps) > 0 {
			t.Errorf("%s: %d steps, refused for %q", p.Name, len(p.Steps), p.Refused)
			continue
		}
		if check == nil {
			continue
		}
		done++
		run := func(steps []step) bool {
			for i := range steps {
				if err := tree.do(&steps[i]); err != nil {
					t.Errorf("%s, step %d: %v", p.Name, i, err)
					return false
				}
			}
			return true
		}
		if !run(p.Steps) {
			continue
		}
		if !check(before, tree) {
			t.Errorf("%s: %+v became %+v", p.Name, before, tree)
		}
		if total := 0; len(p.Steps) > 0 {
			for _, n := range p.Pieces {
				total += n
			}
			if total != len(p.Steps) || slices.Max(p.Pieces) > 3 {
				t.Errorf("%s: %d steps in pieces of %v", p.Name, len(p.Steps), p.Pieces)
			}
		}
		if run(p.Undo) && !reflect.DeepEqual(tree.below(""), before.below("")) {
			t.Errorf("%s, undone: %+v, want %+v", p.Name, tree, before)
		}
		for path, n := range before {
			if slices.Contains(p.Lost, path) != (n.mode == "ephemeral0" && strings.HasPrefix(p.Name, "delete")) {
				t.Errorf("%s: %s, lost are %v", p.Name, path, p.Lost)
			}
		}
	}
	if done != len(want) {
		t.Errorf("%d plans of %d", done, len(want))
	}
}
