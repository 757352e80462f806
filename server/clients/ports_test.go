package clients

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/server/clients/line/register"
)

// scarce is a listener that has no descriptors for a while.
type scarce struct {
	net.Listener
	tries int
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.tries++; l.tries < 100 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return nil, net.ErrClosed
}

// TestPortWithoutDescriptors has a port that can't accept connections: it says so once, and works as soon as it can.
func TestPortWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t)
		core, logs := observer.New(zap.InfoLevel)
		s.refusals.log = zap.New(core)
		ended := make(chan bool)
		go func() {
			s.ports.acceptLoop(&scarce{}, plainPort)
			close(ended)
		}()
		time.Sleep(time.Second)
		if err := s.Ports().Lacks(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("it lacks %v", err)
		}
		<-ended
		if err := s.Ports().Lacks(); err != nil {
			t.Errorf("in the end it lacks %v", err)
		}
		if n := logs.FilterMessageSnippet("can't accept").Len(); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
	})
}

// located is an end of a pipe with an address.
type located struct {
	net.Conn
	ip string
}

func (c located) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1} }

// TestOperatorsGetIn asks for a four-letter word while clients have all places: somebody on this machine gets an answer,
// others none, and a session is refused.
func TestOperatorsGetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t, "maxCnxns=20", "maxClientCnxns=10")
		from := func(ip string) *limitedClient {
			nc, peer := net.Pipe()
			s.admit(located{nc, ip}, plainPort)
			t.Cleanup(func() { peer.Close() })
			return &limitedClient{t, peer}
		}
		for i := range 20 {
			if !from("10.0.0." + strconv.Itoa(i%20)).begin() {
				t.Fatal("a place is refused")
			}
		}
		ask := func(ip string) bool {
			c := from(ip)
			defer c.nc.Close()
			if _, err := c.nc.Write([]byte("ruok")); err != nil {
				return false
			}
			text := make([]byte, 4)
			_, err := io.ReadFull(c.nc, text)
			return err == nil
		}
		if ask("10.0.1.1") {
			t.Error("another machine gets an answer")
		}
		for range 2 * operatorPlaces { // one after the other
			if !ask("127.0.0.1") || !ask("::1") {
				t.Error("no answer on this machine")
			}
			synctest.Wait()
		}
		if from("127.0.0.1").begin() {
			t.Error("a session without a place")
		}
		for range operatorPlaces {
			from("127.0.0.1")
		}
		if ask("127.0.0.1") {
			t.Error("those who say nothing have no limit")
		}
		time.Sleep(s.live.Load().SessionlessCnxnTimeout)
		synctest.Wait()
		if !ask("127.0.0.1") {
			t.Error("those who say nothing stay")
		}
	})
}

// TestDescriptorsAreShared has one address take all the connections that the limit of open files leaves to clients, after
// others or alone: it is refused before those with few are. A second one that takes all gets the rest.
func TestDescriptorsAreShared(t *testing.T) {
	for _, tt := range []struct {
		name         string
		most         int
		each         []int // what addresses try, one after the other
		want         []int // what they get
		others, gets int   // how many further addresses want one each, and how many get it
	}{
		{"one takes all", 200, []int{1000}, []int{189}, 11, 11},
		{"two do", 200, []int{1000, 1000}, []int{189, 11}, 5, 0},
		{"one after others", 200, []int{50, 50, 1000}, []int{50, 50, 95}, 5, 5},
		{"no limit of open files", 0, []int{300}, []int{300}, 5, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLimitedClients(t, "maxClientCnxns=0")
				s.most.Of[register.Direct] = tt.most
				enters := func(ip string) bool {
					before := s.register.Len()
					nc, peer := net.Pipe()
					t.Cleanup(func() { peer.Close() })
					s.admit(located{nc, ip}, plainPort)
					return s.register.Len() > before
				}
				for i, tries := range tt.each {
					got := 0
					for range tries {
						if enters("10.0.0." + strconv.Itoa(i)) {
							got++
						}
					}
					if got != tt.want[i] {
						t.Errorf("address %d gets %d, want %d", i, got, tt.want[i])
					}
				}
				got := 0
				for i := range tt.others {
					if enters("10.0.1." + strconv.Itoa(i)) {
						got++
					}
				}
				if got != tt.gets {
					t.Errorf("%d of %d others get one, want %d", got, tt.others, tt.gets)
				}
			})
		})
	}
}
