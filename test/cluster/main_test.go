package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/test/internal/process"
)

var (
	rounds     = flag.Int("rounds", 1, "rounds of TestKill")
	soakTime   = flag.Duration("time", 0, "how long TestSoak runs")
	target     = flag.String("target", "zkd", "zkd, or apache for the servers of Debian's package zookeeper")
	program    = flag.String("zkd", "", "program under test; built from the tree when empty")
	previous   = flag.String("previous", "", "program of an earlier version, which every third server runs")
	buildFlags = flag.String("build", "", "flags of the go build of the program, such as -race")
	only       = flag.String("fault", "", "take the faults that this regular expression matches; empty for the short list")
	gaps       = flag.Int("gaps", 0, "rounds of TestReconfigGaps")
	keep       = flag.Bool("keep", false, "keep the directories of the servers")
)

const patience = process.Patience

// answerTime bounds the wait for the answer of a server that runs.
const answerTime = 10 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	if *previous != "" {
		var err error
		if *previous, err = filepath.Abs(*previous); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if apache() {
		os.Exit(m.Run())
	}
	os.Exit(process.Run(m, program, *buildFlags))
}

func apache() bool { return *target == "apache" }

// newRand returns the random source of a test.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seeds.First(t), 0))
}
