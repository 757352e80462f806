package config

import (
	"bytes"
	"time"

	"github.com/zkd-project/zkd/internal/secret"
)

// leastSecret is the size in bytes from which a secret can't be guessed.
const leastSecret = 16

// resolvePeers resolves the settings for the links to other servers.
func (l *loader) resolvePeers() {
	l.resolveTimes()
	l.readSecret()
	l.resolveTLS()
	l.resolveQuorumSASL()
}

// resolveTimes ensures that a follower can receive several heartbeats before it gives up
// its leader. syncLimit bounds the time by default, since operators of Apache's server
// set that key for it.
func (l *loader) resolveTimes() {
	c := l.c
	if _, given := l.set["zkd.electionTimeout"]; !given && c.SyncLimit > 0 {
		c.ElectionTimeout = max(min(c.ElectionTimeout, c.SyncLimit), leastElectionTimeout)
	}
	if _, given := l.set["zkd.interlude"]; !given {
		c.Interlude = 3 * c.ElectionTimeout
	}
	if p, given := l.set["zkd.heartbeat"]; given && 3*c.Heartbeat > c.ElectionTimeout && !l.failed("zkd.electionTimeout") {
		l.fail(p, "must be at most a third of zkd.electionTimeout, which is %d ms", c.ElectionTimeout.Milliseconds())
		return
	}
	c.Heartbeat = min(c.Heartbeat, (c.ElectionTimeout / 3).Truncate(time.Millisecond))
}

const leastElectionTimeout = 200 * time.Millisecond

func (l *loader) readSecret() {
	c := l.c
	p, given := l.set["zkd.quorumSecretFile"]
	if !given || c.QuorumSecretFile == "" {
		return
	}
	text, err := l.read(c.QuorumSecretFile)
	if err != nil {
		l.fail(p, "can't be read: %v (make it with: head -c 32 /dev/urandom | base64 > FILE, and copy it to every server)", err)
		return
	}
	text = bytes.TrimSpace(text)
	c.QuorumSecret = secret.NewText(string(text))
	if len(text) < leastSecret {
		l.fail(p, "has %d bytes, which is too little for a secret: at least %d (make one with: head -c 32 /dev/urandom | base64)",
			len(text), leastSecret)
	}
}
