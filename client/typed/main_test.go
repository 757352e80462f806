package typed_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client/internal/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type breakage = trial.Breakage

var (
	everyBreak    = trial.EveryBreak
	newBreakage   = trial.NewBreakage
	newWorld      = trial.NewWorld
	must          = trial.Must
	mustBe        = trial.MustBe
	exampleClient = trial.Example
)
