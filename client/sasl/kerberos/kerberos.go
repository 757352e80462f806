// Package kerberos authenticates a client with Kerberos: the SASL mechanism GSSAPI (RFC 4752),
// without integrity and privacy layers. It is apart from package sasl because of the library that it
// needs.
//
//	login := kerberos.New(kerberos.Options{Principal: "app@EXAMPLE.COM", Keytab: "/etc/app.keytab"})
//	c, err := client.New("zk1:2181", client.Options{SASL: login})
package kerberos

import (
	"cmp"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	krb "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkd-project/zkd/client/sasl"
)

// Options say who the client is, and where its tickets are from. The zero value is for a user
// who has called kinit.
type Options struct {
	// Principal is the client's name, such as app@EXAMPLE.COM, with a Keytab. Without a realm,
	// it is of the default realm.
	Principal string
	// Keytab is a file with the principal's key. It is read for each connection.
	Keytab string
	// Cache is a file with tickets, as kinit makes it, if there is no Keytab. It is read for
	// each connection. Default: that of KRB5CCNAME, or /tmp/krb5cc_<uid>.
	Cache string
	// Config is the krb5.conf. Default: that of KRB5_CONFIG, or /etc/krb5.conf.
	Config string
	// Service is the first part of the servers' principals, before the slash and the host name
	// by which the client knows the server; or a whole principal, such as zookeeper/zk1. Default
	// zookeeper.
	Service string
}

// TicketError means that there is no ticket for a server, which was not asked then.
type TicketError struct {
	Service string // the server's principal
	Err     error
}

// Error names the principal.
func (e *TicketError) Error() string {
	return fmt.Sprintf("no Kerberos ticket for %s: %v", e.Service, e.Err)
}

// Unwrap returns the reason.
func (e *TicketError) Unwrap() error { return e.Err }

// New returns a value for client.Options.SASL. For each connection it asks a key distribution
// center for a ticket, which blocks while that does not answer.
func New(o Options) func(server string) (sasl.Mechanism, error) {
	return func(server string) (sasl.Mechanism, error) {
		service := cmp.Or(o.Service, "zookeeper")
		if !strings.Contains(service, "/") {
			service += "/" + server
		}
		m, err := o.login(service)
		if err != nil {
			return nil, &TicketError{service, err}
		}
		return m, nil
	}
}

// mechanism is the client of one exchange.
//
//	client                     server
//	AP-REQ                 ─▶
//	                       ◀─  which layers there are, with a checksum
//	the layer: none        ─▶
//	                       ◀─  null
//
// The server has proved that it knows its key by the checksum, which takes the key of the
// ticket.
type mechanism struct {
	client   string // principal
	request  []byte
	key      types.EncryptionKey
	sequence uint64 // number of the first message
	sent     bool
}

// login gets a ticket. The library keeps a goroutine for each login until Destroy.
func (o *Options) login(service string) (m *mechanism, err error) {
	defer recovered(&err)
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	defer c.Destroy()
	ticket, key, err := c.GetServiceTicket(service)
	if err != nil {
		return nil, err
	}
	m = &mechanism{client: c.Credentials.UserName() + "@" + c.Credentials.Domain(), key: key}
	return m, m.prepare(c.Credentials, ticket)
}

func (o *Options) client() (*krb.Client, error) {
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	if o.Keytab == "" {
		return o.fromCache(settings)
	}
	keys, err := keytab.Load(o.Keytab)
	if err != nil {
		return nil, fmt.Errorf("the keytab %s: %w", o.Keytab, err)
	}
	name, realm, _ := strings.Cut(o.Principal, "@")
	if name == "" {
		return nil, errors.New("a keytab needs a principal")
	}
	return krb.NewWithKeytab(name, cmp.Or(realm, settings.LibDefaults.DefaultRealm), keys, settings, krb.DisablePAFXFAST(true)), nil
}

// settings reads the krb5.conf. Directives that the library does not know are left out.
func (o *Options) settings() (*config.Config, error) {
	file := cmp.Or(o.Config, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
	c, err := config.Load(file)
	if _, unsupported := errors.AsType[config.UnsupportedDirective](err); err != nil && !unsupported {
		return nil, fmt.Errorf("the Kerberos configuration %s: %w", file, err)
	}
	return c, nil
}

func (o *Options) fromCache(settings *config.Config) (*krb.Client, error) {
	file := cmp.Or(o.Cache, os.Getenv("KRB5CCNAME"), "/tmp/krb5cc_"+strconv.Itoa(os.Getuid()))
	if kind, name, typed := strings.Cut(file, ":"); typed && kind == "FILE" {
		file = name
	} else if typed && !strings.HasPrefix(file, "/") {
		return nil, fmt.Errorf("the tickets are in %s, and only those in files can be read: kinit -c FILE makes one", file)
	}
	tickets, err := credentials.LoadCCache(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there are no tickets in %s", file)
	}
	if err != nil {
		return nil, fmt.Errorf("the tickets in %s: %w", file, err)
	}
	c, err := krb.NewFromCCache(tickets, settings, krb.DisablePAFXFAST(true))
	if err != nil {
		return nil, fmt.Errorf("the tickets in %s: %w", file, err)
	}
	return c, nil
}

// recovered turns a panic of the library, which damaged files cause, into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("malformed: %v", r)
	}
}

// GSS-API's constants of RFC 4121 section 4.1.1, and of RFC 2743 section 3.1.
const (
	bindingsSize = 16 // of channel bindings, of which there are none
	flagSequence = 8
	flagInteg    = 32
)

var apReqID = []byte{1, 0}

// prepare makes the first token: an AP-REQ.
func (m *mechanism) prepare(who *credentials.Credentials, ticket messages.Ticket) error {
	a, err := types.NewAuthenticator(who.Domain(), who.CName())
	if err != nil {
		return err
	}
	m.sequence = uint64(a.SeqNumber)
	sum := binary.LittleEndian.AppendUint32(nil, bindingsSize)
	sum = append(sum, make([]byte, bindingsSize)...)
	sum = binary.LittleEndian.AppendUint32(sum, flagSequence|flagInteg)
	a.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	request, err := messages.NewAPReq(ticket, m.key, a)
	if err != nil {
		return err
	}
	b, errRequest := request.Marshal()
	oid, errOID := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	m.request = asn1tools.AddASNAppTag(slices.Concat(oid, apReqID, b), 0)
	return errors.Join(errRequest, errOID)
}

// wrap returns a message of the client with a checksum. Java's servers check its number.
func (m *mechanism) wrap(message []byte) ([]byte, error) {
	kind, err := crypto.GetEtype(m.key.KeyType)
	if err != nil {
		return nil, err
	}
	w := gssapi.WrapToken{EC: uint16(kind.GetHMACBitLength() / 8), SndSeqNum: m.sequence, Payload: message}
	if err := w.SetCheckSum(m.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return w.Marshal()
}

// String names the mechanism and the client.
func (m *mechanism) String() string { return "GSSAPI as " + m.client }

// noLayer is the layer that is chosen, and the bit of the offer that means it.
const noLayer = 1

// Step sends the ticket, and then the choice of a layer.
func (m *mechanism) Step(challenge []byte) (answer []byte, done bool, err error) {
	defer recovered(&err)
	if !m.sent {
		m.sent = true
		return m.request, false, nil
	}
	var offer gssapi.WrapToken
	if err := offer.Unmarshal(challenge, true); err != nil {
		return nil, false, fmt.Errorf("the server does not answer as one with Kerberos: %w", err)
	}
	if ok, err := offer.Verify(m.key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil || !ok {
		return nil, false, errors.New("the server did not prove that it could read the ticket: it may be somebody else's")
	}
	if len(offer.Payload) != 4 || offer.Payload[0]&noLayer == 0 {
		return nil, false, fmt.Errorf("the server wants a security layer, % x", offer.Payload)
	}
	answer, err = m.wrap([]byte{noLayer, 0, 0, 0})
	return answer, true, err
}
