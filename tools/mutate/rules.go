package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// Outcomes of a mutation.
const (
	killed   = "killed"
	survived = "survived"
	invalid  = "invalid" // it does not compile
)

// mutation is a change of one place.
type mutation struct {
	File    string // from the root of the module
	Line    int
	Rule    string
	Diff    string // the lines before and after it
	Beside  bool   // the function has a planted fault, which the simulator or a test finds
	Outcome string
	By      string `json:",omitempty"` // the package, and the first test, that failed

	column     int
	start, end int // the bytes of the file that text replaces
	text       string
	source     []byte
}

// key identifies the mutation in known.txt, however the lines before it change.
func (m *mutation) key() string { return m.File + "\n" + m.Diff }

func (m *mutation) apply() []byte {
	return []byte(string(m.source[:m.start]) + m.text + string(m.source[m.end:]))
}

// diff sets the field.
func (m *mutation) diff() {
	first := strings.LastIndexByte(string(m.source[:m.start]), '\n') + 1
	last := len(m.source)
	if n := strings.IndexByte(string(m.source[m.end:]), '\n'); n >= 0 {
		last = m.end + n
	}
	before := string(m.source[first:last])
	after := string(m.source[first:m.start]) + m.text + string(m.source[m.end:last])
	var lines []string
	for _, side := range []struct{ sign, text string }{{"-", before}, {"+", after}} {
		for l := range strings.SplitSeq(side.text, "\n") {
			if l = strings.TrimSpace(l); l != "" {
				lines = append(lines, side.sign+" "+l)
			}
		}
	}
	m.Diff = strings.Join(lines, "\n")
}

var (
	negated = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
	}
	moved = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	signs = map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
		token.INC: token.DEC, token.DEC: token.INC,
	}
	logic = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
)

// What is only told: people read it, and tests should not have to compare it.
var (
	toldFiles = regexp.MustCompile(`^(doc|metrics|mutant)\.go$`)
	toldFuncs = regexp.MustCompile(`^(String|GoString|Error|MarshalLogObject|Describe|Collect)$`)
	toldCalls = regexp.MustCompile(`(?i)^[\w.]*\b(log|logger|o\.log)\.(debug|info|warn|error|check)\(|\bmetrics\.|\.(observe|inc)\(|^panic\(|\bsteps\.`)
)

// file finds the mutations of one file.
type file struct {
	name   string
	src    []byte
	fset   *token.FileSet
	beside bool
	found  []*mutation
}

func mutationsOf(name string, src []byte) ([]*mutation, error) {
	if toldFiles.MatchString(path.Base(name)) {
		return nil, nil
	}
	f := file{name: name, src: src, fset: token.NewFileSet()}
	syn, err := parser.ParseFile(f.fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range syn.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || toldFuncs.MatchString(fn.Name.Name) {
			continue
		}
		f.beside = isPlanted(f.of(fn.Body))
		f.early(fn.Type, fn.Body)
		f.walk(fn.Type, fn.Body)
	}
	return f.found, nil
}

func isPlanted(text string) bool { return strings.Contains(text, ".Planted()") }

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// of returns the text of a node.
func (f *file) of(n ast.Node) string { return string(f.src[f.offset(n.Pos()):f.offset(n.End())]) }

func (f *file) add(rule string, at, end token.Pos, text string) {
	p := f.fset.Position(at)
	m := &mutation{File: f.name, Line: p.Line, column: p.Column, Rule: rule, Beside: f.beside,
		start: p.Offset, end: f.offset(end), text: text, source: f.src}
	m.diff()
	f.found = append(f.found, m)
}

// walk applies the rules to what is in a function.
func (f *file) walk(fn *ast.FuncType, body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.walk(n.Type, n.Body)
			return false
		case *ast.BlockStmt:
			f.swap(n.List)
		case *ast.CaseClause:
			f.swap(n.Body)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						f.negate(e)
					}
				}
			}
		case *ast.IfStmt:
			if isPlanted(f.of(n.Cond)) {
				return false
			}
			f.negate(n.Cond)
		case *ast.ForStmt:
			f.negate(n.Cond)
		case *ast.ExprStmt:
			if f.told(n) {
				return false
			}
			f.add("drop", n.Pos(), n.End(), "")
		case *ast.IncDecStmt:
			f.add("drop", n.Pos(), n.End(), "")
			f.operator("sign", signs, n.Tok, n.TokPos)
		case *ast.AssignStmt:
			if isPlanted(f.of(n)) {
				return false
			}
			if n.Tok != token.DEFINE && f.of(n.Lhs[0]) != "_" {
				f.add("drop", n.Pos(), n.End(), "")
			}
			f.operator("sign", signs, n.Tok, n.TokPos)
		case *ast.ReturnStmt:
			if isPlanted(f.of(n)) {
				return false
			}
			f.noError(fn, n)
		case *ast.BinaryExpr:
			f.binary(n)
		case *ast.CallExpr:
			return f.of(n.Fun) != "fmt.Errorf" // people read that, too
		}
		return true
	})
}

// told reports whether a statement is only for people.
func (f *file) told(s ast.Stmt) bool { return toldCalls.MatchString(f.of(s)) }

func (f *file) binary(n *ast.BinaryExpr) {
	f.operator("negate", negated, n.Op, n.OpPos)
	f.operator("boundary", moved, n.Op, n.OpPos)
	f.operator("logic", logic, n.Op, n.OpPos)
	if _, ok := logic[n.Op]; ok {
		f.negate(n.X)
		f.negate(n.Y)
	}
	if !strings.ContainsAny(f.of(n), "\"`") { // nothing is subtracted from a string
		f.operator("sign", signs, n.Op, n.OpPos)
	}
}

func (f *file) operator(rule string, by map[token.Token]token.Token, op token.Token, at token.Pos) {
	if other, ok := by[op]; ok {
		f.add(rule, at, at+token.Pos(len(op.String())), other.String())
	}
}

// negate negates a condition. Comparisons, and the sides of && and ||, have their own turn.
func (f *file) negate(e ast.Expr) {
	switch e := e.(type) {
	case *ast.UnaryExpr:
		f.add("negate", e.Pos(), e.End(), f.of(e.X))
	case *ast.CallExpr, *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		f.add("negate", e.Pos(), e.End(), "!"+f.of(e))
	case *ast.ParenExpr:
		f.negate(e.X)
	}
}

// swap exchanges neighbours of which one is a call, or a check with nothing after it but what it guards.
func (f *file) swap(list []ast.Stmt) {
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if !f.acts(a) || !f.acts(b) || !isCheck(a) && !isCheck(b) {
			continue
		}
		between := string(f.src[f.offset(a.End()):f.offset(b.Pos())])
		f.add("swap", a.Pos(), b.End(), f.of(b)+between+f.of(a))
	}
}

// acts reports whether a statement changes something, and declares nothing.
func (f *file) acts(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE && !isPlanted(f.of(s))
	case *ast.IfStmt, *ast.ExprStmt:
		return !isPlanted(f.of(s)) && !f.told(s)
	case *ast.IncDecStmt, *ast.SendStmt:
		return true
	}
	return false
}

func isCheck(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.IfStmt, *ast.ExprStmt:
		return true
	}
	return false
}

// early has a function return at once.
func (f *file) early(fn *ast.FuncType, body *ast.BlockStmt) {
	if len(body.List) < 2 {
		return
	}
	var zeros []string
	if fn.Results != nil {
		for _, r := range fn.Results.List {
			for range max(1, len(r.Names)) {
				zeros = append(zeros, "*new("+f.of(r.Type)+")")
			}
		}
	}
	at := body.List[0].Pos()
	f.add("early", at, at, strings.TrimSpace("return "+strings.Join(zeros, ", "))+"; ")
}

// noError returns nil for an error.
func (f *file) noError(fn *ast.FuncType, n *ast.ReturnStmt) {
	if fn.Results == nil || len(n.Results) == 0 || len(n.Results) != fn.Results.NumFields() {
		return
	}
	last := n.Results[len(n.Results)-1]
	if f.of(fn.Results.List[len(fn.Results.List)-1].Type) == "error" && f.of(last) != "nil" {
		f.add("no error", last.Pos(), last.End(), "nil")
	}
}
