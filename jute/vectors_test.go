package jute

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
)

// TestVectors decodes frames that real clients and a real server exchanged
// (testdata/vectors.txt), and encodes the records to the same bytes. The records must
// match testdata/vectors.golden.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		payload, err := hex.DecodeString(f[3])
		if err != nil {
			t.Fatal(err)
		}
		parts, rest, err := decodeFrame(f[1], f[2], payload)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: error %v, %d bytes left", line, err, len(rest))
		}
		var again []byte
		fmt.Fprintf(&got, "%s %s %s\n", f[0], f[1], f[2])
		for _, r := range parts {
			again = r.Append(again)
			fmt.Fprintf(&got, "\t%s%s\n", strings.TrimPrefix(fmt.Sprintf("%T", r), "*jute."), fmt.Sprintf("%+v", r)[1:])
		}
		if !bytes.Equal(again, payload) {
			t.Errorf("%s %s %s\n got %x\nwant %x", f[0], f[1], f[2], again, payload)
		}
		seen[f[1]] = true
	}
	for op := range bodies {
		if !seen[op] {
			t.Errorf("no vector has operation %s", op)
		}
	}
	scenario.Golden(t, "testdata/vectors.golden", got.String())
}

// decodeFrame decodes a payload into its header, if it has one, and its body.
func decodeFrame(op, direction string, payload []byte) (parts []record, rest []byte, err error) {
	d := NewDecoder(payload)
	var body func() record
	switch {
	case op == "connect" && direction == "request":
		body = as[ConnectRequest]
	case op == "connect":
		body = as[ConnectResponse]
	case direction == "request":
		h := new(RequestHeader)
		h.Decode(&d)
		parts, body = append(parts, h), bodies[op].request
	default:
		h := new(ReplyHeader)
		h.Decode(&d)
		parts, body = append(parts, h), bodies[op].response
		if h.Err != 0 {
			body = as[empty]
		}
	}
	r := body()
	r.Decode(&d)
	return append(parts, r), d.Rest(), d.Err()
}
