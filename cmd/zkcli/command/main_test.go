package command

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == guardCommand { // lock has started this program again
		os.Exit(runGuard(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}
