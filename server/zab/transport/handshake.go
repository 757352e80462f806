package transport

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/zkd-project/zkd/server/zab"
)

// handshake is the state of a handshake on a connection. Its deadline is the connection's.
type handshake struct {
	t             *Transport
	nc            net.Conn
	raw           net.Conn // on the acceptor: nc without TLS
	purpose       purpose
	ours, theirs  helloRecord
	intro         zab.Introduction // of the peer
	said          uint64           // Transport.relinks when this server said hello
	dialer        bool
	dialed, accep []byte // the hellos as sent
}

// dialHandshake does the dialer's handshake on nc.
func (t *Transport) dialHandshake(nc net.Conn, to zab.SID, why purpose) (*handshake, error) {
	hs := &handshake{t: t, nc: nc, purpose: why, dialer: true}
	var err error
	if hs.dialed, err = hs.sendHello(to); err != nil {
		return nil, err
	}
	if hs.theirs, hs.accep, err = readHello(nc); err != nil {
		return nil, err
	}
	if err := hs.checkAnswer(to); err != nil {
		return nil, hs.sendVerdict(err)
	}
	if err := hs.sendVerdict(nil); err != nil {
		return nil, err
	}
	if err := hs.readVerdict(); err != nil {
		if causeOf(err) == "id" {
			t.o.Refused(hs.hello())
		}
		return nil, err
	}
	return hs, nil
}

// acceptHello does the part of the handshake before the acceptor's verdict. The caller
// sends the verdict.
func (t *Transport) acceptHello(nc net.Conn) (*handshake, error) {
	hs := &handshake{t: t, nc: nc}
	var err error
	if hs.theirs, hs.dialed, err = readHello(nc); err != nil {
		return hs, err
	}
	hs.purpose = hs.theirs.Purpose
	if hs.accep, err = hs.sendHello(zab.SIDOf(hs.theirs.From)); err != nil {
		return hs, err
	}
	if err := hs.readVerdict(); err != nil {
		return hs, hs.sendOwnRefusal(err)
	}
	if err := hs.checkCaller(); err != nil {
		return hs, hs.sendVerdict(err)
	}
	return hs, nil
}

// sendOwnRefusal tells the peer of a refusal that is not its own.
func (hs *handshake) sendOwnRefusal(err error) error {
	if no, ok := err.(*refusal); ok && !no.theirs {
		return hs.sendVerdict(err)
	}
	return err
}

func (hs *handshake) sendHello(to zab.SID) ([]byte, error) {
	o := &hs.t.o
	hs.said = hs.t.relinks.Load() // before Introduce: a change in between makes the hello out of date
	in := o.Introduce()
	hs.ours = helloRecord{
		Min: minVersion, Max: maxVersion, From: uint8(o.Self), To: uint8(to), Purpose: hs.purpose,
		Cluster: in.Cluster[:], Incarnation: in.Incarnation[:], Boot: in.Boot,
		Nonce: make([]byte, nonceSize), Secret: len(o.Secret) > 0,
		Reads: o.Reads, Needs: o.Needs(),
		Members: in.Members.Append(nil), List: uint64(in.List), Starts: zab.AppendStarts(nil, in.Starts),
		Vouched: in.Vouched, Listen: hs.t.advertised(), Shares: o.Shares,
	}
	rand.Read(hs.ours.Nonce)
	b, err := appendRecord([]byte(magic), &hs.ours)
	if err != nil {
		return nil, err
	}
	_, err = hs.nc.Write(b)
	return b[len(magic)+4:], err
}

// hello returns the hello of the peer.
func (hs *handshake) hello() Hello {
	h := &hs.theirs
	return Hello{
		ID: zab.SIDOf(h.From), Introduction: hs.intro, Listen: h.Listen,
		Version: min(h.Max, maxVersion), Reads: max(h.Reads, 1), Shares: h.Shares, TLS: encrypted(hs.nc), Addr: hs.nc.RemoteAddr().String(),
	}
}

// sendVerdict sends the verdict: a refusal for err, or acceptance if err is nil. It returns err,
// or the error of sending.
func (hs *handshake) sendVerdict(err error) error {
	var v verdictRecord
	if err != nil {
		v.Cause, v.Text = causeOf(err), err.Error()
	} else if len(hs.t.o.Secret) > 0 {
		v.Proof = hs.proof(hs.dialer)
	}
	b, encErr := appendRecord(nil, &v)
	if encErr != nil {
		return encErr
	}
	if _, sendErr := hs.nc.Write(b); sendErr != nil && err == nil {
		return sendErr
	}
	return err
}

// readVerdict reads the peer's verdict and checks its proof.
func (hs *handshake) readVerdict() error {
	var v verdictRecord
	if _, err := readRecord(hs.nc, &v); err != nil {
		return err
	}
	switch {
	case v.Cause != "":
		return &refusal{reason{knownCause(v.Cause), printable(v.Text)}, true}
	case len(hs.t.o.Secret) > 0 && !hmac.Equal(v.Proof, hs.proof(!hs.dialer)):
		return refuse("secret", "its shared secret is another one")
	}
	return nil
}

// knownCause bounds the set of causes that a peer can add to the counters.
func knownCause(c string) string {
	switch c {
	case "version", "cluster", "id", "target", "secret", "certificate", "direction", "duplicate", "busy", "removed", "introduction":
		return c
	}
	return "other"
}

// proof returns the proof of knowledge of the secret, for the dialer or the acceptor. Each
// hello has new random bytes, so the proof is valid for this connection only. Over TLS 1.3
// it is also bound to that connection.
func (hs *handshake) proof(dialer bool) []byte {
	mac := hmac.New(sha256.New, hs.t.o.Secret)
	role := "zkd-peer acceptor"
	if dialer {
		role = "zkd-peer dialer"
	}
	for _, part := range [][]byte{[]byte(role), hs.dialed, hs.accep, binding(hs.nc)} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// binding returns bytes that only the two ends of a TLS 1.3 connection know.
func binding(nc net.Conn) []byte {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	state := c.ConnectionState()
	if state.Version < tls.VersionTLS13 {
		return nil
	}
	key, err := state.ExportKeyingMaterial("EXPORTER-zkd-peer", nil, 32)
	if err != nil {
		return nil // both sides fail in the same way
	}
	return key
}

// checkBoth checks the requirements that both sides share. A hello of another version need
// not make sense.
func (hs *handshake) checkBoth() error {
	h, us := &hs.theirs, &hs.ours
	if err := checkVersions(h, us); err != nil {
		return err
	}
	if h.Secret != us.Secret {
		return refuse("secret", fmt.Sprintf("server %d has a shared secret: %t, server %d: %t", h.From, h.Secret, us.From, us.Secret))
	}
	var err error
	if hs.intro, err = h.introduction(); err != nil {
		return &reason{"stranger", "a hello that makes no sense: " + printable(err.Error())}
	}
	if theirs, ours := zab.ID(h.Cluster), zab.ID(us.Cluster); theirs != ours && theirs != (zab.ID{}) && ours != (zab.ID{}) {
		return refuse("cluster", fmt.Sprintf("server %d belongs to cluster %x, server %d to cluster %x: is the address right, or has one the data of another ensemble?",
			h.From, theirs, us.From, ours))
	}
	return nil
}

// checkVersions checks that two servers speak a common version of the protocol, and that each
// reads the history of the other.
func checkVersions(h, us *helloRecord) error {
	switch {
	case h.Min > us.Max:
		return refuse("version", fmt.Sprintf("server %d speaks versions %d to %d of the protocol, server %d only %d to %d: it is too old",
			h.From, h.Min, h.Max, us.From, us.Min, us.Max))
	case h.Max < us.Min:
		return refuse("version", fmt.Sprintf("server %d speaks versions %d to %d of the protocol, server %d only %d to %d: the former is too old",
			h.From, h.Min, h.Max, us.From, us.Min, us.Max))
	case h.Needs > us.Reads:
		return tooOld(h, us)
	case us.Needs > max(h.Reads, 1):
		return tooOld(us, h)
	}
	return nil
}

// tooOld refuses a link because one server's history has a format that the other can't
// read.
func tooOld(has, reads *helloRecord) error {
	return refuse("version", fmt.Sprintf("the history of server %d has transactions of format %d, and server %d reads up to format %d: the version of server %d is too old",
		has.From, has.Needs, reads.From, max(reads.Reads, 1), reads.From))
}

// checkAnswer checks the hello of a server that was dialed.
func (hs *handshake) checkAnswer(want zab.SID) error {
	h := &hs.theirs
	switch {
	case h.From == hs.ours.From && h.Boot == hs.ours.Boot:
		return refuse("target", fmt.Sprintf("the address of server %d leads to server %d itself", want, h.From))
	case zab.SIDOf(h.From) != want:
		return refuse("target", fmt.Sprintf("server %d answers at the address of server %d", h.From, want))
	}
	if err := hs.checkBoth(); err != nil {
		return err
	}
	return hs.t.checkCertificate(hs.nc, want)
}

// checkCaller checks the hello of a server that connected.
func (hs *handshake) checkCaller() error {
	h, self := &hs.theirs, hs.ours.From
	switch {
	case h.From == self && h.Boot == hs.ours.Boot:
		return refuse("target", fmt.Sprintf("server %d connected to itself", self))
	case h.From == self:
		return refuse("duplicate", fmt.Sprintf("another process uses id %d: two servers have the same myid", self))
	case h.To != self:
		return refuse("target", fmt.Sprintf("server %d looks for server %d, and this is server %d", h.From, h.To, self))
	}
	if err := hs.checkBoth(); err != nil {
		return err
	}
	stranger := hs.t.active(zab.SIDOf(h.From)) == nil
	if stranger {
		if err := hs.t.o.Stranger(hs.hello()); err != nil {
			hs.t.o.Refused(hs.hello())
			return refuse("id", fmt.Sprintf("server %d is not in the configuration of server %d: %v", h.From, self, err))
		}
	}
	if err := hs.t.checkCertificate(hs.nc, zab.SIDOf(h.From)); err != nil {
		return err
	}
	if stranger {
		hs.t.addPeer(Peer{ID: zab.SIDOf(h.From), Addrs: h.Listen, Moves: true})
	}
	larger := zab.SIDOf(h.From) > zab.SIDOf(self)
	switch h.Purpose {
	case forStream:
		return nil
	case forLink, forCall:
		if larger == (h.Purpose == forLink) {
			return nil
		}
		return refuse("direction", fmt.Sprintf("of servers %d and %d the one with the larger id dials", h.From, self))
	}
	return refuse("version", fmt.Sprintf("server %d connects for a purpose that this server does not know: %d", h.From, h.Purpose))
}
