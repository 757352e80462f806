package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

var (
	rounds     = flag.Int("rounds", 20, "how often TestKill kills the server")
	zkdFlag    = flag.String("zkd", "", "program under test; built from the tree when empty")
	buildFlags = flag.String("build", "", "flags of the go build of the program, such as -race")
)

// program is the zkd binary under test.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zkd-crash-")
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
	return m.Run()
}

// newRand returns the random source of a test.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seeds.First(t), 0))
}
