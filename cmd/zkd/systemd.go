package main

import (
	"net"
	"strings"
)

// notifySystemd reports the server's state to systemd, if systemd started it: socket is
// $NOTIFY_SOCKET, state is "READY=1" or similar (sd_notify(3)). An error is no reason to
// stop; systemd then logs that it received nothing.
func notifySystemd(socket, state string) error {
	if socket == "" {
		return nil
	}
	if abstract, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + abstract
	}
	c, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}
