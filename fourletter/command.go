package fourletter

import (
	"encoding/binary"
	"strings"
)

// Command is a four-letter word: its bytes, the first one highest.
type Command uint32

// The commands.
const (
	Conf Command = 'c'<<24 | 'o'<<16 | 'n'<<8 | 'f' // settings
	Cons Command = 'c'<<24 | 'o'<<16 | 'n'<<8 | 's' // connections in full
	Crst Command = 'c'<<24 | 'r'<<16 | 's'<<8 | 't' // reset the connections' statistics
	Dirs Command = 'd'<<24 | 'i'<<16 | 'r'<<8 | 's' // disk usage
	Dump Command = 'd'<<24 | 'u'<<16 | 'm'<<8 | 'p' // sessions, ephemerals, connections
	Envi Command = 'e'<<24 | 'n'<<16 | 'v'<<8 | 'i' // environment
	Gtmk Command = 'g'<<24 | 't'<<16 | 'm'<<8 | 'k' // get the trace mask
	Hash Command = 'h'<<24 | 'a'<<16 | 's'<<8 | 'h' // digests of the tree
	Isro Command = 'i'<<24 | 's'<<16 | 'r'<<8 | 'o' // read-only or not
	Mntr Command = 'm'<<24 | 'n'<<16 | 't'<<8 | 'r' // metrics
	Ruok Command = 'r'<<24 | 'u'<<16 | 'o'<<8 | 'k' // is the process alive
	Srst Command = 's'<<24 | 'r'<<16 | 's'<<8 | 't' // reset the server's statistics
	Srvr Command = 's'<<24 | 'r'<<16 | 'v'<<8 | 'r' // the server in brief
	Stat Command = 's'<<24 | 't'<<16 | 'a'<<8 | 't' // srvr and connections
	Stmk Command = 's'<<24 | 't'<<16 | 'm'<<8 | 'k' // set the trace mask
	// Topc is zkd's own: what each client did.
	Topc Command = 't'<<24 | 'o'<<16 | 'p'<<8 | 'c'
	Wchc Command = 'w'<<24 | 'c'<<16 | 'h'<<8 | 'c' // watches by connection
	Wchp Command = 'w'<<24 | 'c'<<16 | 'h'<<8 | 'p' // watches by path
	Wchs Command = 'w'<<24 | 'c'<<16 | 'h'<<8 | 's' // number of watches

	// TelnetClose is the sequence that telnet sends when its user interrupts it.
	TelnetClose Command = 0xfff4fffd
)

// words lists the commands that a whitelist can contain.
var words = [...]Command{
	Conf, Cons, Crst, Dirs, Dump, Envi, Gtmk, Hash, Isro, Mntr, Ruok, Srst, Srvr, Stat, Stmk, Topc, Wchc, Wchp, Wchs,
}

// Lookup returns the command in the first four bytes of a connection. It returns false if
// they are no command, but the length of a frame.
func Lookup(first [4]byte) (Command, bool) {
	c := Command(binary.BigEndian.Uint32(first[:]))
	if c == TelnetClose {
		return c, true
	}
	for _, w := range words {
		if w == c {
			return c, true
		}
	}
	return 0, false
}

// ArgLen returns the number of bytes that follow the command and belong to it:
// 8 for stmk, 0 for all others.
func (c Command) ArgLen() int {
	if c == Stmk {
		return 8
	}
	return 0
}

// String returns the word.
func (c Command) String() string {
	if c == TelnetClose {
		return "telnet close"
	}
	return string([]byte{byte(c >> 24), byte(c >> 16), byte(c >> 8), byte(c)})
}

// Whitelist is the set of enabled commands. Srvr and TelnetClose are always enabled, even
// in a nil Whitelist.
type Whitelist map[Command]bool

// ParseWhitelist parses the value of 4lw.commands.whitelist: commands separated by
// commas, or "*" for all. It also returns the words that are no commands; they have no
// effect. A server that may become read-only adds [Isro].
func ParseWhitelist(value string) (wl Whitelist, unknown []string) {
	wl = Whitelist{}
	for word := range strings.SplitSeq(value, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
		case word == "*":
			for _, c := range words {
				wl[c] = true
			}
		case !wl.enable(word):
			unknown = append(unknown, word)
		}
	}
	return wl, unknown
}

func (wl Whitelist) enable(word string) bool {
	if len(word) != 4 {
		return false
	}
	c, ok := Lookup([4]byte([]byte(word)))
	if ok {
		wl[c] = true
	}
	return ok
}

// Allows reports whether c is enabled.
func (wl Whitelist) Allows(c Command) bool {
	return c == Srvr || c == TelnetClose || wl[c]
}
