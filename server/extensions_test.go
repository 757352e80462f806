package server

import (
	"encoding/hex"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// extend is a connect request with what may follow it.
type extend struct {
	jute.ConnectRequest
	after []byte
}

func (r *extend) Append(b []byte) []byte { return append(r.ConnectRequest.Append(b), r.after...) }

// TestExtensionHandshake checks that a server answers a client that asks for extensions with those
// that it grants, and one that does not ask with the bytes of Apache's server.
func TestExtensionHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		ask := func(f jute.Features) []byte { return (&jute.ExtensionRequest{Features: f}).Append(nil) }
		for _, tt := range []struct {
			name     string
			request  extend
			extended bool
			ends     bool
		}{
			{"plain", extend{}, false, false},
			{"all features", extend{after: ask(31)}, true, false},
			{"unknown features", extend{after: ask(1 << 31)}, true, false},
			{"more than the fields", extend{after: append(ask(0), 1, 2, 3)}, true, false},
			{"other bytes", extend{after: []byte("zkdy and more")}, false, false},
			{"cut off", extend{after: ask(7)[:15]}, true, true},
			{"without a holder", extend{after: ask(jute.FeatureMoved)[:16]}, true, true},
			{"no such session", extend{ConnectRequest: jute.ConnectRequest{SessionID: 5}, after: ask(7)}, true, false},
		} {
			r := &tt.request
			r.TimeoutMs, r.Password, r.HasReadOnly = 10_000, make([]byte, 16), true
			c := s.dial(t, dialOptions{})
			c.sendFrame(r.Append(nil))
			if tt.ends {
				c.eof(tt.name)
				continue
			}
			frame, err := c.frame()
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			var resp jute.ConnectResponse
			d := jute.NewDecoder(frame)
			resp.Decode(&d)
			if got := jute.Extended(&d); got != tt.extended || !got && len(d.Rest()) > 0 {
				t.Errorf("%s: answered by %s", tt.name, hex.EncodeToString(frame))
			}
			var ext jute.ExtensionResponse
			if tt.extended {
				ext.Decode(&d)
			}
			want := tt.request.granted()
			if d.Err() != nil || ext.Features != want {
				t.Errorf("%s: granted %v, want %v, error %v", tt.name, ext.Features, want, d.Err())
			}
			c.nc.Close()
		}
	})
}

// granted returns what a server grants of what the request asks for.
func (r *extend) granted() jute.Features {
	d := jute.NewDecoder(r.after)
	var ask jute.ExtensionRequest
	ask.Decode(&d)
	if d.Err() != nil || r.SessionID != 0 {
		return 0
	}
	return ask.Features & (jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeaturePaging | jute.FeatureOperations | jute.FeatureMoved | jute.FeaturePast)
}

// TestUngrantedOperations checks that an opcode in the range of extensions ends the connection that
// has not been granted its feature, after an answer.
func TestUngrantedOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		for _, op := range []jute.OpCode{2000, 2004, jute.OpCheckAbsent, jute.OpDeleteTree, jute.OpChildrenPage, jute.OpPast, jute.OpSubscribe, jute.OpCredit, jute.OpUnsubscribe, 2050, 2099} {
			c := s.connect(t)
			if r := c.call(op, nil); r.Err != jute.ErrUnimplemented {
				t.Errorf("opcode %d is answered by %v", op, r)
			}
			c.eof("an operation that was not granted")
		}
	})
}
