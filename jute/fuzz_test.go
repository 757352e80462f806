package jute

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
)

// maxAlloc bounds the allocations for decoding n bytes: the worst record is a vector of
// ACL entries, 40 bytes of memory for 12 on the wire, or a multi, 96 for 14 and grown by
// doubling. The constant is for the runtime's own allocations.
func maxAlloc(n int) uint64 { return 32*uint64(n) + 64<<10 }

// fuzzRecords fuzzes the decoders of the given records. The first byte of the input
// selects one.
func fuzzRecords(f *testing.F, makers ...func() record) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, make := range makers {
		for range 4 {
			r := make()
			example(r, rng)
			f.Add(r.Append([]byte{byte(i)}))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		make, b := makers[int(in[0])%len(makers)], in[1:]
		before := totalAlloc()
		first, rest, err := decode(make, b)
		if used := totalAlloc() - before; used > maxAlloc(len(b)) {
			t.Errorf("%T: decoding %d bytes allocated %d", first, len(b), used)
		}
		checkAlias(t, make, b, first, err)
		if err != nil {
			return
		}
		// Nulls that a record does not keep, and booleans other than 1, make
		// the encoding differ from the input, but only once.
		again := first.Append(nil)
		second, left, err := decode(make, again)
		if err != nil || len(left) > 0 || !reflect.DeepEqual(first, second) {
			t.Errorf("%x decodes to\n%+v (rest %x), then %x to\n%+v (rest %x), error %v", b, first, rest, again, second, left, err)
		}
		if third := second.Append(nil); !bytes.Equal(again, third) {
			t.Errorf("%T encodes to %x, then to %x", first, again, third)
		}
	})
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// checkAlias checks that a decoder that shares memory reads the same.
func checkAlias(t *testing.T, make func() record, b []byte, want record, wantErr error) {
	t.Helper()
	d := NewAliasDecoder(b)
	got := make()
	got.Decode(&d)
	if (d.Err() == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
		t.Errorf("%x: aliased it decodes to\n%+v, %v, copied to\n%+v, %v", b, got, d.Err(), want, wantErr)
	}
}

func FuzzConnect(f *testing.F) {
	fuzzRecords(f, as[ConnectRequest], as[ConnectResponse], as[ExtensionRequest], as[ExtensionResponse])
}

func FuzzRequest(f *testing.F) {
	fuzzRecords(f, as[RequestHeader], as[CreateRequest], as[CreateTTLRequest], as[DeleteRequest],
		as[CheckVersionRequest], as[SetDataRequest], as[SetACLRequest], as[PathRequest],
		as[PathWatchRequest], as[SyncRequest], as[GetEphemeralsRequest], as[ReconfigRequest],
		as[AuthRequest], as[SASLToken], as[TransferLeaderRequest], as[DrainRequest], as[ConfigureRequest], as[ConfigureResponse],
		as[ChildrenPageRequest], as[SubtreePageRequest], as[PastRequest], as[SubscribeRequest], as[CreditRequest], as[UnsubscribeRequest])
}

func FuzzWatch(f *testing.F) {
	fuzzRecords(f, as[WatcherEvent], as[SetWatchesRequest], as[setWatches2], as[AddWatchRequest],
		as[RemoveWatchesRequest])
}

func FuzzMulti(f *testing.F) {
	fuzzRecords(f, as[MultiHeader], as[MultiRequest], as[MultiResponse])
}

func FuzzResponse(f *testing.F) {
	fuzzRecords(f, as[ReplyHeader], as[Stat], as[ACL], as[PathResponse], as[Create2Response],
		as[GetDataResponse], as[GetACLResponse], as[GetChildrenResponse], as[GetChildren2Response],
		as[GetEphemeralsResponse], as[GetAllChildrenNumberResponse], as[ErrorResponse],
		as[WhoAmIResponse], as[ChildrenPageResponse], as[SubtreePageResponse], as[PastResponse],
		as[SubscribeResponse], as[FeedEvent])
}

func FuzzValidatePath(f *testing.F) {
	for _, path := range []string{"/", "/a/b", "/a//b", "/..", "/\u00a0", "/\U0001f600", "/\xff"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if got, want := ValidatePath(path) == nil, validSlowly(path); got != want {
			t.Errorf("ValidatePath(%q) = %v, want valid: %v", path, ValidatePath(path), want)
		}
	})
}
