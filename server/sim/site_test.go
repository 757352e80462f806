package sim

import (
	"os"
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// TestSites changes the site in the middle of each run: the ensemble is retired, or its servers are lost. With -args -seed and -seeds it
// is a campaign.
func TestSites(t *testing.T) {
	first, seeds, steps := uint64(1), 40, 2000
	if testing.Short() {
		seeds = 15
	}
	if *seedFlag != 0 {
		first, seeds, steps = *seedFlag, *seedsFlag, *stepsFlag
	}
	for _, change := range []SiteChange{SiteRetires, SiteIsLost} {
		var sum Stats
		for i := range seeds {
			cfg := Draw(first+uint64(i), steps)
			cfg.changesSite(change, 1+int(cfg.Seed%3))
			r := Run(cfg)
			sum.Add(&r.Stats)
			if r.Failure != nil {
				Trace(r.Config, os.Stderr, *traceFlag)
				t.Fatalf("change %d\n%v\n%v", change, &r.Config, r.Failure)
			}
		}
		if sum.Promotions == 0 || change == SiteIsLost && sum.GivenUp == 0 {
			t.Errorf("change %d: in %d runs standbys have taken the place of an ensemble %d times, and %d entries were given up", change, seeds, sum.Promotions, sum.GivenUp)
		}
		t.Logf("change %d: %d times in %d runs, %d entries given up; %d entries and %d states copied, %d copies refused", change, sum.Promotions, seeds, sum.GivenUp, sum.Copied, sum.States, sum.Emptied)
	}
}

// TestServerOfTheSiteBefore: a client may name a server as a member that there is not any more. It has no weight.
func TestServerOfTheSiteBefore(t *testing.T) {
	play(t, scriptConfig(), func(s *script) {
		if !s.mayLoseDisk(s.nodes[0]) {
			s.fail("script", "two of three servers can't decide")
		}
		list := s.membersNow()
		list.List = append(list.List, zab.Member{ID: 9, Weight: 1})
		if s.mayLoseDisk(s.nodes[0]) {
			s.fail("script", "two of four servers can decide")
		}
	})
}
