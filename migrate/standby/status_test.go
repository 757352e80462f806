package standby

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/archive"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// roundTrip answers requests.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestServerThatHangsIsGivenUp follows a server that falls silent while its connections stay: another one is tried before long.
func TestServerThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, sends := io.Pipe()
		defer sends.Close()
		hangs := time.Now().Add(time.Minute)
		of := &source.Servers{Admins: []string{"http://zk1:8080"}, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) *http.Response {
			if !r.URL.Query().Has("left") {
				context.AfterFunc(r.Context(), func() { sends.CloseWithError(r.Context().Err()) })
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/octet-stream"}}, Body: stream}
			}
			if !time.Now().Before(hangs) {
				<-r.Context().Done()
			}
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}
		})}}
		var enc archive.Encoder
		at := copies.Point{History: zab.ID{1}, Zxid: 5}
		go func() {
			sends.Write(enc.AppendHeader(nil, &archive.Header{History: history.ID(at.History), After: at.Zxid}))
			for ; time.Now().Before(hangs); time.Sleep(time.Second) {
				sends.Write(enc.AppendPosition(nil, at.Zxid, 0))
			}
		}()
		log, err := of.Log(t.Context(), at)
		check(t, err)
		defer log.Close()
		f := &follower{log: zap.NewNop(), status: newReporter(&Options{Of: of})}
		go f.askAgain(t.Context(), log)
		for err == nil {
			_, err = log.Next()
		}
		if took := time.Since(hangs); took < silentAfter-time.Second || took > 2*silentAfter {
			t.Errorf("given up %v after it hangs: %v", took, err)
		}
	})
}

// TestStatusOfAnEarlierVersion reads a status that does not tell what the copy lacks.
func TestStatusOfAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, StatusFile), []byte(`{"state": "following", "lagMs": 7}`), 0o600))
	s, err := ReadStatus(dir)
	check(t, err)
	if s.LagMs != 7 || strings.Contains(s.Text(), "lacks") {
		t.Errorf("it says\n%s", s.Text())
	}
}

// TestStaleStatus reads the status of a standby that runs and does not get to write it any more: it says so, and not that it follows.
func TestStaleStatus(t *testing.T) {
	for _, tt := range []struct {
		age   time.Duration
		state string
	}{{0, "following"}, {time.Hour, "unknown"}} {
		dir := t.TempDir()
		place := data.Place{DataDir: dir, LogDir: dir, Server: 7}
		check(t, data.CreateMirror(place, datadirs.OfZkd))
		m, err := mirror.Open(t.Context(), place, datadirs.OfZkd, nil) // it locks the directory
		check(t, err)
		text, err := json.Marshal(Status{State: "following", From: "http://zk1:8080", Written: time.Now().Add(-tt.age)})
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, StatusFile), text, 0o600))
		s, err := ReadStatus(dir)
		check(t, err)
		if s.State != tt.state || strings.Contains(s.Text(), "1h0m") != (tt.state == "unknown") {
			t.Errorf("after %v it says\n%s", tt.age, s.Text())
		}
		check(t, m.Close())
	}
}

// TestSilence follows a server that says nothing for a while: the status tells it, and what clients see does not say that it follows.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, sends := io.Pipe()
		of := &source.Servers{Admins: []string{"http://zk1:8080"}, HTTP: &http.Client{Transport: roundTrip(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/octet-stream"}}, Body: stream}
		})}}
		var enc archive.Encoder
		at := copies.Point{History: zab.ID{1}, Zxid: 5}
		go sends.Write(enc.AppendHeader(nil, &archive.Header{History: history.ID(at.History), After: at.Zxid}))
		log, err := of.Log(t.Context(), at)
		check(t, err)
		go func() {
			for err == nil {
				_, err = log.Next()
			}
		}()
		r := newReporter(&Options{Of: of})
		r.following(log)
		r.told(copies.Left{Zxid: 8, Entries: 3, Bytes: 99}, time.Now())
		look := func(state string, follows bool) {
			t.Helper()
			lacks := int64(3)
			if !follows {
				lacks = -1
			}
			s, v := r.status().(*Status), show.View{Copy: true, Standby: r.standing()}
			if s.State != state || (s.Problem == "") != (state == "following") || v.Standby.Follows() != follows || strings.HasPrefix(v.Standby.String(), "follows http") != follows ||
				s.LagEntries != lacks || v.Standby.LagEntries != lacks {
				t.Errorf("after %v it is %s: %q; %s", time.Since(r.begun), s.State, s.Problem, v.Standby.String())
			}
		}
		look("following", true)
		time.Sleep(silentAfter - time.Millisecond)
		look("following", true)
		time.Sleep(2 * time.Millisecond)
		look("silent", false)
		_, err2 := sends.Write(enc.AppendPosition(nil, at.Zxid, 0))
		check(t, err2)
		synctest.Wait()
		look("following", true)
		log.Close()
		sends.Close()
		synctest.Wait()
		r.lost(err)
		look("connecting", false)
	})
}
