package datadirs

import (
	"strings"
	"testing"
)

// TestOwnerFile checks the file's text, and the messages about errors in it.
func TestOwnerFile(t *testing.T) {
	o := Owner{Server: 200, Incarnation: [16]byte{1, 2, 15: 0xff}}
	const text = "zkd data directory, format 1\nserver 200\nincarnation 010200000000000000000000000000ff\ncrc 4472dd5d\n"
	if got := string(o.Encode()); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
	if got, err := DecodeOwner([]byte(text)); got != o || err != nil {
		t.Errorf("decoded %+v, %v", got, err)
	}
	for copyOf, want := range map[Copy]string{
		OfApache: "zkd data directory, format 2\nserver 101\nincarnation 010200000000000000000000000000ff\nmirror of Apache ZooKeeper\ncrc ",
		OfZkd:    "zkd data directory, format 3\nserver 101\nincarnation 010200000000000000000000000000ff\nstandby of another ensemble\ncrc ",
	} {
		m := Owner{Server: 101, Incarnation: o.Incarnation, Copy: copyOf}
		if got := string(m.Encode()); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, err := DecodeOwner(m.Encode()); got != m || err != nil {
			t.Errorf("decoded %+v, %v", got, err)
		}
	}
	for i := range text {
		b := []byte(text)
		b[i] ^= 1
		if _, err := DecodeOwner(b); err == nil {
			t.Errorf("byte %d changed, and no error", i)
		}
	}
	for _, text := range []string{"", "crc 00000000\n", "x\ncrc 4fa5f0ea\n"} {
		if _, err := DecodeOwner([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
