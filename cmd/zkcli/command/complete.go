package command

import (
	"context"

	"github.com/spf13/cobra"
)

// The annotation of a flag that says what its value can be completed with.
const kindAnnotation = "zkcli-kind"

var kindNames = map[Kind]string{Text: "text", Path: "path", Host: "host", File: "file", Word: "word", Name: "name"}

func annotate(flags *cobra.Command, long string, kind Kind, words []string) {
	// It fails only for a flag that has not been defined.
	_ = flags.Flags().SetAnnotation(long, kindAnnotation, append([]string{kindNames[kind]}, words...))
}

// Complete returns what the word, the last of a line, can become. args are the
// words before it. It may ask a server for the names of znodes.
func (a *App) Complete(ctx context.Context, args []string, word string) []string {
	return nil
}
