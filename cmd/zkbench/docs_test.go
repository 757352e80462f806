package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/testing/doclines"
)

// TestDocumentedLines parses the lines of zkbench in the documentation.
func TestDocumentedLines(t *testing.T) {
	doclines.Check(t, "../..", "zkbench", doclines.Cobra(func() *cobra.Command { return newRoot(io.Discard, io.Discard) }))
}
