package jute

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMultiRequestDecode(t *testing.T) {
	const (
		header = " 00 ffffffff "
		end    = "ffffffff 01 ffffffff "
		path   = "00000002 2f61 "
		del    = "00000002" + header + path + "00000003 "
		check  = "0000000d" + header + path + "00000003 "
		get    = "00000004" + header + path + "01 "
		list   = "00000008" + header + path + "00 "
	)
	cases := []struct {
		name  string
		in    string
		types string // of the operations; "" for an error
	}{
		{"empty", end, "[]"},
		{"two writes", del + check + end, "[delete check]"},
		{"two reads", get + list + end, "[getData getChildren]"},
		{"the first done ends it, whatever its type", del + "00000002 01 00000000" + get, "[delete]"},
		{"any byte but 0 says done", del + "00000000 80 00000000", "[delete]"},
		{"a read after a write", del + get + end, ""},
		{"a write after a read", get + check + end, ""},
		{"an operation that can't be in a multi", "00000003" + header + path + "00" + end, ""},
		{"deleteContainer, which is the server's own", "00000014" + header + path + end, ""},
		{"an unknown operation", "00000bad" + header + end, ""},
		{"a result type", "ffffffff" + header + "00000000" + end, ""},
		{"no end", del, ""},
		{"a cut operation", "00000002" + header + path, ""},
		{"nothing", "", ""},
	}
	for _, c := range cases {
		var r MultiRequest
		d := NewDecoder(unhex(t, c.in))
		r.Decode(&d)
		if c.types == "" {
			if !errors.Is(d.Err(), ErrMarshalling) {
				t.Errorf("%s: got %+v and error %v, want ErrMarshalling", c.name, r, d.Err())
			}
			continue
		}
		var types []string
		for _, op := range r.Ops {
			types = append(types, op.Type.String())
		}
		if got := "[" + strings.Join(types, " ") + "]"; got != c.types || d.Err() != nil {
			t.Errorf("%s: got %s and error %v, want %s", c.name, got, d.Err(), c.types)
		}
		if r.Reads() != strings.HasPrefix(c.types, "[get") {
			t.Errorf("%s: Reads() = %v", c.name, r.Reads())
		}
	}
}

// TestNullsInMulti checks that in a multi a null path is kept, since the server refuses
// the multi or answers a multiRead up to there; and that a null ACL is an error, except
// in createTTL, as is a mode that a create can't have in a multi.
func TestNullsInMulti(t *testing.T) {
	const (
		header = " 00 ffffffff "
		end    = "ffffffff 01 ffffffff "
		null   = "ffffffff "
		path   = "00000002 2f61 "
	)
	for _, c := range []struct {
		name     string
		in       string
		nullPath bool
		err      error
	}{
		{"delete", "00000002" + header + null + "00000003", true, nil},
		{"setData", "00000005" + header + null + null + "00000003", true, nil},
		{"check", "0000000d" + header + null + "00000003", true, nil},
		{"getData", "00000004" + header + null + "01", true, nil},
		{"getChildren", "00000008" + header + null + "00", true, nil},
		{"create", "00000001" + header + null + null + "00000000 00000000", true, nil},
		{"getData with a path", "00000004" + header + path + "01", false, nil},
		{"create with a time to live", "00000001" + header + path + null + "00000000 00000005", false, ErrMarshalling},
		{"create2 with an unknown mode", "0000000f" + header + path + null + "00000000 00000009", false, ErrMarshalling},
		{"create with a null ACL", "00000001" + header + path + null + null + "00000000", false, ErrNull},
		{"create2 with a null ACL", "0000000f" + header + path + null + null + "00000000", false, ErrNull},
		{"createContainer with a null ACL", "00000013" + header + path + null + null + "00000004", false, ErrNull},
		{"createTTL with a null ACL", "00000015" + header + path + null + null + "00000005 0000000000000009", false, nil},
	} {
		in := unhex(t, c.in+end)
		var r MultiRequest
		d := NewDecoder(in)
		r.Decode(&d)
		if c.err != nil {
			if !errors.Is(d.Err(), c.err) {
				t.Errorf("%s: error %v, want %v", c.name, d.Err(), c.err)
			}
			continue
		}
		if d.Err() != nil || len(r.Ops) != 1 || r.Ops[0].NullPath != c.nullPath {
			t.Errorf("%s: got %+v and error %v, want a null path: %v", c.name, r, d.Err(), c.nullPath)
			continue
		}
		var again MultiRequest
		d = NewDecoder(r.Append(nil))
		again.Decode(&d)
		if d.Err() != nil || again.Ops[0].NullPath != c.nullPath {
			t.Errorf("%s: encoded and decoded it is %+v, error %v", c.name, again, d.Err())
		}
	}
}

// TestFailedMulti compares with the bytes that Apache's server sends when the first of
// two operations finds no node.
func TestFailedMulti(t *testing.T) {
	r := MultiResponse{[]MultiResult{
		{Type: OpError, Err: ErrNoNode},
		{Type: OpError, Err: ErrRuntimeInconsistency},
	}}
	want := "ffffffff00ffffff9bffffff9b" + "ffffffff00fffffffefffffffe" + "ffffffff01ffffffff"
	if got := hex.EncodeToString(r.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestMultiReuse checks that decoding into a used record keeps none of its old content.
func TestMultiReuse(t *testing.T) {
	first := MultiRequest{[]MultiOp{{Type: OpSetData, Path: "/a", Data: []byte("x"), Version: 4}}}
	second := MultiRequest{[]MultiOp{{Type: OpDelete, Path: "/b"}}}
	var r MultiRequest
	for _, m := range []MultiRequest{first, second} {
		d := NewDecoder(m.Append(nil))
		r.Decode(&d)
	}
	if got := r.Ops[0]; got.Data != nil || got.Version != 0 || got.Path != "/b" {
		t.Errorf("decoded into a used record: %+v", got)
	}
}
