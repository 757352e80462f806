//go:build compat

package compat

import (
	"slices"
	"testing"
)

// ensembleRetries is how often a scenario that differs is held again: at times
// Apache's leader expires a session that was closed long ago on a follower, a
// transaction more.
const ensembleRetries = 1

// quickEnsembleSeeds is fewer than on one server: each step waits for three.
const quickEnsembleSeeds = 3

// TestEnsembleDifferential holds the scenarios of ensembles with Apache's and
// with the target's.
func TestEnsembleDifferential(t *testing.T) { testEnsembleDifferential(t, apache) }

// TestEnsembleDifferential39 does that with Apache 3.9.
func TestEnsembleDifferential39(t *testing.T) { testEnsembleDifferential(t, apache39) }

func testEnsembleDifferential(t *testing.T, release kind) {
	beside(t)
	reference, subject := startEnsembles(t, release, config{lines: []string{"zkd.interlude=0"}}) // connections end with the leader
	compare(t, release, ensembleScenarios(), ensembleRetries, func(_ *testing.T, s scenario) (a, b []string) {
		return runOnBoth(newEnsembleWorld(reference), newEnsembleWorld(subject), s.run)
	})
}

// TestEnsembleReadOnly does that for servers that serve reads without a quorum.
func TestEnsembleReadOnly(t *testing.T) { testEnsembleReadOnly(t, apache) }

// TestEnsembleReadOnly39 does that with Apache 3.9.
func TestEnsembleReadOnly39(t *testing.T) { testEnsembleReadOnly(t, apache39) }

func testEnsembleReadOnly(t *testing.T, release kind) {
	reference, subject := startEnsembles(t, release, config{
		props: map[string]string{"readonlymode.enabled": "true"},
		lines: []string{"localSessionsEnabled=true"},
	})
	compare(t, release, readOnlyScenarios(), ensembleRetries, func(_ *testing.T, s scenario) (a, b []string) {
		return runOnBoth(newEnsembleWorld(reference), newEnsembleWorld(subject), s.run)
	})
}

// TestEnsembleFollower holds scenarios of one server with a follower, which must
// answer as one server does. Malformed requests are left out: Apache's followers
// leave some of them without an answer, and the connection open.
func TestEnsembleFollower(t *testing.T) { testEnsembleFollower(t, apache) }

// TestEnsembleFollower39 does that with Apache 3.9.
func TestEnsembleFollower39(t *testing.T) { testEnsembleFollower(t, apache39) }

func testEnsembleFollower(t *testing.T, release kind) {
	beside(t)
	reference, subject := startEnsembles(t, release, config{})
	list := slices.Concat(nodeScenarios(), aclScenarios(), multiScenarios(), watchScenarios(), sessionScenarios())
	list = slices.DeleteFunc(list, func(s scenario) bool { return s.own != nil })
	compare(t, release, list, ensembleRetries, func(_ *testing.T, s scenario) (a, b []string) {
		return runOnBoth(newEnsembleWorld(reference), newEnsembleWorld(subject), func(w *world) {
			w.on(follower)
			w.local = true
			s.run(w)
		})
	})
}

// TestEnsembleRandom holds random conversations whose sessions are on all three
// servers, and move between them.
func TestEnsembleRandom(t *testing.T) { testEnsembleRandom(t, apache) }

// TestEnsembleRandom39 does that with Apache 3.9.
func TestEnsembleRandom39(t *testing.T) { testEnsembleRandom(t, apache39) }

func testEnsembleRandom(t *testing.T, release kind) {
	t.Parallel()
	reference, subject := startEnsembles(t, release, config{})
	compareRandom(t, release, quickEnsembleSeeds, func(run func(*world)) (a, b []string) {
		apaches := newEnsembleWorld(reference)
		apaches.patience = hangsAfter
		return runOnBoth(apaches, newEnsembleWorld(subject), run)
	})
}
