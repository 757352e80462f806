package clients

import (
	"fmt"
	"testing"
	"time"
)

func TestAuthLimiterAddresses(t *testing.T) {
	l := newAuthLimiter(1)
	exhaust := func(addr string, now time.Duration) {
		for range int(authBurst / l.interval()) {
			l.begin(addr, now)
		}
	}
	exhaust("2001:db8::1", 0)
	for addr, limited := range map[string]bool{
		"2001:db8::1": true, "2001:db8::ffff": true, "2001:db8::1%eth0": true, "2001:db8:0:1::1": false,
		"::ffff:10.0.0.1": false, "10.0.0.1": false, "pipe": false,
	} {
		if delay, _, _ := l.begin(addr, 0); delay > 0 != limited {
			t.Errorf("%s waits %v", addr, delay)
		}
	}
	const most = authAddresses
	for i := range most + 1000 {
		l.begin(fmt.Sprint("host", i), 0)
	}
	if n := len(l.buckets); n > most+1 {
		t.Errorf("%d addresses are kept", n)
	}
	if _, ok, _ := l.begin("another", 0); ok {
		t.Error("further addresses do not share a rate")
	}
	exhaust("another", time.Hour) // all buckets are full again
	if n := len(l.buckets); n != 1 {
		t.Errorf("%d addresses are kept after an hour", n)
	}
}

func TestAuthLimiterSuccess(t *testing.T) {
	l := newAuthLimiter(10)
	for now := range 1000 * time.Nanosecond {
		if delay, ok, _ := l.begin("a", now); delay > 0 || !ok {
			t.Fatal("a successful attempt counts")
		}
		l.succeeded("a", now)
	}
	if len(l.buckets) != 0 {
		t.Errorf("kept: %v", l.buckets)
	}
	if delay, ok, first := newAuthLimiter(0).begin("a", 0); delay != 0 || !ok || first {
		t.Error("0 is a limit")
	}
}
