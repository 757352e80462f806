package jute

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// record is the interface of all records; tests list them by name.
type record interface {
	Append(b []byte) []byte
	Decode(d *Decoder)
}

// setWatches2 is the second form of SetWatchesRequest.
type setWatches2 struct{ SetWatchesRequest }

func (r *setWatches2) Append(b []byte) []byte { return r.Append2(b) }
func (r *setWatches2) Decode(d *Decoder)      { r.Decode2(d) }

// empty is the body of operations without one.
type empty struct{}

func (*empty) Append(b []byte) []byte { return b }
func (*empty) Decode(*Decoder)        {}

// makers has a constructor for each kind of record.
var makers = []func() record{
	func() record { return new(ConnectRequest) },
	func() record { return new(ConnectResponse) },
	func() record { return new(ExtensionRequest) },
	func() record { return new(ExtensionResponse) },
	func() record { return new(RequestHeader) },
	func() record { return new(ReplyHeader) },
	func() record { return new(Stat) },
	func() record { return new(ID) },
	func() record { return new(ACL) },
	func() record { return new(WatcherEvent) },
	func() record { return new(CreateRequest) },
	func() record { return new(CreateTTLRequest) },
	func() record { return new(DeleteRequest) },
	func() record { return new(CheckVersionRequest) },
	func() record { return new(SetDataRequest) },
	func() record { return new(SetACLRequest) },
	func() record { return new(PathRequest) },
	func() record { return new(PathWatchRequest) },
	func() record { return new(SyncRequest) },
	func() record { return new(GetEphemeralsRequest) },
	func() record { return new(ReconfigRequest) },
	func() record { return new(AuthRequest) },
	func() record { return new(SASLToken) },
	func() record { return new(SetWatchesRequest) },
	func() record { return new(setWatches2) },
	func() record { return new(AddWatchRequest) },
	func() record { return new(RemoveWatchesRequest) },
	func() record { return new(MultiHeader) },
	func() record { return new(MultiRequest) },
	func() record { return new(MultiResponse) },
	func() record { return new(PathResponse) },
	func() record { return new(Create2Response) },
	func() record { return new(GetDataResponse) },
	func() record { return new(GetACLResponse) },
	func() record { return new(GetChildrenResponse) },
	func() record { return new(GetChildren2Response) },
	func() record { return new(GetEphemeralsResponse) },
	func() record { return new(GetAllChildrenNumberResponse) },
	func() record { return new(ErrorResponse) },
	func() record { return new(WhoAmIResponse) },
	func() record { return new(ChildrenPageRequest) },
	func() record { return new(ChildrenPageResponse) },
	func() record { return new(SubtreePageRequest) },
	func() record { return new(SubtreePageResponse) },
	func() record { return new(PastRequest) },
	func() record { return new(PastResponse) },
	func() record { return new(SubscribeRequest) },
	func() record { return new(SubscribeResponse) },
	func() record { return new(CreditRequest) },
	func() record { return new(UnsubscribeRequest) },
	func() record { return new(Change) },
	func() record { return new(FeedEvent) },
}

// bodies has the records of each operation.
var bodies = map[string]struct{ request, response func() record }{
	"create":               {as[CreateRequest], as[PathResponse]},
	"create2":              {as[CreateRequest], as[Create2Response]},
	"createContainer":      {as[CreateRequest], as[Create2Response]},
	"createTTL":            {as[CreateTTLRequest], as[Create2Response]},
	"delete":               {as[DeleteRequest], as[empty]},
	"exists":               {as[PathWatchRequest], as[Stat]},
	"getData":              {as[PathWatchRequest], as[GetDataResponse]},
	"setData":              {as[SetDataRequest], as[Stat]},
	"getACL":               {as[PathRequest], as[GetACLResponse]},
	"setACL":               {as[SetACLRequest], as[Stat]},
	"getChildren":          {as[PathWatchRequest], as[GetChildrenResponse]},
	"getChildren2":         {as[PathWatchRequest], as[GetChildren2Response]},
	"sync":                 {as[SyncRequest], as[PathResponse]},
	"ping":                 {as[empty], as[empty]},
	"multi":                {as[MultiRequest], as[MultiResponse]},
	"multiRead":            {as[MultiRequest], as[MultiResponse]},
	"reconfig":             {as[ReconfigRequest], as[GetDataResponse]},
	"checkWatches":         {as[RemoveWatchesRequest], as[empty]},
	"removeWatches":        {as[RemoveWatchesRequest], as[empty]},
	"auth":                 {as[AuthRequest], as[empty]},
	"sasl":                 {as[SASLToken], as[SASLToken]},
	"setWatches":           {as[SetWatchesRequest], as[empty]},
	"setWatches2":          {as[setWatches2], as[empty]},
	"addWatch":             {as[AddWatchRequest], as[ErrorResponse]},
	"getEphemerals":        {as[GetEphemeralsRequest], as[GetEphemeralsResponse]},
	"getAllChildrenNumber": {as[PathRequest], as[GetAllChildrenNumberResponse]},
	"whoAmI":               {as[empty], as[WhoAmIResponse]},
	"closeSession":         {as[empty], as[empty]},
	"notification":         {nil, as[WatcherEvent]},
}

func as[T any, P interface {
	*T
	record
}]() record {
	return P(new(T))
}

// decode returns the decoded record, and the bytes after it.
func decode(make func() record, b []byte) (record, []byte, error) {
	d := NewDecoder(b)
	r := make()
	r.Decode(&d)
	return r, d.Rest(), d.Err()
}

// example fills a record with random valid values.
func example(r record, rng *rand.Rand) {
	fill(reflect.ValueOf(r).Elem(), rng)
	switch r := r.(type) {
	case *ConnectRequest:
		r.ReadOnly = r.ReadOnly && r.HasReadOnly
	case *ConnectResponse:
		r.ReadOnly = r.ReadOnly && r.HasReadOnly
	case *ExtensionRequest:
		if r.Features&FeatureMoved == 0 {
			r.Holder = 0
		}
	case *ReconfigRequest:
		r.EmptyMembers = r.EmptyMembers && r.NewMembers == ""
	case *AddWatchRequest:
		r.Mode = AddWatchMode(rng.IntN(2))
	case *RemoveWatchesRequest:
		r.Type = WatchType(1 + rng.IntN(5))
	case *SetWatchesRequest:
		r.Persistent, r.PersistentRecursive = nil, nil
	case *MultiRequest:
		r.Ops = exampleOps(rng)
	case *MultiResponse:
		r.Results = exampleResults(rng)
	}
}

func fill(v reflect.Value, rng *rand.Rand) {
	switch v.Kind() {
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(rng.Uint64() >> rng.IntN(64)))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Uint8:
		v.SetUint(rng.Uint64N(256))
	case reflect.Uint32:
		v.SetUint(uint64(rng.Uint32()))
	case reflect.String:
		v.SetString(string(bytes.Repeat([]byte("/é"), rng.IntN(4))))
	case reflect.Slice:
		n := rng.IntN(4)
		if n == 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			return // no record tells a nil vector from an empty one
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), rng)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), rng)
		}
	}
}

// exampleOps returns random operations with only the fields of their types.
func exampleOps(rng *rand.Rand) []MultiOp {
	types := []OpCode{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpSetData, OpCheck}
	if rng.IntN(3) == 0 {
		types = []OpCode{OpGetData, OpGetChildren}
	}
	ops := make([]MultiOp, 1+rng.IntN(5))
	for i := range ops {
		var full MultiOp
		fill(reflect.ValueOf(&full).Elem(), rng)
		o := MultiOp{Type: types[rng.IntN(len(types))], Path: full.Path}
		switch o.Type {
		case OpCreateTTL:
			o.Data, o.ACL, o.Mode, o.TTL = full.Data, full.ACL, full.Mode, full.TTL
		case OpCreate, OpCreate2, OpCreateContainer:
			o.Data, o.ACL = full.Data, full.ACL
			o.Mode = CreateMode(rng.IntN(int(ModeContainer) + 1)) // a multi can't have others
		case OpSetData:
			o.Data, o.Version = full.Data, full.Version
		case OpDelete, OpCheck:
			o.Version = full.Version
		case OpGetData, OpGetChildren:
			o.Watch = full.Watch
		}
		ops[i] = o
	}
	return ops
}

func exampleResults(rng *rand.Rand) []MultiResult {
	types := []OpCode{OpCreate, OpCreate2, OpDelete, OpCheck, OpSetData, OpGetData, OpGetChildren, OpError}
	results := make([]MultiResult, 1+rng.IntN(5))
	for i := range results {
		var full MultiResult
		fill(reflect.ValueOf(&full).Elem(), rng)
		r := MultiResult{Type: types[rng.IntN(len(types))]}
		switch r.Type {
		case OpCreate:
			r.Path = full.Path
		case OpCreate2:
			r.Path, r.Stat = full.Path, full.Stat
		case OpSetData:
			r.Stat = full.Stat
		case OpGetData:
			r.Data, r.Stat = full.Data, full.Stat
		case OpGetChildren:
			r.Children = full.Children
		case OpError:
			r.Err = full.Err
		}
		results[i] = r
	}
	return results
}

// TestRoundTrip checks that an encoded record decodes to an equal value and leaves no
// bytes, and that every shorter input is an error, or (a connect record without its last
// byte) decodes to a record that encodes to exactly these bytes.
func TestRoundTrip(t *testing.T) {
	seed := seeds.First(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, make := range makers {
		for range 50 {
			want := make()
			example(want, rng)
			b := want.Append(nil)
			got, rest, err := decode(make, append(b, "rest"...))
			if isConnect(want) {
				got, rest, err = decode(make, b)
				rest = append(rest, "rest"...)
			}
			if err != nil || string(rest) != "rest" || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %x decodes to\n%+v, rest %q, error %v, want\n%+v", seed, b, got, rest, err, want)
			}
			for n := range b {
				short, _, err := decode(make, b[:n])
				if err == nil && !bytes.Equal(short.Append(nil), b[:n]) {
					t.Fatalf("seed %d: %T: %x without its end (%x) decodes to %+v", seed, want, b, b[:n], short)
				}
			}
		}
	}
}

// isConnect reports whether r is a record that takes all the input.
func isConnect(r record) bool {
	switch r.(type) {
	case *ConnectRequest, *ConnectResponse:
		return true
	}
	return false
}
