package sasl

import (
	"crypto/sha256"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// maxSkew is how much the clocks of a client and of the server may differ.
const maxSkew = 5 * time.Minute

// Kerberos is a service that accepts Kerberos tickets. It needs no key distribution
// center: its key decrypts the tickets. It may be used from any goroutine.
type Kerberos struct {
	file[*keytab.Keytab]
	service principal // whose tickets it accepts
	replays replays
}

// OpenKerberos returns the service with the keys of a keytab, which is read again when it has
// changed. principal is the service's name, such as zookeeper/zk1.example.com@EXAMPLE.COM; without
// a realm, it is of the realm that the keytab has it in.
func OpenKerberos(path, principal string, read func(string) ([]byte, error)) (*Kerberos, error) {
	k := &Kerberos{file: file[*keytab.Keytab]{path: path}}
	name, realm, _ := strings.Cut(principal, "@")
	k.service.name, k.service.host, k.service.hasHost = strings.Cut(name, "/")
	k.service.realm, k.service.hasRealm = realm, true
	k.parse = func(text []byte) (*keytab.Keytab, error) {
		keys, err := readKeytab(text)
		if err != nil {
			return nil, err
		}
		in, found := realmOf(keys, name, k.service.realm)
		if !found {
			return nil, fmt.Errorf("the keytab has no AES key of %s", principal)
		}
		realm = in
		return keys, nil
	}
	err := k.open(read)
	k.service.realm = realm
	return k, err
}

// realmOf returns the realm in which a keytab has an AES key of a principal. Without a realm, any
// will do.
func realmOf(keys *keytab.Keytab, name, realm string) (in string, found bool) {
	for _, e := range keys.Entries {
		if strings.Join(e.Principal.Components, "/") != name || realm != "" && e.Principal.Realm != realm {
			continue
		}
		switch e.Key.KeyType {
		case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
			in, found = e.Principal.Realm, true
		}
	}
	return in, found
}

// Realm is the realm of the service.
func (k *Kerberos) Realm() string { return k.service.realm }

// String shows no keys.
func (k *Kerberos) String() string {
	return "Kerberos as " + k.service.name + "/" + k.service.host + "@" + k.service.realm
}

// GoString shows no keys.
func (k *Kerberos) GoString() string { return k.String() }

// readKeytab reads a keytab. The library reads beyond the end of a damaged one.
func readKeytab(text []byte) (keys *keytab.Keytab, err error) {
	defer recovered(&err)
	keys = keytab.New()
	if err := keys.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("no keytab: %w", err)
	}
	return keys, nil
}

// recovered turns a panic of the Kerberos library, which some malformed messages cause, into an
// error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("malformed: %v", r)
	}
}

// ticket is what a client has proved with an AP-REQ.
type ticket struct {
	client  string // the principal
	key     types.EncryptionKey
	request messages.APReq
}

// accept checks an AP-REQ (RFC 4120 section 3.2.3).
func (k *Kerberos) accept(request []byte) (t ticket, err error) {
	defer recovered(&err)
	r := &t.request
	if err := r.Unmarshal(request); err != nil {
		return t, err
	}
	of := strings.Join(r.Ticket.SName.NameString, "/") + "@" + r.Ticket.Realm
	if p, err := parsePrincipal(of); err != nil || p != k.service {
		return t, fmt.Errorf("a ticket for %.200q, not for %v", of, k)
	}
	if ok, err := r.Verify(k.current(time.Now()), maxSkew, types.HostAddress{}, nil); err != nil || !ok {
		return t, fmt.Errorf("the ticket for %v: %w", k, errors.Join(err, errTicket))
	}
	if sum := sha256.Sum256(r.EncryptedAuthenticator.Cipher); !k.replays.add(sum, time.Now()) {
		return t, errors.New("the authenticator was used before")
	}
	if t.client, err = clientOf(r); err != nil {
		return t, err
	}
	t.key = r.Ticket.DecryptedEncPart.Key
	if r.Authenticator.SubKey.KeyType != 0 {
		t.key = r.Authenticator.SubKey
	}
	switch t.key.KeyType {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
		return t, nil
	}
	return t, fmt.Errorf("a key of type %d, not of AES", t.key.KeyType)
}

var errTicket = errors.New("not valid")

// clientOf returns the principal of a ticket. A name that would be read as another one is
// refused.
func clientOf(r *messages.APReq) (string, error) {
	part := &r.Ticket.DecryptedEncPart
	for _, c := range part.CName.NameString {
		if c == "" || strings.ContainsAny(c, "/@\x00") {
			return "", fmt.Errorf("the client's name %.200q can't be written", part.CName.NameString)
		}
	}
	if n := len(part.CName.NameString); n == 0 || part.CRealm == "" || r.Authenticator.CRealm != part.CRealm {
		return "", errors.New("the client has no name, or its realm is not that of the ticket")
	}
	return strings.Join(part.CName.NameString, "/") + "@" + part.CRealm, nil
}

// encAPRepPart is EncAPRepPart of RFC 4120 section 5.5.2, which the library can't write.
type encAPRepPart struct {
	CTime          time.Time `asn1:"generalized,explicit,tag:0"`
	Cusec          int       `asn1:"explicit,tag:1"`
	SequenceNumber int64     `asn1:"explicit,tag:3"`
}

// apRep is KRB_AP_REP.
type apRep struct {
	PVNO    int           `asn1:"explicit,tag:0"`
	MsgType int           `asn1:"explicit,tag:1"`
	EncPart encryptedData `asn1:"explicit,tag:2"`
}

type encryptedData struct {
	EType  int32  `asn1:"explicit,tag:0"`
	Cipher []byte `asn1:"explicit,tag:2"`
}

// prove returns the AP-REP by which the server proves that it could read the ticket. Its
// messages have the sequence numbers of the client's.
func (t *ticket) prove() (reply []byte, err error) {
	defer recovered(&err)
	a := &t.request.Authenticator
	plain, err := asn1.Marshal(encAPRepPart{CTime: a.CTime.UTC(), Cusec: a.Cusec, SequenceNumber: a.SeqNumber})
	if err != nil {
		return nil, err
	}
	plain = asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart)
	sealed, err := crypto.GetEncryptedData(plain, t.request.Ticket.DecryptedEncPart.Key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	reply, err = asn1.Marshal(apRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: encryptedData{sealed.EType, sealed.Cipher}})
	return asn1tools.AddASNAppTag(reply, asnAppTag.APREP), err
}

// wantsProof reports whether the client wants mutual authentication.
func (t *ticket) wantsProof() bool {
	return types.IsFlagSet(&t.request.APOptions, flags.APOptionMutualRequired)
}

// replays remembers the authenticators that were used, for as long as their time is
// accepted. Only clients with a valid ticket add to it.
type replays struct {
	mu            sync.Mutex
	recent, older map[[sha256.Size]byte]struct{}
	begun         time.Time // of recent
}

const (
	// replayWindow is the time in which an authenticator is accepted.
	replayWindow = 2 * maxSkew
	// maxReplays bounds the memory: 1 MiB of authenticators in half a window is more than a
	// server can check.
	maxReplays = 1 << 20
)

// add reports whether an authenticator is new.
func (r *replays) add(sum [sha256.Size]byte, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent == nil || now.Sub(r.begun) >= replayWindow {
		r.older, r.recent, r.begun = r.recent, make(map[[sha256.Size]byte]struct{}), now
	}
	_, again := r.recent[sum]
	if _, before := r.older[sum]; again || before || len(r.recent) >= maxReplays {
		return false
	}
	r.recent[sum] = struct{}{}
	return true
}
