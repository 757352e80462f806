package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"testing"
)

const faultForm = "the fault stands in the rule: name the condition without it, and write the fault on the next line, " +
	"as in y = y || fault.Planted(), y = y && !fault.Planted(), if fault.Planted() && more {, if !fault.Planted() { or case fault.Planted():"

// checkFaults checks that a rule can be read without the fault that is planted into it.
func checkFaults(f *file) (messages []string) {
	if f.syn == nil || f.isTest() || f.dir() == "internal/mutant" {
		return nil
	}
	var path []ast.Node
	ast.Inspect(f.syn, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		if call, ok := n.(*ast.CallExpr); ok && isPlanted(call) && !standsAlone(path) {
			messages = append(messages, fmt.Sprintf(":%d: %s", f.line(n), faultForm))
		}
		return true
	})
	return messages
}

// standsAlone reports whether the last node of path, a call of Planted, is in one of the forms.
func standsAlone(path []ast.Node) bool {
	for i := len(path) - 1; i >= 0; i-- {
		switch n := path[i].(type) {
		case *ast.IfStmt:
			return n.Init == nil && (isFault(n.Cond) || isNotPlanted(n.Cond))
		case *ast.CaseClause:
			e, ok := path[i+1].(ast.Expr)
			return ok && isFault(e)
		case *ast.AssignStmt:
			return len(n.Rhs) == 1 && isChange(n.Rhs[0])
		case *ast.ReturnStmt:
			return len(n.Results) == 1 && isChange(n.Results[0])
		case *ast.FuncDecl, *ast.FuncLit:
			return false
		}
	}
	return false
}

// isFault reports whether an expression is fault.Planted(), perhaps with more conditions after it, or several of these.
func isFault(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.Op == token.LOR && isFault(e.X) && isFault(e.Y) || e.Op == token.LAND && isFault(e.X)
	case *ast.CallExpr:
		return isPlanted(e)
	}
	return false
}

// isChange reports whether an expression is what a fault makes of a named condition.
func isChange(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	_, named := b.X.(*ast.Ident)
	return named && (b.Op == token.LOR && isFault(b.Y) || b.Op == token.LAND && isNotPlanted(b.Y))
}

func isNotPlanted(e ast.Expr) bool {
	not, ok := e.(*ast.UnaryExpr)
	return ok && not.Op == token.NOT && isFault(not.X)
}

func isPlanted(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Planted"
}

func TestCheckFaults(t *testing.T) {
	for text, want := range map[string]int{
		"if f.Planted() { y = 1 }":             0,
		"if f.Planted() && x { y = 1 }":        0,
		"if !f.Planted() { y = 1 }":            0,
		"z = z || f.Planted() && x":            0,
		"z = z && !f.Planted()":                0,
		"switch { case f.Planted(): y = 1 }":   0,
		"if x && !f.Planted() { y = 1 }":       1,
		"if x || f.Planted() { y = 1 }":        1,
		"z = x && !f.Planted() || z":           1,
		"call(f.Planted())":                    1,
		"switch { case x, f.Planted(): }":      0,
		"switch { case x && !f.Planted(): }":   1,
		"if y := 1; f.Planted() { z = y > 1 }": 1,
	} {
		f, err := parse("a/b.go", "package p; func _() {"+text+"}")
		if err != nil {
			t.Fatal(err)
		}
		if got := checkFaults(f); len(got) != want {
			t.Errorf("%s: %q, want %d", text, got, want)
		}
	}
}
