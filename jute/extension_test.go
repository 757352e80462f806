package jute

import (
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestExtensionFrames decodes the recorded frames of docs/dev/spec/extensions.md, and encodes them to the
// same bytes.
func TestExtensionFrames(t *testing.T) {
	text, err := os.ReadFile("../docs/dev/spec/extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```frames\n")
	block, _, _ = strings.Cut(block, "```")
	frames := 0
	for line := range strings.Lines(block) {
		f := strings.Fields(line)
		payload, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(payload)
		records := extended[f[0]+" "+f[1]]
		var again []byte
		for _, make := range records {
			r := make()
			r.Decode(&d)
			again = r.Append(again)
		}
		if d.Err() != nil || len(d.Rest()) > 0 || !bytes.Equal(again, payload) || len(records) == 0 {
			t.Errorf("%s: error %v, %d bytes left, encoded again:\n%x", line, d.Err(), len(d.Rest()), again)
		}
		frames++
	}
	if frames == 0 {
		t.Error("docs/dev/spec/extensions.md has no frames")
	}
}

// extended are the records of the frames that have extensions.
var extended = map[string][]func() record{
	"connect request":  {as[ConnectRequest], as[ExtensionRequest]},
	"connect response": {as[ConnectResponse], as[ExtensionResponse]},
	"page request":     {as[RequestHeader], as[ChildrenPageRequest]},
	"page response":    {as[ReplyHeader], as[ChildrenPageResponse]},
	"subtree request":  {as[RequestHeader], as[SubtreePageRequest]},
	"subtree response": {as[ReplyHeader], as[SubtreePageResponse]},
	"create request":   {as[RequestHeader], as[CreateRequest], as[confirmed]},
	"create response":  {as[ReplyHeader], as[PathResponse]},
	"setData request":  {as[RequestHeader], as[SetDataRequest], as[confirmed]},
	"setData response": {as[ReplyHeader], as[Stat]},
	"delete request":   {as[RequestHeader], as[DeleteRequest], as[confirmed]},
	"delete response":  {as[ReplyHeader]},

	"subscribe request":    {as[RequestHeader], as[SubscribeRequest]},
	"subscribe response":   {as[ReplyHeader], as[SubscribeResponse]},
	"feed event":           {as[ReplyHeader], as[FeedEvent]},
	"credit request":       {as[RequestHeader], as[CreditRequest]},
	"credit response":      {as[ReplyHeader]},
	"unsubscribe request":  {as[RequestHeader], as[UnsubscribeRequest]},
	"unsubscribe response": {as[ReplyHeader]},
}

// confirmed is the end of a write of an exactly-once session.
type confirmed int64

func (c *confirmed) Append(b []byte) []byte { return AppendInt64(b, int64(*c)) }
func (c *confirmed) Decode(d *Decoder)      { *c = confirmed(d.Int64()) }

// TestExtended checks which bytes after a connect record are an extension, and that one that is
// cut off can't be decoded.
func TestExtended(t *testing.T) {
	whole := (&ExtensionRequest{Features: FeatureFeed | FeatureMoved, Confirmed: 7, Holder: 8}).Append(nil)
	for n := range len(whole) + 1 {
		d := NewDecoder(whole[:n])
		asks := Extended(&d)
		if asks != (n >= len(extensionMark)) {
			t.Errorf("%x: extended %v", whole[:n], asks)
		}
		var r ExtensionRequest
		r.Decode(&d)
		if (d.Err() == nil) != (n == len(whole)) {
			t.Errorf("%x: decodes to %+v, error %v", whole[:n], r, d.Err())
		}
	}
	for _, other := range []string{"", "z", "zkdy0123456789ab", "\x00zkdx0123456789ab"} {
		if d := NewDecoder([]byte(other)); Extended(&d) {
			t.Errorf("%q is taken for an extension", other)
		}
	}
}

func TestFeatureNames(t *testing.T) {
	for f, want := range map[Features]string{
		0: "", FeatureExactlyOnce: "exactly-once", FeatureMoved: "moved", FeatureFeed | FeaturePaging: "feed,paging", 1 << 31: "",
	} {
		if got := f.String(); got != want || !slices.Equal(f.Names(), strings.FieldsFunc(want, func(c rune) bool { return c == ',' })) {
			t.Errorf("%d: %q, %q, want %q", uint32(f), got, f.Names(), want)
		}
	}
}

// TestHolder checks which clients have lost their session to another one.
func TestHolder(t *testing.T) {
	const one, two = Holder(4), Holder(8)
	for _, tt := range []struct {
		asks, last Holder
		lost       bool
	}{
		{one, one, false}, {one, two, true}, {one, HolderUnnamed, true}, {one, 0, false},
		{one | HolderTakes, two, false}, {one | HolderTakes, HolderUnnamed, false},
		{0, two, false}, {HolderTakes, two, false}, {-6, two, false}, // no names
	} {
		if got := tt.asks.Lost(tt.last); got != tt.lost {
			t.Errorf("%d after %d: lost %v", tt.asks, tt.last, got)
		}
	}
	for h, want := range map[Holder]Holder{one: one, one | HolderTakes: one, 0: HolderUnnamed, HolderTakes: HolderUnnamed, -4: HolderUnnamed} {
		if got := h.Name(); got != want {
			t.Errorf("%d is %d", h, got)
		}
	}
}
