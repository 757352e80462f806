package source

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

// TestReasonsOnce asks servers of which none answers as it should: what several have to say is said once.
func TestReasonsOnce(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	defer refusing.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tt := range []struct {
		admins  []string
		want    string
		refused bool
	}{
		{[]string{gone.URL, gone.URL}, "no server can be asked: connection refused", false},
		{[]string{gone.URL, refusing.URL, gone.URL}, "no server can be asked: " + gone.URL + ", " + gone.URL + ": connection refused; " +
			refusing.URL + ": 403 Forbidden: no: authenticate as a user with all permissions on / (--auth, --auth-file)", true},
	} {
		_, err := (&Servers{Admins: tt.admins}).Fetch(t.Context(), io.Discard)
		if err == nil || err.Error() != tt.want || errors.As(err, new(Refused)) != tt.refused {
			t.Errorf("%v\nwant %s", err, tt.want)
		}
	}
}
