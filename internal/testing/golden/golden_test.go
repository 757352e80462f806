package golden

import (
	"encoding/binary"
	"strings"
	"testing"
)

// A change of what is read, and one of what is written, show; so does what is no longer read.
func TestShow(t *testing.T) {
	read := func(b []byte) (any, []byte, error) { return binary.BigEndian.Uint16(b), b, nil }
	for _, tt := range []struct {
		name string
		f    Format
		want string
	}{
		{"same", read, "258"},
		{"other value", func(b []byte) (any, []byte, error) { return binary.LittleEndian.Uint16(b), b, nil }, "513"},
		{"other bytes", func(b []byte) (any, []byte, error) { return "a", append(b, make([]byte, 20)...), nil }, "\"a\"\nwritten 0102 0*20"},
		{"not written any more", func([]byte) (any, []byte, error) { return "a", nil, nil }, `"a"`},
	} {
		if got, err := show(tt.f, []string{"01", "02"}); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	for _, words := range []string{"0", "0*x", "zz"} {
		if b, err := parse(strings.Fields(words)); err == nil {
			t.Errorf("%s: %x, want an error", words, b)
		}
	}
}

func TestBytes(t *testing.T) {
	for _, words := range []string{"", "00", "0*16", "01 0*17 02", "0*20 0100", "000000"} {
		b, err := parse(strings.Fields(words))
		if got := format(b); got != words || err != nil {
			t.Errorf("%q comes back as %q, %v", words, got, err)
		}
	}
}

func TestText(t *testing.T) {
	type Zxid int64
	type inner struct{ a, b int32 }
	v := struct {
		At    Zxid
		Inner *inner
		Data  []byte
		key   [3]byte
		List  []inner
		Ok    bool
		Names map[string]bool
		None  string
	}{255, &inner{a: -1}, []byte("x y"), [3]byte{0, 1, 2}, []inner{{1, 2}, {}}, true, map[string]bool{"b": true, "a": false}, ""}
	if got, want := Text(v), `{At:0xff Inner:{a:-1} Data:"x y" key:000102 List:[{a:1 b:2} {}] Ok:true Names:{"a":false "b":true}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
