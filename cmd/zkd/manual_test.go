package main

import (
	"io"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/manual"
)

func TestManual(t *testing.T) { manual.Write(t, newRoot(io.Discard), "8") }
