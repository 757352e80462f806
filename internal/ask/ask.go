// Package ask sends four-letter words, such as srvr and mntr, to servers and reads the
// answers. Any server of ZooKeeper's client protocol answers them, if its
// 4lw.commands.whitelist allows that.
package ask

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// most is the size in bytes of the largest answer that is accepted.
const most = 16 << 20

// Word sends a word to the server at host:port and returns the answer. It returns what
// has arrived, with the socket's error, if the connection breaks or ctx ends before the
// server has closed the connection.
func Word(ctx context.Context, addr, word string) (string, error) {
	return WordOver(ctx, new(net.Dialer).DialContext, addr, word)
}

// WordOver is Word over a connection that dial opens, such as tls.Dialer's DialContext.
func WordOver(ctx context.Context, dial func(ctx context.Context, network, addr string) (net.Conn, error), addr, word string) (string, error) {
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err = io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("send %s: %w", word, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, most+1))
	switch {
	case err != nil:
		return string(answer), fmt.Errorf("read the answer to %s: %w", word, err)
	case len(answer) > most:
		return "", fmt.Errorf("the answer to %s is longer than %d bytes", word, most)
	}
	return string(answer), nil
}

// Within is Word with a time limit.
func Within(limit time.Duration, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return Word(ctx, addr, word)
}

// Fields returns the values of an answer by their names. Each has a line, such as
// "Mode: leader" in the answer to srvr, where the separator is ": ", and a tab in the
// answer to mntr.
func Fields(answer, separator string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(answer) {
		if name, value, ok := strings.Cut(line, separator); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// Mode returns what a server is, by its answer to srvr: leader, follower, observer,
// standalone or read-only. It returns "" if the server does not serve.
func Mode(srvr string) string { return Fields(srvr, ": ")["Mode"] }
