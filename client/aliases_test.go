package client_test

import "github.com/zkd-project/zkd/client/internal/trial"

type (
	breakage = trial.Breakage
	world    = trial.World
)

var (
	everyBreak    = trial.EveryBreak
	everyExpiry   = trial.EveryExpiry
	newBreakage   = trial.NewBreakage
	newWorld      = trial.NewWorld
	must          = trial.Must
	mustBe        = trial.MustBe
	deadline      = trial.Deadline
	exampleClient = trial.Example
)
