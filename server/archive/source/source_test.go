package source

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// TestRateIsEven reads at a low rate, in small parts: a follower gives up a server that is silent
// for long.
func TestRateIsEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Servers{Rate: 100}
		r := s.limit(t.Context(), bytes.NewReader(make([]byte, 5000)))
		begun, n := time.Now(), 0
		for n < 5000 {
			before := time.Now()
			m, err := r.Read(make([]byte, copyStep))
			if n += m; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); took > time.Second {
				t.Fatalf("after %d bytes there were none for %v", n-m, took)
			}
		}
		if took := time.Since(begun); took < 49*time.Second || took > 51*time.Second {
			t.Errorf("5000 bytes in %v", took)
		}
	})
}
