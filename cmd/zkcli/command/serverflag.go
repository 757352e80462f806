package command

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// serverFlags are the flags with which other programs name a server. Here -h is help.
var serverFlags = []string{"h", "H", "host", "hostname", "hosts", "servers", "z", "zk", "zookeeper", "connect"}

// serverFlag returns an error, which says what to write, if a flag with the word after it names a server as
// other programs do. To print help for -h host:2181 would look like success.
func (n *normaliser) serverFlag(arg string, rest []string) error {
	name, server, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if !slices.Contains(serverFlags, name) {
		return nil
	}
	if !has && len(rest) > 0 && !isFlag(rest[0]) {
		server = rest[0]
	}
	write := "-server HOST:PORT"
	if n.cmd.Flag("server") == nil { // in a session
		write = "connect HOST:PORT"
	}
	if name == "h" {
		_, unknown := subcommand(n.cmd, server)
		if server == "" || n.cmd.HasParent() && !looksLikeServer(server) || !n.cmd.HasParent() && unknown == nil {
			return nil
		}
		return &UsageError{Text: arg + " prints help. To name a server write " + strings.Replace(write, "HOST:PORT", server, 1)}
	}
	if _, _, known := n.long(name); known {
		return nil
	}
	if len(name) == 1 {
		if _, _, known := n.short(name[0]); known {
			return nil
		}
	}
	if server != "" {
		write = strings.Replace(write, "HOST:PORT", server, 1)
	}
	return &UsageError{Text: "unknown flag " + arg + ". To name a server write " + write}
}

// looksLikeServer reports whether a word is probably meant for a server, or for several.
func looksLikeServer(word string) bool {
	first, _, _ := strings.Cut(word, ",")
	first, _, _ = strings.Cut(first, "/") // a chroot
	if host, port, err := net.SplitHostPort(first); err == nil {
		_, err := strconv.ParseUint(port, 10, 16)
		return err == nil && host != ""
	}
	return first == "localhost" || strings.Contains(first, ".")
}
