package servers

import (
	"net"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLookGivesUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := LookAll(t.Context(), []string{l.Addr().String()}, time.Millisecond, Look)[0]
	if v.Mode != "" || v.Problem == "" {
		t.Errorf("%+v", v)
	}
}

func TestAddresses(t *testing.T) {
	const config = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888|zk2b:2888:3888:observer;2182\n" +
		"server.3=[::1]:2888:3888;[::]:2183\nserver.4=zk4:2888:3888:participant;10.0.0.4:2184\nserver.5=zk5:2888:3888\nversion=100000000"
	want := []string{"10.0.0.4:2184", "[::1]:2183", "zk1:2181", "zk2:2182"}
	if got := Addresses(config); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadCons(t *testing.T) {
	const cons = " /127.0.0.1:42318[1](queued=2,recved=26,sent=16,sid=0x1,lop=SETD,est=1,to=10000)\n" +
		" /[::1]:5[1](queued=0,recved=4,sent=5,sid=0x2,lop=PING)\n /127.0.0.1:4[0](queued=0,recved=1,sent=0)\n\n"
	want := []Conn{
		{Client: "127.0.0.1:42318", Session: "0x1", LastOp: "SETD", Queued: 2, Received: 26, Sent: 16},
		{Client: "[::1]:5", Session: "0x2", LastOp: "PING", Received: 4, Sent: 5},
		{Client: "127.0.0.1:4", Received: 1},
	}
	if got := readCons(cons); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
