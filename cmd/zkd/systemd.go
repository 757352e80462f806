package main

import (
	"net"
	"strings"
)

// notifySystemd tells systemd how far the server is, if that is who started it:
// socket is $NOTIFY_SOCKET, state is "READY=1" or the like (sd_notify(3)). To
// fail is no reason to stop; systemd then says that it heard nothing.
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
