package settle_test

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
	newBreakage   = trial.NewBreakage
	newWorld      = trial.NewWorld
	must          = trial.Must
	mustBe        = trial.MustBe
	quick         = trial.Quick
	deadline      = trial.Deadline
	exampleClient = trial.Example
)
