package limits

import (
	"fmt"
	"testing"
	"time"
)

// fail makes n attempts that are wrong, as far as they are checked, and returns how many were.
func fail(f *Failures, address, name string, n int, now time.Duration) (checked int) {
	for range n {
		if a, ok := f.Begin(address, name, now); ok && a.Delay == 0 {
			a.End(true, now)
			checked++
		}
	}
	return checked
}

func TestFailuresByAddress(t *testing.T) {
	f := NewFailures(1)
	fail(f, "2001:db8::1", "", 10, 0)
	for addr, limited := range map[string]bool{
		"2001:db8::1": true, "2001:db8::ffff": true, "2001:db8::1%eth0": true, "2001:db8:0:1::1": false,
		"2001:db8:0:0:0:0:0:7": true, "::ffff:10.0.0.1": false, "10.0.0.1": false, "pipe": false,
	} {
		if a, _ := f.Begin(addr, "", 0); a.Delay > 0 != limited {
			t.Errorf("%s waits %v", addr, a.Delay)
		}
	}
	for i := range maxOrigins + 1000 {
		f.Begin(fmt.Sprint("host", i), "", 0)
	}
	if n := len(f.addresses.buckets); n > maxOrigins+1 {
		t.Errorf("%d addresses are kept", n)
	}
	if _, ok := f.Begin("another", "", 0); ok {
		t.Error("further addresses do not share a rate")
	}
	fail(f, "another", "", 10, time.Hour) // all buckets are full again
	if n := len(f.addresses.buckets); n != 1 {
		t.Errorf("%d addresses are kept after an hour", n)
	}
}

// TestFailuresByName lets many addresses guess the password of one name: together they get what a few
// of them would get. One address alone does not use that up.
func TestFailuresByName(t *testing.T) {
	const rate, burst = 2, 2 * int(failureBurst/time.Second)
	f := NewFailures(rate)
	if n := fail(f, "10.6.6.6", "digest:super", 1000, 0); n != burst {
		t.Errorf("one address guesses %d times, want %d", n, burst)
	}
	if a, ok := f.Begin("10.0.0.1", "digest:super", 0); !ok || a.Delay > 0 {
		t.Errorf("another address waits %v", a.Delay)
	}
	n := burst
	for i := range 100 {
		n += fail(f, fmt.Sprint("10.6.7.", i), "digest:super", 1000, 0)
	}
	if want := nameShare * burst; n != want {
		t.Errorf("101 addresses guess %d times, want %d", n, want)
	}
	if a, ok := f.Begin("10.0.0.2", "digest:super", 0); ok && a.Delay == 0 {
		t.Error("an address that is new does not wait for the name")
	}
	if a, ok := f.Begin("10.0.0.2", "digest:other", 0); !ok || a.Delay > 0 {
		t.Errorf("it waits %v for another name", a.Delay)
	}
}

// TestFailuresTurnsByName lets a thousand addresses wait for their turn at one name.
func TestFailuresTurnsByName(t *testing.T) {
	const rate = 2
	f := NewFailures(rate)
	checked, last := 0, time.Duration(0)
	for i := range 1000 {
		if a, ok := f.Begin(fmt.Sprint("10.9.", i/100, ".", i%100), "digest:super", 0); ok {
			last = max(last, a.Delay)
			a.End(true, a.Delay)
			checked++
		}
	}
	if want := nameShare * rate * int((failureBurst+failurePatience)/time.Second); checked != want || last != failurePatience {
		t.Errorf("%d are checked, the last after %v; want %d after %v", checked, last, want, failurePatience)
	}
}

// TestFailuresSparesWhoHasProvedTheName checks that those who guess a name don't keep out an address from
// which somebody has proved it.
func TestFailuresSparesWhoHasProvedTheName(t *testing.T) {
	f := NewFailures(2)
	a, _ := f.Begin("10.0.0.1", "digest:super", 0)
	a.End(false, 0)
	for i := range 100 {
		for range 1000 {
			if a, ok := f.Begin(fmt.Sprint("10.6.7.", i), "digest:super", 0); ok {
				a.End(true, a.Delay)
			}
		}
	}
	if a, ok := f.Begin("10.0.0.2", "digest:super", 0); ok && a.Delay == 0 {
		t.Error("a new address does not wait")
	}
	if a, ok := f.Begin("10.0.0.1", "digest:super", 0); !ok || a.Delay > 0 {
		t.Errorf("the address that has proved the name waits %v, %v", a.Delay, ok)
	}
}

// TestFailuresManyRightAtOnce lets a thousand clients prove one name at the same moment.
func TestFailuresManyRightAtOnce(t *testing.T) {
	f := NewFailures(2)
	for i := range 1000 {
		if a, ok := f.Begin(fmt.Sprintf("10.0.%d.%d", i/100, i%100), "sasl:app", 0); !ok || a.Delay > 0 {
			t.Fatalf("client %d waits %v, %v", i, a.Delay, ok)
		}
	}
}

func TestFailuresSuccess(t *testing.T) {
	f := NewFailures(10)
	for now := range 1000 * time.Nanosecond {
		a, ok := f.Begin("a", "n", now)
		if a.Delay > 0 || !ok {
			t.Fatal("a successful attempt counts")
		}
		a.End(false, now)
	}
	if len(f.addresses.buckets)+len(f.names.buckets) != 0 {
		t.Errorf("kept: %v %v", f.addresses.buckets, f.names.buckets)
	}
	if a, ok := NewFailures(0).Begin("a", "", 0); a.Delay != 0 || !ok || a.First {
		t.Error("0 is a limit")
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff:0:0:1": "2001:db8::/64",
		"fe80:0:0:0:1:2:3:4%eth0": "fe80::/64", "0:0:0:0:0:0:0:1": "::/64", "pipe": "pipe",
	} {
		if got := Network(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
