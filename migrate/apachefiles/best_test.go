package apachefiles

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestBest chooses between a server that has everything and one with less, whose files seem to have as much
// or hide that they have more.
func TestBest(t *testing.T) {
	s := newSample()
	records := splitLog(t, s.log)
	log := func(n int) []byte { return append(logHeader(), bytes.Join(records[:n], nil)...) }
	end := len(records)
	last := s.label + jute.Zxid(len(s.states)-1)
	next := fmt.Sprintf("snapshot.%x", int64(last))
	cut := log(end - 1)
	hurt := flipped(log(end), len(log(end-5))+recordHeader+txnHeader)
	lacking := map[string][]byte{s.name(): s.snapshot, "log.1": log(end - 4)}
	for _, tt := range []struct {
		name     string
		a, b     map[string][]byte
		epochs   [2]string // currentEpoch, "" for no file
		want     jute.Zxid
		wrong    string // the error of Best
		unusable string // that of Load
	}{
		{name: "a has more", a: map[string][]byte{s.name(): s.snapshot, "log.1": log(end)}, b: lacking, want: last},
		{name: "the files of epochs are lost where there is more", a: map[string][]byte{s.name(): s.snapshot, "log.1": later(s, log(end))}, b: lacking, epochs: [2]string{"", "1"}, want: jute.MakeZxid(3, 1)},
		{name: "a snapshot was not finished", a: map[string][]byte{s.name(): s.snapshot, next: s.snapshot[:len(s.snapshot)/2], "log.1": log(end - 4)},
			b: map[string][]byte{s.name(): s.snapshot, "log.1": cut}, want: last - 1},
		{name: "an empty snapshot", a: map[string][]byte{s.name(): s.snapshot, next: {}, "log.1": log(end - 4)}, b: map[string][]byte{s.name(): s.snapshot, "log.1": cut}, want: last - 1},
		{name: "a damaged snapshot is all that has more", a: map[string][]byte{s.name(): s.snapshot, next: flipped(s.snapshot, 100), "log.1": log(end - 4)},
			b: map[string][]byte{s.name(): s.snapshot, "log.1": cut}, want: last, unusable: "a part of it is lost"},
		{name: "a damaged log is of one that may have more", a: map[string][]byte{s.name(): s.snapshot, "log.1": hurt}, b: lacking, wrong: "it is unknown what this server has confirmed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var servers []*Server
			for i, files := range []map[string][]byte{tt.a, tt.b} {
				d := newDir(t)
				for name, b := range files {
					d.write(name, b)
				}
				if tt.epochs[i] != "" {
					d.write("currentEpoch", []byte(tt.epochs[i]))
				}
				f, err := Find(d.path, "")
				d.check(err)
				servers = append(servers, f)
			}
			best, _, err := Best(servers)
			if err != nil || tt.wrong != "" {
				if tt.wrong == "" || !strings.Contains(fmt.Sprint(err), tt.wrong) {
					t.Errorf("%v, want %q", err, tt.wrong)
				}
				return
			}
			if best.Last() != tt.want {
				t.Errorf("%v, want %v", best.Last(), tt.want)
			}
			tree, _, err := best.Load(Options{})
			switch {
			case tt.unusable != "":
				if !strings.Contains(fmt.Sprint(err), tt.unusable) {
					t.Errorf("%v, want %q", err, tt.unusable)
				}
				_, _, err := best.Load(Options{Until: last - 4})
				if err != nil {
					t.Errorf("until the end of the log: %v", err)
				}
			case err != nil || tree.Last != tt.want:
				t.Errorf("%v", err)
			}
		})
	}
}

// later appends a transaction of epoch 3 to a log.
func later(s *sample, log []byte) []byte {
	return append(log, appendRecord(nil, header(9, jute.MakeZxid(3, 1), txnError).int(-1))...)
}
