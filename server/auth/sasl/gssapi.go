package sasl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// gssapi is the server of RFC 4752, the mechanism GSSAPI with Kerberos (RFC 4121), without
// integrity and privacy layers. An authorization id that the client asks for has no effect, as
// in Apache's server.
//
//	client                     server
//	AP-REQ                 ─▶
//	                       ◀─  AP-REP, if the client wants one
//	an empty token         ─▶
//	                       ◀─  which layers there are: none
//	the layer, the authzid ─▶
//	                       ◀─  null
type gssapi struct {
	kerberos *Kerberos
	ticket   ticket
	state    gssState
}

type gssState int

const (
	awaitsTicket gssState = iota
	awaitsEmpty
	awaitsLayer
)

// gssTag is the first byte of a GSS-API token, and of no other mechanism's.
const gssTag = 0x60

func (m *gssapi) step(token []byte) (reply []byte, client string, err error) {
	switch m.state {
	case awaitsTicket:
		reply, err = m.accept(token)
	case awaitsEmpty:
		if len(token) > 0 {
			return nil, "", errors.New("GSSAPI: the token after the server's proof is not empty")
		}
		reply, err = m.offer()
	default:
		client, err = m.ticket.client, m.checkLayer(token)
	}
	if err != nil {
		return nil, "", fmt.Errorf("GSSAPI: %w", err)
	}
	return reply, client, nil
}

// user returns "": nobody guesses a ticket.
func (m *gssapi) user([]byte) string { return "" }

func (m *gssapi) accept(token []byte) ([]byte, error) {
	request, err := gssMessage(token, apReqID)
	if err != nil {
		return nil, err
	}
	if m.ticket, err = m.kerberos.accept(request); err != nil {
		return nil, err
	}
	if err := checkGSSChecksum(m.ticket.request.Authenticator.Cksum); err != nil {
		return nil, err
	}
	if !m.ticket.wantsProof() {
		return m.offer()
	}
	m.state = awaitsEmpty
	proof, err := m.ticket.prove()
	return gssToken(apRepID, proof), err
}

// checkGSSChecksum requires that the authenticator was made for GSS-API: RFC 4121 section
// 4.1.1.
func checkGSSChecksum(sum types.Checksum) error {
	const gssChecksum, least = 0x8003, 24
	if sum.CksumType != gssChecksum || len(sum.Checksum) < least || binary.LittleEndian.Uint32(sum.Checksum) != 16 {
		return errors.New("the authenticator is not one for GSS-API")
	}
	return nil
}

const noLayer = 1

// offer offers the one layer that there is: none.
func (m *gssapi) offer() ([]byte, error) {
	m.state = awaitsLayer
	return wrap([]byte{noLayer, 0, 0, 0}, m.ticket.key, uint64(m.ticket.request.Authenticator.SeqNumber))
}

func (m *gssapi) checkLayer(token []byte) error {
	choice, err := unwrap(token, m.ticket.key)
	switch {
	case err != nil:
		return err
	case len(choice) < 4:
		return fmt.Errorf("a choice of layers of %d bytes", len(choice))
	case choice[0] != noLayer:
		return fmt.Errorf("the client chooses layer %d, which was not offered", choice[0])
	}
	return nil
}

var (
	// kerberosOID is 1.2.840.113554.1.2.2 in DER.
	kerberosOID = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}
	apReqID     = []byte{1, 0}
	apRepID     = []byte{2, 0}
)

// gssMessage returns the message in the initial token of GSS-API (RFC 2743 section 3.1).
func gssMessage(token, id []byte) ([]byte, error) {
	if len(token) < 2 || token[0] != gssTag {
		return nil, errors.New("no GSS-API token")
	}
	size, rest := int(token[1]), token[2:]
	if size&0x80 != 0 {
		n := size & 0x7f
		if n > 3 || n > len(rest) {
			return nil, errors.New("a GSS-API token of unknown length")
		}
		size = 0
		for _, b := range rest[:n] {
			size = size<<8 | int(b)
		}
		rest = rest[n:]
	}
	rest, isKerberos := bytes.CutPrefix(rest[:min(size, len(rest))], kerberosOID)
	message, hasID := bytes.CutPrefix(rest, id)
	if !isKerberos || !hasID {
		return nil, errors.New("the GSS-API token is not one of Kerberos, or not the one that is due")
	}
	return message, nil
}

// gssToken is the opposite of gssMessage.
func gssToken(id, message []byte) []byte {
	size := len(kerberosOID) + len(id) + len(message)
	b := []byte{gssTag}
	switch {
	case size < 0x80:
		b = append(b, byte(size))
	case size <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x82), uint16(size))
	default:
		b = append(b, 0x83, byte(size>>16), byte(size>>8), byte(size))
	}
	return append(append(append(b, kerberosOID...), id...), message...)
}

// The header of a wrap token (RFC 4121 section 4.2.6.2): an id, flags, a filler, the length of
// the checksum, by how much the rest is rotated, and the sequence number.
const (
	wrapHeaderSize   = 16
	wrapFromAcceptor = 1
	wrapSealed       = 2
	wrapAcceptorsKey = 4
	wrapFiller       = 0xff
	wrapID0, wrapID1 = 5, 4
	checksumLengthAt = 4
	rotationAt       = 6
	sequenceAt       = 8
)

// wrap returns a token of the server with a checksum.
func wrap(plain []byte, key types.EncryptionKey, sequence uint64) (token []byte, err error) {
	defer recovered(&err)
	et, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	header := []byte{wrapID0, wrapID1, wrapFromAcceptor, wrapFiller, 0, 0, 0, 0}
	header = binary.BigEndian.AppendUint64(header, sequence)
	sum, err := et.GetChecksumHash(key.KeyValue, append(bytes.Clone(plain), header...), keyusage.GSSAPI_ACCEPTOR_SEAL)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(header[checksumLengthAt:], uint16(len(sum)))
	return append(append(header, plain...), sum...), nil
}

// unwrap returns what a token of the client says, whose checksum it checks.
func unwrap(token []byte, key types.EncryptionKey) (plain []byte, err error) {
	defer recovered(&err)
	if len(token) < wrapHeaderSize || token[0] != wrapID0 || token[1] != wrapID1 || token[3] != wrapFiller {
		return nil, errors.New("no wrap token")
	}
	if flags := token[2]; flags&(wrapFromAcceptor|wrapSealed|wrapAcceptorsKey) != 0 {
		return nil, fmt.Errorf("a wrap token with flags %#x", flags)
	}
	header, body := bytes.Clone(token[:wrapHeaderSize]), bytes.Clone(token[wrapHeaderSize:])
	sumLen := int(binary.BigEndian.Uint16(header[checksumLengthAt:]))
	if sumLen > len(body) {
		return nil, errors.New("a wrap token that is cut off")
	}
	if n := int(binary.BigEndian.Uint16(header[rotationAt:])); len(body) > 0 {
		n %= len(body)
		body = append(body[n:], body[:n]...)
	}
	clear(header[checksumLengthAt:sequenceAt]) // as the checksum sees them
	plain, sum := body[:len(body)-sumLen], body[len(body)-sumLen:]
	et, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	if !et.VerifyChecksum(key.KeyValue, append(bytes.Clone(plain), header...), sum, keyusage.GSSAPI_INITIATOR_SEAL) {
		return nil, errors.New("the checksum of a wrap token is wrong")
	}
	return plain, nil
}
