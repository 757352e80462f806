package client

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

func exampleRecord() *RelayRecord {
	return &RelayRecord{
		key: SessionKey{ID: 7, Password: []byte("secret")}, timeoutMs: 4000, wantedMs: 10, readOnly: true, insist: true, number: 1 << 40, holder: 8,
		seen: 5, last: 6, ofLast: []jute.WatcherEvent{{Type: jute.EventDeleted, State: jute.StateSyncConnected, Path: "/a"}},
		auth:    []Auth{{Scheme: "digest", Data: []byte("a:b")}, {Scheme: "x"}},
		watches: [watchKinds][]string{{"/a", "/b"}, {"/c"}, nil, {"/d"}, {"/"}}, user: new("sasl:ann"),
	}
}

// TestRelayRecord encodes and decodes a record with everything, and its beginnings.
func TestRelayRecord(t *testing.T) {
	want := exampleRecord()
	b := want.Append(nil)
	var got RelayRecord
	d := jute.NewDecoder(b)
	if got.Decode(&d); d.Err() != nil || len(d.Rest()) != 0 || !reflect.DeepEqual(&got, want) {
		t.Errorf("%v, %d bytes left:\n%+v, want\n%+v", d.Err(), len(d.Rest()), &got, want)
	}
	for n := range b {
		d := jute.NewDecoder(b[:n])
		if got.Decode(&d); d.Err() == nil {
			t.Errorf("%d of %d bytes are a record", n, len(b))
		}
	}
}

// FuzzRelayRecord: what can be decoded is encoded as it was.
func FuzzRelayRecord(f *testing.F) {
	f.Add(exampleRecord().Append(nil))
	f.Add((&RelayRecord{key: SessionKey{ID: -1}, timeoutMs: 1, wantedMs: 1}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var first, second RelayRecord
		d := jute.NewDecoder(b)
		if first.Decode(&d); d.Err() != nil {
			return
		}
		again := first.Append(nil) // names that are no UTF-8 differ, but only once
		d = jute.NewDecoder(again)
		if second.Decode(&d); d.Err() != nil || !reflect.DeepEqual(first, second) || !bytes.Equal(second.Append(nil), again) {
			t.Errorf("%+v, then %+v: %v", first, second, d.Err())
		}
	})
}

// TestRelayHold holds a relay while nothing is under way, and only then. What comes meanwhile is told by it if it is released, and otherwise by the relay
// that continues it.
func TestRelayHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNet(t)
		r := n.newRelay(RelayOptions{Timeout: time.Hour})
		c := n.accept()
		c.grant(0)
		synctest.Wait()
		within := func(d time.Duration) (*RelayRecord, error) {
			ctx, cancel := context.WithTimeout(bg, d)
			defer cancel()
			return r.Hold(ctx)
		}
		r.watch(1, "/p", WatchPersistent)
		if _, err := within(time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a request under way: %v", err)
		}
		time.AfterFunc(time.Minute, func() { c.answer(1, "") })
		if _, err := within(time.Hour); err != nil {
			t.Fatal(err)
		}
		c.sent()
		r.since()
		c.notify(EventDataChanged, "/p", 8)
		if got := r.since(); got != "" {
			t.Errorf("told while it was held: %s", got)
		}
		r.Release()
		if got := r.since(); got != "NodeDataChanged /p" {
			t.Errorf("told when it was released: %s", got)
		}
		record, err := within(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c.notify(EventDeleted, "/p", 9)
		synctest.Wait()
		r.Leave()
		if got := r.since(); got != "" {
			t.Errorf("told after it was left: %s", got)
		}
		r = n.newRelay(RelayOptions{Record: record})
		r.forward(2, "w/a")
		seen, confirmed := n.accept().grantOf(jute.FeatureExactlyOnce|jute.FeatureFeed, 1)
		if seen != 8 || confirmed != 1 {
			t.Errorf("continued after %v, with all confirmed up to %d", seen, confirmed)
		}
	})
}

// TestRelayNotHeld has relays that can't continue on another connection.
func TestRelayNotHeld(t *testing.T) {
	for name, tt := range map[string]struct {
		features Features
		op       OpCode
	}{
		"no exactly-once session": {jute.FeatureFeed, jute.OpGetData},
		"a login by SASL":         {jute.FeatureExactlyOnce, jute.OpSASL},
		"it is closed":            {jute.FeatureExactlyOnce, jute.OpCloseSession},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNet(t)
				r := n.newRelay(RelayOptions{Timeout: time.Hour})
				c := n.accept()
				c.grantOf(tt.features, 0)
				synctest.Wait()
				r.Forward(1, tt.op, jute.AppendBool(jute.AppendString(nil, "/a"), false))
				c.sent()
				c.answer(1, "")
				synctest.Wait()
				if _, err := r.Hold(bg); !errors.Is(err, ErrNotHeld) {
					t.Error(err)
				}
			})
		})
	}
}
