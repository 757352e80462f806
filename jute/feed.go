package jute

// FromNow as SubscribeRequest.After begins a feed with the present.
const FromNow Zxid = -1

// MaxFeedCredit is the largest credit of a feed.
const MaxFeedCredit = 4 << 20

// SubscribeRequest is the body of subscribe, an operation of FeatureFeed.
type SubscribeRequest struct {
	Path      string
	Feed      int32 // the client's number of the feed, on this connection
	Recursive bool  // with the znodes below the path
	After     Zxid  // the changes wanted have a greater zxid; or FromNow
	Data      bool  // with the znodes' data
	Kinds     ChangeKinds
	Credit    int32 // see CreditRequest
}

func (r *SubscribeRequest) Append(b []byte) []byte {
	b = AppendInt32(AppendString(b, r.Path), r.Feed)
	b = AppendInt64(AppendBool(b, r.Recursive), r.After)
	b = AppendInt32(AppendBool(b, r.Data), r.Kinds)
	return AppendInt32(b, r.Credit)
}

func (r *SubscribeRequest) Decode(d *Decoder) {
	r.Path, r.Feed = d.notNull(), d.Int32()
	r.Recursive, r.After = d.Bool(), Zxid(d.Int64())
	r.Data, r.Kinds = d.Bool(), ChangeKinds(d.Int32())
	r.Credit = d.Int32()
}

// SubscribeResponse is the response of subscribe.
type SubscribeResponse struct {
	// Zxid is the one after which the feed begins. If Compacted is set, there is no feed, because
	// the server has not all changes that were asked for, only those after Zxid.
	Zxid      Zxid
	Compacted bool
}

func (r *SubscribeResponse) Append(b []byte) []byte {
	return AppendBool(AppendInt64(b, r.Zxid), r.Compacted)
}

func (r *SubscribeResponse) Decode(d *Decoder) {
	r.Zxid, r.Compacted = Zxid(d.Int64()), d.Bool()
}

// CreditRequest is the body of credit, an operation of FeatureFeed. The events of a feed cost the
// bytes of their frames, without the frames' own lengths. The server sends one if the feed has
// some credit, of however many bytes.
type CreditRequest struct {
	Feed   int32
	Credit int32 // to be added
}

func (r *CreditRequest) Append(b []byte) []byte { return AppendInt32(AppendInt32(b, r.Feed), r.Credit) }

func (r *CreditRequest) Decode(d *Decoder) { r.Feed, r.Credit = d.Int32(), d.Int32() }

// UnsubscribeRequest is the body of unsubscribe, an operation of FeatureFeed.
type UnsubscribeRequest struct{ Feed int32 }

func (r *UnsubscribeRequest) Append(b []byte) []byte { return AppendInt32(b, r.Feed) }

func (r *UnsubscribeRequest) Decode(d *Decoder) { r.Feed = d.Int32() }

// FeedEvent is the body of an event of a feed. Its reply header has XidFeed, and the same zxid.
type FeedEvent struct {
	Feed int32
	// Zxid is the one up to which all changes have been sent. Changes with a greater zxid are a
	// part of those that their transaction made. If Compacted is set, the feed has ended, because
	// the server has forgotten changes before they could be sent, and has only those after Zxid.
	Zxid      Zxid
	Compacted bool
	// Level says that everything has been sent, and that from here on each change comes before
	// every reply that shows its zxid or a later one. It holds until an event says otherwise.
	Level   bool
	Changes []Change
}

func (e *FeedEvent) Append(b []byte) []byte {
	b = AppendBool(AppendInt64(AppendInt32(b, e.Feed), e.Zxid), e.Compacted)
	b = AppendInt32(AppendBool(b, e.Level), int32(len(e.Changes)))
	for i := range e.Changes {
		b = e.Changes[i].Append(b)
	}
	return b
}

func (e *FeedEvent) Decode(d *Decoder) {
	e.Feed, e.Zxid, e.Compacted, e.Level = d.Int32(), Zxid(d.Int64()), d.Bool(), d.Bool()
	if n, _ := d.Count(minChange); n > 0 {
		e.Changes = make([]Change, n)
	}
	for i := range e.Changes {
		e.Changes[i].Decode(d)
	}
}
