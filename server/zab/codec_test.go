package zab

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// samples has one message of each shape.
func samples() []Message {
	marker := Marker{Leader: 2, Boot: 9, TimeMs: 5, Init: &ClusterInit{Cluster: ID{7}, Secret: [32]byte{8}},
		Admitted: []Admission{{1, ID{1}}, {2, ID{2}}}, App: []byte("app")}
	admit := Admission{3, ID{3}}
	members := sampleMembers()
	z := jute.MakeZxid(3, 0)
	return []Message{
		{Kind: MsgPrevote, Epoch: 4, Promise: 3, Zxid: z, Seq: 300, Flags: FlagSeeded | FlagAsking},
		{Kind: MsgPrevoteResp, Leader: 255, Flags: knownFlags},
		{Kind: MsgAckEpoch, Epoch: 1<<32 - 1, Zxid: -1, Commit: 1, Boot: 1<<64 - 1, Nonce: 1, Epochs: []EpochEnd{{0, 9}, {1, 1<<32 - 1}}, Cluster: ID{15: 1}},
		{Kind: MsgPong, Seq: 1, Echo: 2, Ms: 3, CRC: 4},
		{Kind: MsgAppend, Epoch: 3, Prev: 7, Entries: []Entry{
			{Zxid: z, Prev: 7, Type: EntryMarker, Data: marker.Append(nil)},
			{Zxid: z + 1, Prev: z, Data: []byte("data")},
			{Zxid: z + 2, Prev: z + 1},
			{Zxid: z + 3, Prev: z + 2, Type: EntryAdmit, Data: admit.Append(nil)},
			{Zxid: z + 4, Prev: z + 3, Type: EntryTxn | EntryAdmits, Data: append(admit.Append(nil), "more"...)},
			{Zxid: z + 5, Prev: z + 4, Type: EntryMembers, Data: members.Append(nil)},
		}},
	}
}

func sampleMembers() Members {
	return Members{Version: 5, Hierarchical: true, Text: []byte("text"),
		List: []Member{{ID: 1, Weight: 300, Group: 1}, {ID: 2, Observer: true}, {ID: 3, Observer: true, Demoted: true}, {ID: 200, Weight: 1, Group: 7}}}
}

func sampleState() State {
	m := sampleMembers()
	return State{Zxid: jute.MakeZxid(3, 9), Init: ClusterInit{Cluster: ID{1}}, Epochs: []EpochEnd{{1, 4}, {3, 9}},
		Members: &m, Admitted: []Admission{{1, ID{1}}, {200, ID{2}}}}
}

func TestMessagesAreRead(t *testing.T) {
	for _, want := range samples() {
		b := want.Append(nil)
		var got Message
		if err := got.Decode(b); err != nil {
			t.Fatalf("%v: %v", &want, err)
		}
		if got.String() != want.String() || !bytes.Equal(got.Append(nil), b) {
			t.Errorf("got %v, want %v", &got, &want)
		}
		for i := range got.Entries {
			if !reflect.DeepEqual(got.Entries[i], want.Entries[i]) {
				t.Errorf("entry %d: got %v, want %v", i, got.Entries[i], want.Entries[i])
			}
		}
		for n := range b {
			if new(Message).Decode(b[:n]) == nil && n != 3 { // 3 bytes may be a message without fields
				t.Errorf("%v: its first %d bytes decode", &want, n)
			}
		}
	}
}

// TestLaterEntriesAreNotMalformed: a message with an entry of a later version
// decodes, so that its receiver can say what it does not understand.
func TestLaterEntriesAreNotMalformed(t *testing.T) {
	later := []Entry{
		{Zxid: jute.MakeZxid(1, 5), Prev: jute.MakeZxid(1, 4), Type: 9, Data: []byte{1, 2}},
		{Zxid: jute.MakeZxid(2, 0), Prev: jute.MakeZxid(1, 4), Type: EntryMarker, Data: append([]byte{0x80}, (&Marker{Leader: 1}).Append(nil)[1:]...)},
	}
	for _, e := range later {
		m := Message{Kind: MsgAppend, Epoch: 1, Prev: e.Prev, Entries: []Entry{e}}
		var got Message
		if err := got.Decode(m.Append(nil)); err != nil || !reflect.DeepEqual(got.Entries, m.Entries) {
			t.Errorf("got %+v, %v; want %+v", got.Entries, err, m.Entries)
		}
		if err := e.Check(); !isNewer(err) {
			t.Errorf("%+v: %v, want a *format.VersionError", e, err)
		}
	}
	bad := Message{Kind: MsgAppend, Epoch: 1, Prev: 1, Entries: []Entry{{Zxid: 2, Prev: 1, Type: EntryAdmit}}}
	if err := new(Message).Decode(bad.Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a malformed admission: %v", err)
	}
}

func TestStateIsRead(t *testing.T) {
	want := sampleState()
	var got State
	if err := got.Decode(want.Append(nil)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	var zero State
	if err := got.Decode(zero.Append(nil)); err != nil || !reflect.DeepEqual(got, zero) {
		t.Errorf("got %+v, %v; want the zero value", got, err)
	}
	twice := State{Admitted: []Admission{{2, ID{1}}, {2, ID{2}}}}
	if err := got.Decode(twice.Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a server that is admitted twice: %v", err)
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if m.Decode(b) != nil {
			return
		}
		if again := m.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x encodes to %x", b, again)
		}
	})
}

// FuzzState feeds all decoders except the message's.
func FuzzState(f *testing.F) {
	s := sampleState()
	f.Add(s.Append(nil))
	f.Add(s.Members.Append(nil))
	for _, e := range samples()[4].Entries {
		f.Add(e.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s State
		var m Members
		var k Marker
		var a Admission
		for _, v := range []struct {
			err    error
			append func([]byte) []byte
		}{
			{s.Decode(b), func(b []byte) []byte { return s.Append(b) }},
			{m.Decode(b), func(b []byte) []byte { return m.Append(b) }},
			{k.Decode(b), func(b []byte) []byte { return k.Append(b) }},
			{a.Decode(b), func(p []byte) []byte { return append(a.Append(p), b[min(len(b), admissionSize):]...) }},
		} {
			if v.err != nil {
				continue
			}
			if again := v.append(nil); !bytes.Equal(again, b) {
				t.Errorf("%x encodes to %x", b, again)
			}
		}
	})
}
