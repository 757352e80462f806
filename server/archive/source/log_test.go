package source

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/zab"
)

// slow is the body of an answer that comes at a rate, and then nothing more.
type slow struct {
	r    io.Reader
	rate int // bytes a second
	done <-chan struct{}
}

func (s *slow) Read(b []byte) (int, error) {
	select {
	case <-time.After(time.Second):
	case <-s.done:
		return 0, errors.New("the request was given up")
	}
	n, err := s.r.Read(b[:min(len(b), s.rate)])
	if errors.Is(err, io.EOF) {
		<-s.done
		err = errors.New("the request was given up")
	}
	return n, err
}

func (s *slow) Close() error { return nil }

// answering answers each request with a body at a rate.
type answering struct {
	body   []byte
	header http.Header
	rate   int
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: a.header, Body: &slow{bytes.NewReader(a.body), a.rate, r.Context().Done()}, Request: r}, nil
}

// TestLargeEntryOnSlowLine gets an entry that takes longer to come than a server may be silent.
func TestLargeEntryOnSlowLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := zab.ID{1}
		var enc archive.Encoder
		body := enc.AppendHeader(nil, &archive.Header{History: [16]byte(of)})
		body = enc.AppendEntry(body, &zab.Entry{Zxid: jute.MakeZxid(1, 0), Type: zab.EntryTxn, Data: make([]byte, 1<<20)})
		s := Servers{Admins: []string{"http://zk1"}, HTTP: &http.Client{Transport: &answering{body, http.Header{"Content-Type": {"application/octet-stream"}}, 10 << 10}}}
		log, err := s.Log(t.Context(), copies.Point{History: of})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		e, err := log.Next()
		if err != nil || len(e.Data) != 1<<20 {
			t.Fatalf("entry %v, %v", e, err)
		}
		begun := time.Now()
		if _, err := log.Next(); err == nil || time.Since(begun) < silence || time.Since(begun) > 2*silence {
			t.Errorf("a silent server is given up after %v, with %v", time.Since(begun), err)
		}
	})
}

// TestSilentSnapshot gives up a server that is silent in the middle of a snapshot.
func TestSilentSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Servers{Admins: []string{"http://zk1"}, HTTP: &http.Client{Transport: &answering{make([]byte, 1000), http.Header{"Last_zxid": {"0x1"}, "Snapshot_size": {"2000"}}, 20}}}
		begun := time.Now()
		_, err := s.Fetch(t.Context(), io.Discard)
		if took := time.Since(begun); err == nil || took < 50*time.Second+silence || took > 50*time.Second+2*silence {
			t.Errorf("given up after %v, with %v", took, err)
		}
	})
}
