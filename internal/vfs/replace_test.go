package vfs_test

import (
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
)

// TestReplaceSurvivesACrash replaces a file, and has power cuts that forget some of what is not synced.
func TestReplaceSurvivesACrash(t *testing.T) {
	fsys := crashfs.New(1)
	if err := fsys.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"old", "the new one"} {
		if err := vfs.Replace(fsys, "/d/file", []byte(text), ""); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(30) {
			got, err := vfs.ReadFile(fsys.Crash(rand.New(rand.NewPCG(seed, 0))), "/d/file")
			if string(got) != text || err != nil {
				t.Fatalf("seed %d: after the power cut there is %q, %v; want %q", seed, got, err, text)
			}
		}
	}
}
