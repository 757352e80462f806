package apachefiles

import (
	"fmt"
	"testing"
)

// TestPorts reads the members' addresses for each other from a configuration node.
func TestPorts(t *testing.T) {
	text := "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=[fd00::2]:2889:3889:participant\n" +
		"server.3=zk3:1:2|10.0.0.3:3:4\nserver.4=0.0.0.0:2888:3888:participant\nserver.5=zk5:2888:3888:observer;2181\nserver.6=bad\nversion=100000000\n"
	if got, want := fmt.Sprint(Ports([]byte(text))), "[zk1:2888 zk1:3888 [fd00::2]:2889 [fd00::2]:3889 zk3:1 zk3:2 10.0.0.3:3 10.0.0.3:4]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := Voters([]byte(text)); n != 5 {
		t.Errorf("%d voters", n)
	}
}
