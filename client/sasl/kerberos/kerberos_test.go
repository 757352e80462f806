package kerberos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

const realm, etype = "EXAMPLE.COM", etypeID.AES256_CTS_HMAC_SHA1_96

// begin returns a mechanism with a ticket of bob's, and what the service reads of its first token.
func begin(t *testing.T) (m *mechanism, request messages.APReq) {
	t.Helper()
	name := func(s string) types.PrincipalName {
		return types.PrincipalName{NameType: 1, NameString: strings.Split(s, "/")}
	}
	keys, now := keytab.New(), time.Now().UTC()
	if err := keys.AddEntry("zookeeper/zk1", realm, "secret", now, 1, etype); err != nil {
		t.Fatal(err)
	}
	ticket, key, err := messages.NewTicket(name("bob"), realm, name("zookeeper/zk1"), realm, types.NewKrbFlags(), keys, etype, 1,
		now, now, now.Add(time.Hour), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	m = &mechanism{client: "bob@" + realm, key: key}
	if err := m.prepare(credentials.New("bob", realm), ticket); err != nil {
		t.Fatal(err)
	}
	token, done, err := m.Step(nil)
	if err != nil || done {
		t.Fatalf("first: %v, %v", done, err)
	}
	const header = 17 // the tag and the length of the token, the OID, and what it is
	if err := request.Unmarshal(token[header:]); err != nil {
		t.Fatalf("% x: %v", token, err)
	}
	if ok, err := request.Verify(keys, time.Minute, types.HostAddress{}, nil); !ok || err != nil {
		t.Fatal(err)
	}
	return m, request
}

// offer is a server's offer of layers.
func offer(t *testing.T, layers string, key types.EncryptionKey) []byte {
	t.Helper()
	w := gssapi.WrapToken{Flags: 1, EC: 12, Payload: []byte(layers)}
	if err := w.SetCheckSum(key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
		t.Fatal(err)
	}
	b, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExchange(t *testing.T) {
	m, request := begin(t)
	answer, done, err := m.Step(offer(t, "\x01\x00\x00\x00", request.Ticket.DecryptedEncPart.Key))
	if err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	var choice gssapi.WrapToken
	if err := choice.Unmarshal(answer, false); err != nil {
		t.Fatal(err)
	}
	ok, err := choice.Verify(m.key, keyusage.GSSAPI_INITIATOR_SEAL)
	if err != nil || !ok || string(choice.Payload) != "\x01\x00\x00\x00" || choice.SndSeqNum != uint64(request.Authenticator.SeqNumber) {
		t.Errorf("the choice is %+v, %v", choice, err)
	}
}

// TestBadServers can't read the ticket, or want a layer that there is not.
func TestBadServers(t *testing.T) {
	for name, tc := range map[string]struct {
		token func(key types.EncryptionKey) []byte
		want  string
	}{
		"another key": {func(key types.EncryptionKey) []byte {
			return offer(t, "\x01\x00\x00\x00", types.EncryptionKey{KeyType: etype, KeyValue: make([]byte, len(key.KeyValue))})
		}, "did not prove"},
		"integrity only": {func(key types.EncryptionKey) []byte { return offer(t, "\x02\x00\xff\xff", key) }, "security layer"},
		"nothing":        {func(key types.EncryptionKey) []byte { return offer(t, "", key) }, "security layer"},
		"an empty token": {func(types.EncryptionKey) []byte { return nil }, "as one with Kerberos"},
		"DIGEST-MD5":     {func(types.EncryptionKey) []byte { return []byte(`realm="zk-sasl-md5",nonce="n",charset=utf-8`) }, "as one with Kerberos"},
		"cut":            {func(key types.EncryptionKey) []byte { return offer(t, "\x01\x00\x00\x00", key)[:20] }, ""},
	} {
		m, _ := begin(t)
		if _, done, err := m.Step(tc.token(m.key)); err == nil || done || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v, want %q", name, done, err, tc.want)
		}
	}
}

// TestNoTicket has what is missing or damaged at the client.
func TestNoTicket(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	conf, bad, none := write("krb5.conf", "[libdefaults]\n default_realm = "+realm+"\n dns_lookup_kdc = false\n"), write("bad", "\x05\x04\x00"), filepath.Join(dir, "none")
	keys := keytab.New()
	if err := keys.AddEntry("bob", realm, "secret", time.Now(), 1, etype); err != nil {
		t.Fatal(err)
	}
	text, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	good := write("keytab", string(text))
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"no configuration":           {Options{Config: none, Keytab: good, Principal: "bob"}, "the Kerberos configuration " + none},
		"no keytab":                  {Options{Config: conf, Keytab: none, Principal: "bob"}, "the keytab " + none},
		"a damaged keytab":           {Options{Config: conf, Keytab: bad, Principal: "bob"}, "keytab"},
		"no principal":               {Options{Config: conf, Keytab: good}, "needs a principal"},
		"no tickets":                 {Options{Config: conf, Cache: none}, "no tickets in " + none},
		"damaged tickets":            {Options{Config: conf, Cache: bad}, ""},
		"tickets elsewhere":          {Options{Config: conf, Cache: "KEYRING:persistent:0"}, "only those in files"},
		"no key distribution center": {Options{Config: conf, Keytab: good, Principal: "bob@" + realm, Service: "zk/x"}, "no Kerberos ticket for zk/x: "},
	} {
		_, err := New(tc.o)("zk1")
		if e, ok := errors.AsType[*TicketError](err); !ok || !strings.Contains(err.Error(), tc.want) || strings.Contains(tc.want, e.Service) != (tc.o.Service != "") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
