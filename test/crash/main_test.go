package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/test/internal/process"
)

var (
	rounds     = flag.Int("rounds", 20, "how often TestKill kills the server")
	program    = flag.String("zkd", "", "program under test; built from the tree when empty")
	buildFlags = flag.String("build", "", "flags of the go build of the program, such as -race")
)

const patience = process.Patience

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(process.Run(m, program, *buildFlags))
}

// newRand returns the random source of a test.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seeds.First(t), 0))
}
