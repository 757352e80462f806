package lint

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is the length from which a file is about more than one thing.
const maxLines = 900

// rule looks at one file and returns what is wrong there, as ":line: message".
type rule struct {
	name  string
	check func(f *file) []string
}

var rules = []rule{
	{"length", checkLength},
	{"calls", checkCalls},
	{"init", checkInit},
	{"sleep", checkSleep},
	{"skip", checkSkip},
	{"branch", checkBranch},
	{"machine", checkMachine},
	{"owner", checkOwner},
	{"fault", checkFaults},
	{"nolint", checkNolint},
}

func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range project(t) {
				if f.dir() == "internal/lint" && f.isTest() {
					continue // it quotes what it forbids
				}
				for _, msg := range r.check(f) {
					t.Errorf("%s%s", f.path, msg)
				}
			}
		})
	}
}

func checkLength(f *file) []string {
	if n := strings.Count(f.text, "\n"); f.syn != nil && n > maxLines {
		return []string{fmt.Sprintf(": %d lines, more than %d: give each noun in it a file", n, maxLines)}
	}
	return nil
}

// forbiddenCalls are functions with global effects, by import path and name.
var forbiddenCalls = []struct{ pkg, names, why string }{
	{"fmt", "Print Printf Println", "write to the io.Writer that was handed in (commands get stdout as an argument), or log"},
	{"log", "Print Printf Println Fatal Fatalf Panic Panicf", "use the *zap.Logger of the options"},
	{"go.uber.org/zap", "L S ReplaceGlobals", "use the logger of the options: several servers live in one process"},
	{"github.com/prometheus/client_golang/prometheus", "MustRegister Register DefaultRegisterer DefaultGatherer",
		"use the Registerer of the options: several servers live in one process"},
	{"github.com/prometheus/client_golang/prometheus/promauto", "NewCounter NewGauge NewHistogram NewSummary NewCounterVec NewGaugeVec NewHistogramVec",
		"use promauto.With(the Registerer of the options)"},
	{"math/rand", "Seed", "use math/rand/v2 with a source that a test can seed"},
}

func checkCalls(f *file) (messages []string) {
	if f.syn == nil || f.isTest() {
		return nil
	}
	imports := f.names()
	eachSelector(f.syn, func(pkg, name string, at ast.Node) {
		for _, no := range forbiddenCalls {
			if imports[pkg] == no.pkg && slices.Contains(strings.Fields(no.names), name) {
				messages = append(messages, fmt.Sprintf(":%d: %s.%s: %s", f.line(at), pkg, name, no.why))
			}
		}
	})
	return messages
}

// eachSelector calls fn for each x.name where x is a plain identifier.
func eachSelector(n ast.Node, fn func(x, name string, at ast.Node)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				fn(x.Name, sel.Sel.Name, sel)
			}
		}
		return true
	})
}

func checkInit(f *file) (messages []string) {
	if f.syn == nil {
		return nil
	}
	for _, decl := range f.syn.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !locksThread(fn) {
			messages = append(messages, fmt.Sprintf(":%d: init: nothing may happen at import; make it in the constructor", f.line(fn)))
		}
	}
	return messages
}

// locksThread reports whether a function only keeps main in the first thread, which no other
// place can do.
func locksThread(fn *ast.FuncDecl) bool {
	if len(fn.Body.List) != 1 {
		return false
	}
	expr, ok := fn.Body.List[0].(*ast.ExprStmt)
	return ok && types.ExprString(expr.X) == "runtime.LockOSThread()"
}

func checkSleep(f *file) (messages []string) {
	if f.syn == nil {
		return nil
	}
	fake := slices.Contains(f.imports(), "testing/synctest") // in its bubble, sleeping takes no time
	eachSelector(f.syn, func(pkg, name string, at ast.Node) {
		if pkg == "time" && name == "Sleep" && !fake {
			messages = append(messages, fmt.Sprintf(":%d: time.Sleep: wait for the event itself, or use testing/synctest", f.line(at)))
		}
	})
	return messages
}

// maySkip are the files that may skip a test: where it needs other people's
// programs that this machine may not have. Under CI they must fail instead.
var maySkip = []string{"test/compat/need_test.go"}

func checkSkip(f *file) (messages []string) {
	if f.syn == nil || !f.isTest() || slices.Contains(maySkip, f.path) {
		return nil
	}
	eachSelector(f.syn, func(x, name string, at ast.Node) {
		if (x == "t" || x == "tb" || x == "b" || x == "f") && (name == "Skip" || name == "Skipf" || name == "SkipNow") {
			messages = append(messages, fmt.Sprintf(":%d: %s.%s: a skipped test tests nothing; make it run everywhere, or remove it", f.line(at), x, name))
		}
	})
	return messages
}

// checkNolint looks for comments to a linter that is not run.
func checkNolint(f *file) (messages []string) {
	n := 0
	for line := range strings.Lines(f.text) {
		if n++; f.syn != nil && strings.Contains(line, "//nolint") {
			messages = append(messages, fmt.Sprintf(":%d: a comment to a linter that is not run: say why in words, or //lint:ignore for staticcheck", n))
		}
	}
	return messages
}

func checkBranch(f *file) (messages []string) {
	if f.syn == nil {
		return nil
	}
	ast.Inspect(f.syn, func(n ast.Node) bool {
		if n, ok := n.(*ast.IfStmt); ok && len(n.Body.List) == 0 {
			messages = append(messages, fmt.Sprintf(":%d: an if without a body: write what it was meant to do, or remove it", f.line(n)))
		}
		return true
	})
	return messages
}

// checkOwner looks for parts of a server that hold the server: they would have all of it.
func checkOwner(f *file) (messages []string) {
	if f.syn == nil || f.isTest() || f.dir() != "server" {
		return nil
	}
	ast.Inspect(f.syn, func(n ast.Node) bool {
		part, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		ast.Inspect(part, func(n ast.Node) bool {
			if p, ok := n.(*ast.StarExpr); ok {
				if owner, ok := p.X.(*ast.Ident); ok && owner.Name == "Server" {
					messages = append(messages, fmt.Sprintf(":%d: a part that holds *Server: give it the few parts and functions that it needs", f.line(p)))
				}
			}
			return true
		})
		return false
	})
	return messages
}

// Traces of the machine that something was written on.
var (
	homePath = regexp.MustCompile(`(^|["'\s=:(])/(work|root|home|Users)/[\w.-]+`)
	registry = regexp.MustCompile(`(?i)\b(proxy\.golang\.org|sum\.golang\.org|goproxy\.\w+|registry\.npmjs\.org|pypi\.org|index\.crates\.io|[\w.-]*artifactory[\w-]*\.[\w.-]+)`)
)

func checkMachine(f *file) (messages []string) {
	if path.Base(f.path) == "go.sum" {
		return nil
	}
	n := 0
	for line := range strings.Lines(f.text) {
		n++
		if m := homePath.FindString(line); m != "" {
			messages = append(messages, fmt.Sprintf(":%d:%s: a path of somebody's machine: use t.TempDir, a flag, or a path within the project", n, m))
		}
		if m := registry.FindString(line); m != "" {
			messages = append(messages, fmt.Sprintf(":%d: %s: where modules come from is the user's setting (GOPROXY), not ours", n, m))
		}
	}
	return messages
}

// checkPure returns what in a file of a pure package is not pure.
func checkPure(std map[string][]string, f *file) (messages []string) {
	names := f.names()
	for _, p := range f.imports() {
		host, _, _ := strings.Cut(p, "/")
		if _, ok := std[p]; !ok && !strings.Contains(host, ".") {
			messages = append(messages, " imports "+p+": this package is pure; time, randomness and bytes come in as arguments")
		}
	}
	eachSelector(f.syn, func(pkg, name string, at ast.Node) {
		allowed, ok := std[names[pkg]]
		if ok && allowed[0] != "*" && !slices.Contains(allowed, name) {
			messages = append(messages, fmt.Sprintf("%d: %s.%s: this package is pure; time and randomness come in as arguments", f.line(at), pkg, name))
		}
	})
	ast.Inspect(f.syn, func(n ast.Node) bool {
		if n, ok := n.(*ast.GoStmt); ok {
			messages = append(messages, fmt.Sprintf("%d: go statement: this package is pure; the caller owns the goroutines", f.line(n)))
		}
		return true
	})
	return messages
}

// TestPackageComments checks that each package says what it is for: in doc.go, or
// in its only file, or in the file of a command that has main.
func TestPackageComments(t *testing.T) {
	docs := make(map[string]string)      // file with the comment, by directory
	packages := make(map[string][]*file) // without tests
	for _, f := range goFiles(t) {
		if f.isTest() {
			continue
		}
		packages[f.dir()] = append(packages[f.dir()], f)
		if f.syn.Doc != nil {
			docs[f.dir()] = path.Base(f.path)
		}
	}
	for dir, files := range packages {
		want := "doc.go"
		switch {
		case files[0].isCommand():
			want = "main.go"
		case len(files) == 1:
			want = path.Base(files[0].path)
		}
		if docs[dir] != want {
			t.Errorf("%s: no package comment in %s: say what the package is for, what always holds in it, and who may call it", dir, want)
		}
	}
}

// TestRulesCanFail gives each rule something to complain about.
func TestRulesCanFail(t *testing.T) {
	tests := []struct {
		name, path, text string
		check            func(*file) []string
		want             string // part of the only message; "" for none
	}{
		{"long file", "a/b.go", "package a\n" + strings.Repeat("\n", maxLines), checkLength, "901 lines"},
		{"print", "a/b.go", `package a; import "fmt"; func f() { fmt.Println() }`, checkCalls, ":1: fmt.Println"},
		{"sprint", "a/b.go", `package a; import "fmt"; var x = fmt.Sprint()`, checkCalls, ""},
		{"global logger", "a/b.go", `package a; import z "go.uber.org/zap"; var l = z.L()`, checkCalls, "z.L"},
		{"default registry", "a/b.go", `package a; import "github.com/prometheus/client_golang/prometheus"; func f() { prometheus.MustRegister() }`, checkCalls, "MustRegister"},
		{"own registry", "a/b.go", `package a; func f(reg R) { reg.MustRegister() }`, checkCalls, ""},
		{"init", "a/b.go", `package a; func init() {}`, checkInit, "init"},
		{"init for a thread", "a/b.go", `package a; import "runtime"; func init() { runtime.LockOSThread() }`, checkInit, ""},
		{"init for a thread, and more", "a/b.go", `package a; import "runtime"; func init() { runtime.LockOSThread(); f() }`, checkInit, "init"},
		{"method init", "a/b.go", `package a; func (t T) init() {}`, checkInit, ""},
		{"sleep", "a/b_test.go", `package a; import "time"; func f() { time.Sleep(1) }`, checkSleep, "time.Sleep"},
		{"fake sleep", "a/b_test.go", `package a; import ("time"; "testing/synctest"); func f() { synctest.Wait(); time.Sleep(1) }`, checkSleep, ""},
		{"skip", "a/b_test.go", `package a; func f(t *testing.T) { t.Skip() }`, checkSkip, "t.Skip"},
		{"nolint", "a/b.go", "package a\nfunc f() { f() } //nolint:errcheck // why", checkNolint, ":2: a comment"},
		{"empty branch", "a/b.go", `package a; func f(x bool) { if x { } }`, checkBranch, "an if without a body"},
		{"branch", "a/b.go", `package a; func f(x bool) { if x { f(x) } }`, checkBranch, ""},
		{"owner", "server/b.go", `package server; type part struct { x int; *Server }`, checkOwner, "holds *Server"},
		{"owner in a field", "server/b.go", `package server; type part struct { s func() *Server }`, checkOwner, "holds *Server"},
		{"another package's", "server/b.go", `package server; type part struct { *fourletter.Server }`, checkOwner, ""},
		{"constructor", "server/b.go", `package server; func newPart(s *Server) int { return 1 }`, checkOwner, ""},
		{"home", "a/b.md", "see /home/" + "me/zkd", checkMachine, "/home/me"},
		{"path of the protocol", "a/b.md", "get /zookeeper/quota", checkMachine, ""},
		{"proxy", "a/b.yml", "GOPROXY=https://proxy.golang" + ".org", checkMachine, "GOPROXY"},
		{"pure clock", "jute/b.go", `package jute; import "time"; var x = time.Now()`, pureOf, "time.Now"},
		{"pure duration", "jute/b.go", `package jute; import "time"; const x = time.Second`, pureOf, ""},
		{"pure random", "jute/b.go", `package jute; import "math/rand/v2"; var x = rand.IntN(3)`, pureOf, "rand.IntN"},
		{"pure files", "jute/b.go", `package jute; import "os"; var _ = os.Args`, pureOf, "imports os"},
		{"pure sockets", "jute/b.go", `package jute; import "net"; var _ net.Conn`, pureOf, "imports net"},
		{"pure goroutine", "jute/b.go", `package jute; func f() { go f() }`, pureOf, "go statement"},
		{"upward import", "jute/b.go", `package jute; import _ "` + module + `server"`, oursOf, "imports server"},
		{"helper in a test", "jute/b_test.go", `package jute; import "` + module + `internal/testing/scenario"`, oursOf, ""},
		{"bbolt", "server/b.go", `package server; import "go.etcd.io/bbolt"`, theirsOf, "alone"},
		{"test's module", "server/b.go", `package server; import "go.uber.org/goleak"`, theirsOf, "alone"},
		{"test's module in a test", "server/b_test.go", `package server; import "go.uber.org/goleak"`, theirsOf, ""},
		{"new module", "server/b.go", `package server; import "github.com/x/y"`, theirsOf, "standard library"},
		{"cobra in a command", "cmd/zkd/b.go", `package main; import "github.com/spf13/cobra"`, theirsOf, ""},
	}
	for _, tt := range tests {
		f, err := parse(tt.path, tt.text)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := tt.check(f)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
			t.Errorf("%s: got %q, want one message with %q", tt.name, got, tt.want)
		}
	}
}

func pureOf(f *file) []string   { return checkPure(table(pureStd), f) }
func oursOf(f *file) []string   { return checkOurs(table(ours), f) }
func theirsOf(f *file) []string { return checkTheirs(table(theirs), f) }
