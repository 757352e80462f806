package console

import (
	"regexp"
	"testing"
)

// pure are the modules without the page, the network and the clock. What they do is tested where a program runs them.
var pure = []string{"plan.js", "diff.js", "exportfile.js"}

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
