package client

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeSRV answers lookups of SRV records.
type fakeSRV struct {
	mu      sync.Mutex
	servers map[string][]string
	err     error
	asked   []string
}

func (f *fakeSRV) lookup(_ context.Context, name string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, name)
	if f.err != nil {
		return nil, f.err
	}
	return f.servers[name], nil
}

func (f *fakeSRV) set(err error, name string, servers ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.servers = err, map[string][]string{name: servers}
}

const srvName = "_zookeeper._tcp.example.com"

func addresses(dials []fakeDial) []string {
	var list []string
	for _, d := range dials {
		list = append(list, d.address)
	}
	return list
}

func TestParseServersSRV(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{srvName + "/app", []string{srvName}},
		{"zk1," + srvName, []string{"zk1:2181", srvName}},
		{"_zk", []string{"_zk:2181"}},
		{srvName + ":2182", []string{srvName + ":2182"}}, // a host with an odd name
	} {
		if got, _, err := ParseServers(c.in); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseServers(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// Servers that come and go are found: records are looked up before each round.
func TestSRVLooksAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		srv := &fakeSRV{}
		srv.set(nil, srvName, "a:1", "b:2")
		n.setDown(errRefused, "a:1")
		began := time.Now()
		c := n.newClient(srvName+",b:2,z", Options{ResolveSRV: srv.lookup})
		conn := n.connect()
		if err := c.WaitConnected(bg); err != nil || time.Since(began) > 0 {
			t.Fatalf("connected after %v: %v", time.Since(began), err)
		}
		if c.Status().Server != "b:2" {
			t.Errorf("server %q", c.Status().Server)
		}
		n.setDown(errRefused, "b:2", "z:2181")
		srv.set(nil, srvName, "c:3")
		conn.Close()
		n.connect()
		// b is in the list twice, and is tried once.
		want := []string{"a:1", "b:2", "z:2181", "c:3"}
		if got := addresses(n.dials()); !reflect.DeepEqual(got, want) {
			t.Errorf("tried %v, want %v", got, want)
		}
	})
}

// That records can't be looked up shows in the error, and is tried again.
func TestSRVFailure(t *testing.T) {
	for _, fail := range []error{errors.New("no such host"), nil} {
		bubble(t, func(t *testing.T, n *fakeNet) {
			srv := &fakeSRV{}
			srv.set(fail, srvName)
			c := n.newClient(srvName, Options{ResolveSRV: srv.lookup})
			ctx, cancel := context.WithTimeout(bg, 10*time.Second)
			defer cancel()
			want := srvName + ": there are no SRV records of this name"
			if fail != nil {
				want = srvName + ": no such host"
			}
			if err := c.WaitConnected(ctx); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("WaitConnected: %v, want %q", err, want)
			}
			srv.mu.Lock()
			asked := len(srv.asked)
			srv.mu.Unlock()
			if asked < 5 || asked > 20 {
				t.Errorf("%d lookups in 10 s", asked)
			}
			srv.set(nil, srvName, "a:1")
			n.connect()
			if err := c.WaitConnected(bg); err != nil || c.Status().Err != nil {
				t.Errorf("WaitConnected: %v, %v", err, c.Status().Err)
			}
		})
	}
}

// While the resolver is down the servers that were known are tried again.
func TestSRVKeepsServers(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		srv := &fakeSRV{}
		srv.set(nil, srvName, "a:1")
		n.newClient(srvName, Options{ResolveSRV: srv.lookup})
		conn := n.connect()
		srv.set(errors.New("no such host"), srvName)
		conn.Close()
		n.connect()
		if got := addresses(n.dials()); !reflect.DeepEqual(got, []string{"a:1", "a:1"}) {
			t.Errorf("tried %v", got)
		}
	})
}

// A lookup that hangs does not outlast Close, nor hold a round for long.
func TestSRVHangs(t *testing.T) {
	bubble(t, func(t *testing.T, n *fakeNet) {
		hang := func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		n.newClient(srvName+",a", Options{ResolveSRV: hang, Timeout: 9 * time.Second})
		began := time.Now()
		n.accept()
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("the other server was tried after %v", d)
		}
	})
}
