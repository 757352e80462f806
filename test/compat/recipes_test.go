//go:build compat

package compat

import "testing"

// TestRecipes runs all tests of the recipes with a server of Apache's, each of whose
// requests is the one at which the connection breaks once, or the session ends. With
// zkd they do so on their own.
func TestRecipes(t *testing.T) {
	testPackages(t, start(t, apache, ourClient).addr, ".", "recipes/...")
}

// TestEnsembleRecipes runs the recipes' storms with ensembles whose leader is killed and
// started again, process and all, meanwhile.
func TestEnsembleRecipes(t *testing.T) {
	for _, k := range kinds(t) {
		t.Run(string(k), func(t *testing.T) {
			e := startEnsemble(t, k, ourClient)
			done, kills := make(chan struct{}), make(chan int)
			go func() { kills <- e.killLeaders(t, done) }()
			testPackages(t, e.hosts(), "Storm", "recipes/...")
			close(done)
			t.Logf("%d leaders killed", <-kills)
		})
	}
}
