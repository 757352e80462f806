package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

var (
	rounds     = flag.Int("rounds", 1, "rounds of TestKill")
	soakTime   = flag.Duration("time", 0, "how long TestSoak runs")
	target     = flag.String("target", "zkd", "zkd, or apache for the servers of Debian's package zookeeper")
	zkdFlag    = flag.String("zkd", "", "program under test; built from the tree when empty")
	previous   = flag.String("previous", "", "program of an earlier version, which every third server runs")
	buildFlags = flag.String("build", "", "flags of the go build of the program, such as -race")
	only       = flag.String("fault", "", "take the faults that this regular expression matches; empty for the short list")
	gaps       = flag.Int("gaps", 0, "rounds of TestReconfigGaps")
	keep       = flag.Bool("keep", false, "keep the directories of the servers")
)

// program is the zkd binary under test.
var program string

// patience bounds every wait for something that must happen. It is long: only
// a failing test waits for it.
const patience = 60 * time.Second

// answerTime bounds the wait for the answer of a server that runs.
const answerTime = 10 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if apache() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "zkd-cluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = *zkdFlag
	if program == "" {
		program = filepath.Join(dir, "zkd")
		args := append([]string{"build", "-o", program}, strings.Fields(*buildFlags)...)
		if out, err := exec.Command("go", append(args, "../../cmd/zkd")...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
	} else if program, err = filepath.Abs(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if *previous != "" {
		var err error
		if *previous, err = filepath.Abs(*previous); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

func apache() bool { return *target == "apache" }

// newRand returns the random source of a test.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seeds.First(t), 0))
}
