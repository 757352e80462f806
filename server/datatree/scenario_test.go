package datatree

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	scenarios "github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
)

// TestScenarios runs testdata/*.txt. A file is blocks of commands, "----" and the
// output; text before the first command of a block that begins with # is
// comment. The commands:
//
//	create PATH [DATA|null] [session=N|container|ttl=MS] [acl=PERMS:SCHEME:ID] [cversion=N]
//	delete PATH, set PATH [DATA|null] [version=N], setacl PATH PERMS:SCHEME:ID
//	open N [timeout=MS], timeout N MS, close N [PATH...|all]
//	prune N COUNT, changing PATH
//	stat PATH, get PATH, ls PATH, quota PATH, exceeded, rates, ephemerals N, session N
//	expirable now=MS [never=MS], counts, reload
//
// A write is a separate transaction; "+" before it adds it to the previous one. Zxids
// count from 1, and the time of zxid N is N*10, unless time=MS is given. The driver computes the values that the
// leader would compute (versions, the count of creates, the list of a closing session),
// unless they are given. Words after "=" have no blanks. "all" closes a session without a
// list; prune applies a slice of a close, which the next close completes.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScenario(t, string(text))
			if scenarios.Rewrites() {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("output differs; got:\n%s", diffLines(string(text), got))
			}
		})
	}
}

// diffLines lists the lines of got that differ from those of want in the same place.
func diffLines(want, got string) string {
	var b strings.Builder
	w := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(w) || w[i] != line {
			fmt.Fprintf(&b, "%4d: %s\n", i+1, line)
			if i < len(w) {
				fmt.Fprintf(&b, "want: %s\n", w[i])
			}
		}
	}
	return b.String()
}

// runScenario returns text with the current output of its commands.
func runScenario(t *testing.T, text string) string {
	s := &scenario{t: t, tree: New()}
	var b strings.Builder
	for i, block := range strings.Split(strings.TrimSuffix(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		commands, _, ok := strings.Cut(block, "----")
		b.WriteString(commands)
		if !ok {
			b.WriteString("\n")
			continue
		}
		s.out.Reset()
		s.block(strings.Split(strings.TrimSpace(commands), "\n"))
		b.WriteString("----\n" + s.out.String())
	}
	return b.String()
}

type scenario struct {
	t    *testing.T
	tree *Tree
	out  strings.Builder
	// closing was started by prune.
	closing *Txn
}

// block runs commands; consecutive writes joined by + are one transaction.
func (s *scenario) block(lines []string) {
	var txn *Txn
	flush := func() {
		if txn != nil {
			s.apply(txn)
			txn = nil
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "#") {
			continue
		}
		args := strings.Fields(line)
		if args[0] == "+" {
			op, _ := s.op(args[1:])
			txn.Ops = append(txn.Ops, op)
			continue
		}
		flush()
		if op, session := s.op(args); op.Kind != OpNone {
			zxid := s.tree.LastZxid() + 1
			txn = &Txn{Zxid: zxid, Time: s.number(args, "time", int64(zxid)*10), Session: session, Ops: []Op{op}}
			continue
		}
		s.read(args[0], args[1:])
	}
	flush()
}

func (s *scenario) apply(txn *Txn) {
	var out Applied
	if closing := s.closing; closing != nil {
		txn, s.closing = closing, nil
	}
	decoded, err := DecodeTxn(txn.Append(nil))
	if err != nil {
		s.t.Fatal(err)
	}
	s.tree.Apply(&decoded, &out)
	for _, r := range out.Results {
		if r.Code != 0 {
			fmt.Fprintf(&s.out, "skipped: %v\n", r.Code)
		}
	}
	s.events(&out)
}

func (s *scenario) events(out *Applied) {
	for _, e := range out.Events {
		fmt.Fprintf(&s.out, "%v %s%s\n", e.Type, e.Path, aclText(e.ACL))
	}
}

// prune applies a slice of the transaction that closes a session. The first call starts
// it, and "close N" completes it.
func (s *scenario) prune(session, n int64) {
	var out Applied
	if s.closing == nil {
		s.closing = &Txn{Zxid: s.tree.LastZxid() + 1, Session: jute.SessionID(session), Ops: []Op{{Kind: OpCloseSession}}}
		s.tree.List(s.closing)
	}
	if !s.tree.ApplyPart(s.closing, &out, int(n)) {
		fmt.Fprintln(&s.out, "nothing to prune")
	}
	s.events(&out)
}

// option returns the value of key=value among args.
func option(args []string, key string) (string, bool) {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (s *scenario) number(args []string, key string, otherwise int64) int64 {
	v, ok := option(args, key)
	if !ok {
		return otherwise
	}
	return s.parse(v)
}

func (s *scenario) parse(v string) int64 {
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// op reads a write; OpNone is none.
func (s *scenario) op(args []string) (Op, jute.SessionID) {
	rest := args[1:]
	switch args[0] {
	case "create":
		parent, _ := s.tree.Get(parentOf(rest[0]))
		return Op{Kind: OpCreate, Path: rest[0], Data: dataArg(rest), ACL: s.aclArg(rest), Owner: s.ownerArg(rest),
			Cversion: int32(s.number(rest, "cversion", int64(parent.Cversion)+1))}, 0
	case "delete":
		return Op{Kind: OpDelete, Path: rest[0]}, 0
	case "set":
		n, _ := s.tree.Get(rest[0])
		return Op{Kind: OpSetData, Path: rest[0], Data: dataArg(rest),
			Version: int32(s.number(rest, "version", int64(n.Version)+1))}, 0
	case "setacl":
		n, _ := s.tree.Get(rest[0])
		return Op{Kind: OpSetACL, Path: rest[0], ACL: s.aclArg([]string{"acl=" + rest[1]}), Version: n.Aversion + 1}, 0
	case "open":
		return Op{Kind: OpCreateSession, TimeoutMs: int32(s.number(rest, "timeout", 1000))}, jute.SessionID(s.parse(rest[0]))
	case "timeout":
		return Op{Kind: OpSetTimeout, TimeoutMs: int32(s.parse(rest[1]))}, jute.SessionID(s.parse(rest[0]))
	case "close":
		session := jute.SessionID(s.parse(rest[0]))
		paths := rest[1:]
		switch {
		case len(paths) == 1 && paths[0] == "all":
			paths = nil
		case len(paths) == 0:
			paths = slices.Sorted(s.tree.Ephemerals(session, ""))
		}
		return Op{Kind: OpCloseSession, Paths: paths}, session
	}
	return Op{}, 0
}

func dataArg(args []string) []byte {
	for _, a := range args[1:] {
		if a == "null" {
			return nil
		}
		key, _, ok := strings.Cut(a, "=")
		if !ok && a != "container" || key == "count" || key == "bytes" {
			return []byte(a)
		}
	}
	return []byte{}
}

func (s *scenario) ownerArg(args []string) jute.Owner {
	if slices.Contains(args, "container") {
		return jute.OwnerContainer
	}
	if v, ok := option(args, "ttl"); ok {
		return jute.OwnerTTL(s.parse(v))
	}
	return jute.OwnerSession(jute.SessionID(s.number(args, "session", 0)))
}

func (s *scenario) aclArg(args []string) []jute.ACL {
	v, ok := option(args, "acl")
	if !ok {
		return openACL
	}
	var list []jute.ACL
	for entry := range strings.SplitSeq(v, ",") {
		f := strings.SplitN(entry, ":", 3)
		list = append(list, jute.ACL{Perms: jute.Perms(s.parse(f[0])), ID: jute.ID{Scheme: f[1], ID: f[2]}})
	}
	return list
}

// aclText is "" for the ACL that most nodes have.
func aclText(list []jute.ACL) string {
	if isOpenACL(list) {
		return ""
	}
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, " %d:%s:%s", a.Perms, a.ID.Scheme, a.ID.ID)
	}
	return b.String()
}

func (s *scenario) read(command string, args []string) {
	switch command {
	case "stat":
		s.stat(args[0])
	case "get":
		data, ok := s.tree.Data(args[0])
		switch {
		case !ok:
			fmt.Fprintln(&s.out, "no node")
		case data == nil:
			fmt.Fprintln(&s.out, "null")
		default:
			fmt.Fprintf(&s.out, "%q\n", data)
		}
	case "ls":
		fmt.Fprintf(&s.out, "%q\n", slices.Sorted(s.tree.Children(args[0])))
	case "quota":
		q, ok := s.tree.Quota(args[0])
		fmt.Fprintf(&s.out, "%v %+v\n", ok, q)
	case "exceeded":
		for _, q := range slices.SortedFunc(s.tree.Exceeded(), func(a, b Quota) int { return strings.Compare(a.Path, b.Path) }) {
			fmt.Fprintf(&s.out, "%+v\n", q)
		}
	case "rates":
		rates := maps.Collect(s.tree.Rates())
		for _, path := range slices.Sorted(maps.Keys(rates)) {
			fmt.Fprintf(&s.out, "%s %q\n", path, rates[path])
		}
		fmt.Fprintf(&s.out, "version %d\n", s.tree.RatesVersion())
	case "ephemerals":
		fmt.Fprintf(&s.out, "%q\n", slices.Sorted(s.tree.Ephemerals(jute.SessionID(s.parse(args[0])), "")))
	case "session":
		timeout, ok := s.tree.Session(jute.SessionID(s.parse(args[0])))
		fmt.Fprintf(&s.out, "%v timeout=%d\n", ok, timeout)
	case "prune":
		s.prune(s.parse(args[0]), s.parse(args[1]))
	case "changing":
		fmt.Fprintln(&s.out, s.tree.Changing(args[0]))
	case "expirable":
		var cursor ExpiryCursor
		var found []string
		for more := true; more; {
			more = s.tree.Expirable(&cursor, 2, s.number(args, "now", 0), s.number(args, "never", 0), func(path string, n Node) {
				found = append(found, fmt.Sprintf("%s version=%d\n", path, n.Version))
			})
		}
		slices.Sort(found)
		s.out.WriteString(strings.Join(found, ""))
	case "counts":
		fmt.Fprintf(&s.out, "%+v\n", s.tree.Stats())
	case "reload":
		s.reload()
	default:
		s.t.Fatalf("unknown command %q", command)
	}
}

func (s *scenario) stat(path string) {
	n, ok := s.tree.Get(path)
	if !ok {
		fmt.Fprintln(&s.out, "no node")
		return
	}
	st := n.Stat()
	fmt.Fprintf(&s.out, "czxid=%d mzxid=%d pzxid=%d ctime=%d mtime=%d version=%d cversion=%d aversion=%d owner=%d length=%d children=%d%s\n",
		int64(st.Czxid), int64(st.Mzxid), int64(st.Pzxid), st.Ctime, st.Mtime, st.Version, st.Cversion, st.Aversion,
		int64(st.EphemeralOwner), st.DataLength, st.NumChildren, aclText(n.ACL))
}

// reload replaces the tree by one loaded from its snapshot.
func (s *scenario) reload() {
	v := s.tree.Freeze()
	defer v.Close()
	var b Batch
	for v.Step(&b, 1000) {
	}
	l := NewLoader()
	for row := range b.All() {
		if err := l.Add(row); err != nil {
			s.t.Fatal(err)
		}
	}
	tree, err := l.Finish()
	if err != nil {
		s.t.Fatal(err)
	}
	s.tree = tree
}
