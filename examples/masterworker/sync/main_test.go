package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/examples/masterworker/mwtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSystem(t *testing.T) { mwtest.Run(t, system()) }

func BenchmarkAssign(b *testing.B) { mwtest.Bench(b, system()) }
