package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestMain lets the test program stand in for the real one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == slowCommand {
		fmt.Fprintln(os.Stderr, becomeSlow(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Each sync of a slow disk takes longer, and happens.
func TestSlowDisk(t *testing.T) {
	s, err := newServer(script(t, "for i in 1 2 3; do echo $i >> $1.out; sync -d $1.out; sync $1.out; done; echo done\n"), t.TempDir(), here, 1, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	const delay = 20 * time.Millisecond
	began := time.Now()
	if err := s.startOnSlowDisk(delay); err != nil {
		t.Fatal(err)
	}
	<-s.gone
	if s.end != nil || s.tail() != "done\n" {
		t.Fatalf("%v: %s", s.end, s.tail())
	}
	if took := time.Since(began); took < 6*delay {
		t.Errorf("6 syncs took %v, want %v each at least", took, delay)
	}
	if got := read(t, s.argv[1]+".out"); got != "1\n2\n3\n" {
		t.Errorf("file has %q", got)
	}
}
