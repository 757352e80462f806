package line

import (
	"errors"

	"github.com/zkd-project/zkd/jute"
)

// subscribe begins a feed.
func (r *read) subscribe() error {
	var p jute.SubscribeRequest
	d := jute.NewDecoder(r.req.Body)
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	zxid, err := r.l.feeds.Subscribe(r.History, r.Places, r.l.host.Groups(), &p, r.zxid)
	gone, compacted := errors.AsType[*jute.CompactedError](err)
	switch {
	case compacted:
		r.end((&jute.SubscribeResponse{Zxid: gone.Oldest, Compacted: true}).Append(b))
		return nil
	case err != nil:
		r.l.Outbox.Discard(b)
		return err
	}
	r.end((&jute.SubscribeResponse{Zxid: zxid}).Append(b))
	r.Server.Subscribed(r.l, true)
	return nil
}

// credit adds to the credit of a feed.
func (r *read) credit() error {
	var p jute.CreditRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	if err := r.l.feeds.Grant(&p); err != nil {
		r.l.Outbox.Discard(b)
		return err
	}
	r.end(b)
	r.Server.Subscribed(r.l, false)
	return nil
}

// unsubscribe ends a feed.
func (r *read) unsubscribe() error {
	var p jute.UnsubscribeRequest
	d := r.body()
	p.Decode(&d)
	if d.Err() != nil {
		return jute.ErrMarshalling
	}
	b := r.begin()
	if err := r.l.feeds.Unsubscribe(&p); err != nil {
		r.l.Outbox.Discard(b)
		return err
	}
	r.end(b)
	return nil
}
