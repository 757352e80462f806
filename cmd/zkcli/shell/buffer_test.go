package shell

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// TestBufferColumns: after any keys the cursor is in the line, and the line as
// x/term sees it is the line.
func TestBufferColumns(t *testing.T) {
	seed := seeds.First(t)
	random := rand.New(rand.NewPCG(seed, 0))
	text := []rune("ab /日\"é")
	var b buffer
	for i := range 20_000 {
		if random.IntN(2) == 0 {
			b.insert(text[random.IntN(len(text))])
		} else {
			b.edit(keyFirst + rune(random.IntN(int(keyLast-keyFirst))))
		}
		if len(b.text) > 100 {
			b.set("")
		}
		line, pos := b.columns()
		var back buffer
		back.fromColumns(line, pos)
		if back.String() != b.String() || back.pos != b.pos || b.pos < 0 || b.pos > len(b.text) {
			t.Fatalf("seed %d, key %d: line %q, cursor %d; as columns %q, %d; back %q, %d", seed, i, b.String(), b.pos, line, pos, back.String(), back.pos)
		}
		if n := len([]rune(line)); n != displayWidth(b.String()) {
			t.Fatalf("seed %d: %q has %d columns, want %d", seed, b.String(), n, displayWidth(b.String()))
		}
	}
}

func TestWide(t *testing.T) {
	for _, r := range "日가あ、Ａ￥😀🪐⌚" {
		if !wide(r) {
			t.Errorf("%c (%U) is narrow, want wide", r, r)
		}
	}
	for _, r := range "aé/…ｱ€→" {
		if wide(r) {
			t.Errorf("%c (%U) is wide, want narrow", r, r)
		}
	}
}

func TestListCountsWhatDoesNotFit(t *testing.T) {
	var all []Candidate
	for i := range 12_361 {
		all = append(all, Candidate{Text: fmt.Sprintf("/n%05d", i)})
	}
	got := strings.Split(strings.TrimSuffix(list(all, 40, 7, false), "\n"), "\n")
	want := []string{ // four rows: as many as leave room for the line
		"/n00000  /n00003  /n00006  /n00009",
		"/n00001  /n00004  /n00007  /n00010",
		"/n00002  /n00005  /n00008  /n00011",
	}
	if len(got) != 4 || strings.Join(got[:3], "\n") != strings.Join(want, "\n") || got[3] != "… and 12,349 more" {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestListWithHelp(t *testing.T) {
	all := []Candidate{{Text: "-s", Help: "with the stat"}, {Text: "--watch", Help: "a long explanation that can't all be shown"}}
	want := "-s       with the stat\n--watch  a long explanation…\n"
	if got := list(all, 30, 24, false); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := list(all, 30, 24, true); !strings.Contains(got, dim+"with the stat"+reset) {
		t.Errorf("no colours: %q", got)
	}
}
