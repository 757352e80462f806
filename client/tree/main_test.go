package tree_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client/internal/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type breakage = trial.Breakage

var (
	everyBreak    = trial.EveryBreak
	everyExpiry   = trial.EveryExpiry
	newWorld      = trial.NewWorld
	must          = trial.Must
	mustBe        = trial.MustBe
	exampleClient = trial.Example
)
