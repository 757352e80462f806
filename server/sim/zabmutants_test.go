//go:build zabmutants

package sim

import (
	"testing"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// TestMutantsOfReplicas plants each fault of the replica.
func TestMutantsOfReplicas(t *testing.T) {
	for _, m := range replica.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			replica.SetMutant(0)
			if on {
				replica.SetMutant(m)
			}
		}})
	}
}

// TestMutantsOfDirectories plants each fault of the decision how a server may start.
func TestMutantsOfDirectories(t *testing.T) {
	for _, m := range datadirs.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			datadirs.SetMutant(0)
			if on {
				datadirs.SetMutant(m)
			}
		}})
	}
}

// TestMutantsOfEvaluation plants each fault of the evaluation of requests.
func TestMutantsOfEvaluation(t *testing.T) {
	for _, m := range evaluate.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			evaluate.SetMutant(0)
			if on {
				evaluate.SetMutant(m)
			}
		}})
	}
}

// TestMutantsOfFeeds plants each fault of histories of changes and of feeds.
func TestMutantsOfFeeds(t *testing.T) {
	for _, m := range feed.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			feed.SetMutant(0)
			if on {
				feed.SetMutant(m)
			}
		}})
	}
}

// TestMutantsOfSubtrees plants each fault of subtrees at one zxid.
func TestMutantsOfSubtrees(t *testing.T) {
	for _, m := range datatree.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			datatree.SetMutant(0)
			if on {
				datatree.SetMutant(m)
			}
		}})
	}
}

// TestMutants plants each fault of the core. A script or a random run must find it.
func TestMutants(t *testing.T) {
	for _, m := range zab.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			zab.SetMutant(0)
			if on {
				zab.SetMutant(m)
			}
		}})
	}
}
