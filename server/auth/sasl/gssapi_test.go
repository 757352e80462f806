package sasl

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

const service = "zookeeper/zk1.example.com"

// makeKeytab returns a keytab with a key made of a password.
func makeKeytab(t testing.TB, principal, realm, password string, etype int32) *keytab.Keytab {
	t.Helper()
	kt := keytab.New()
	if err := kt.AddEntry(principal, realm, password, time.Unix(1e9, 0), 1, etype); err != nil {
		t.Fatal(err)
	}
	return kt
}

// withKeytab returns a service with the keytab that a file has at first.
func withKeytab(text []byte, principal string) (*Kerberos, error) {
	k, err := OpenKerberos("keytab", principal, func(string) ([]byte, error) { return text, nil })
	k.checked = time.Now().Add(time.Hour)
	return k, err
}

func newKerberos(t testing.TB, etype int32) *Kerberos {
	t.Helper()
	text, err := makeKeytab(t, service, "EXAMPLE.COM", "service's", etype).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	k, err := withKeytab(text, service+"@EXAMPLE.COM")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// gssClient is a client of GSSAPI with a ticket that it made itself: it knows the
// service's password.
type gssClient struct {
	etype                    int32
	client, clientRealm      string
	service, realm, password string
	mutual                   bool
	subkey                   int32         // type; 0 is none
	start, end               time.Duration // from now
	skew                     time.Duration
	otherName, otherRealm    string // in the authenticator
	checksumType             int32
	key                      types.EncryptionKey
	authenticator            types.Authenticator
}

func newGSSClient(edit func(*gssClient)) *gssClient {
	c := &gssClient{
		etype: etypeID.AES256_CTS_HMAC_SHA1_96, client: "bob", clientRealm: "EXAMPLE.COM", service: service, realm: "EXAMPLE.COM",
		password: "service's", end: time.Hour, checksumType: 0x8003,
	}
	if edit != nil {
		edit(c)
	}
	return c
}

func nameOf(s string) types.PrincipalName {
	return types.PrincipalName{NameType: 1, NameString: strings.Split(s, "/")}
}

// first is the token with the AP-REQ.
func (c *gssClient) first(t testing.TB) []byte {
	t.Helper()
	now := time.Now().UTC()
	keys := makeKeytab(t, c.service, c.realm, c.password, c.etype)
	ticket, session, err := messages.NewTicket(nameOf(c.client), c.clientRealm, nameOf(c.service), c.realm, types.NewKrbFlags(),
		keys, c.etype, 1, now, now.Add(c.start), now.Add(c.end), now.Add(c.end))
	if err != nil {
		t.Fatal(err)
	}
	name, realm := c.client, c.clientRealm
	if c.otherName != "" {
		name = c.otherName
	}
	if c.otherRealm != "" {
		realm = c.otherRealm
	}
	if c.authenticator, err = types.NewAuthenticator(realm, nameOf(name)); err != nil {
		t.Fatal(err)
	}
	c.authenticator.CTime = c.authenticator.CTime.Add(c.skew)
	sum := make([]byte, 24)
	binary.LittleEndian.PutUint32(sum, 16)
	c.authenticator.Cksum = types.Checksum{CksumType: c.checksumType, Checksum: sum}
	c.key = session
	if c.subkey != 0 {
		size := map[int32]int{etypeID.AES256_CTS_HMAC_SHA1_96: 32, etypeID.AES256_CTS_HMAC_SHA384_192: 32}[c.subkey]
		c.authenticator.SubKey = types.EncryptionKey{KeyType: c.subkey, KeyValue: bytes.Repeat([]byte{7}, max(16, size))}
		c.key = c.authenticator.SubKey
	}
	request, err := messages.NewAPReq(ticket, session, c.authenticator)
	if err != nil {
		t.Fatal(err)
	}
	if c.mutual {
		types.SetFlag(&request.APOptions, flags.APOptionMutualRequired)
	}
	b, err := request.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return gssToken(apReqID, b)
}

// checkProof checks the server's AP-REP.
func (c *gssClient) checkProof(session types.EncryptionKey, token []byte) error {
	b, err := gssMessage(token, apRepID)
	if err != nil {
		return err
	}
	var reply messages.APRep
	if err := reply.Unmarshal(b); err != nil {
		return err
	}
	plain, err := crypto.DecryptEncPart(reply.EncPart, session, keyusage.AP_REP_ENCPART)
	if err != nil {
		return err
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return err
	}
	if part.Cusec != c.authenticator.Cusec || part.CTime.Unix() != c.authenticator.CTime.Unix() || part.SequenceNumber != c.authenticator.SeqNumber {
		return fmt.Errorf("the proof is of %+v, want %+v", part, c.authenticator)
	}
	return nil
}

// layer is the last token, with the client's choice of a layer.
func (c *gssClient) layer(t testing.TB, choice string, edit func([]byte)) []byte {
	t.Helper()
	et, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		t.Fatal(err)
	}
	header := []byte{5, 4, 0, 0xff, 0, 0, 0, 0}
	header = binary.BigEndian.AppendUint64(header, uint64(c.authenticator.SeqNumber))
	sum, err := et.GetChecksumHash(c.key.KeyValue, append([]byte(choice), header...), keyusage.GSSAPI_INITIATOR_SEAL)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(header[4:], uint16(len(sum)))
	token := append(append(header, choice...), sum...)
	if edit != nil {
		edit(token)
	}
	return token
}

// checkOffer checks the server's offer of layers.
func (c *gssClient) checkOffer(token []byte) error {
	et, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return err
	}
	header := bytes.Clone(token[:16])
	n := int(binary.BigEndian.Uint16(header[4:]))
	clear(header[4:8])
	plain, sum := token[16:len(token)-n], token[len(token)-n:]
	if !et.VerifyChecksum(c.key.KeyValue, append(bytes.Clone(plain), header...), sum, keyusage.GSSAPI_ACCEPTOR_SEAL) {
		return fmt.Errorf("the checksum of the offer % x is wrong", token)
	}
	if !bytes.Equal(plain, []byte{1, 0, 0, 0}) || token[2] != 1 {
		return fmt.Errorf("the offer is % x", token)
	}
	return nil
}

func TestGSSAPI(t *testing.T) {
	const aes128, aes256 = etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96
	const aes128sha2, aes256sha2 = etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192
	for _, etype := range []int32{aes128, aes256, aes128sha2} { // the library can't make tickets of aes256sha2
		for _, mutual := range []bool{false, true} {
			for _, subkey := range []int32{0, aes128, aes256sha2} {
				t.Run(fmt.Sprintf("etype=%d,mutual=%v,subkey=%d", etype, mutual, subkey), func(t *testing.T) {
					s := NewServer(Config{Kerberos: newKerberos(t, etype), Names: Names{DefaultRealm: "EXAMPLE.COM", RemoveRealm: true}})
					c := newGSSClient(func(c *gssClient) { c.etype, c.mutual, c.subkey = etype, mutual, subkey })
					e := s.Begin(false)
					reply, _, err := e.Step(c.first(t))
					if err == nil && mutual {
						if err := c.checkProof(e.mechanism.(*gssapi).ticket.request.Ticket.DecryptedEncPart.Key, reply); err != nil {
							t.Fatal(err)
						}
						reply, _, err = e.Step(nil)
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := c.checkOffer(reply); err != nil {
						t.Fatal(err)
					}
					reply, proof, err := e.Step(c.layer(t, "\x01\x00\x00\x00", nil))
					if err != nil || reply != nil || len(proof.IDs) != 1 || proof.IDs[0].ID != "bob" {
						t.Errorf("%x, %v, %v", reply, proof, err)
					}
				})
			}
		}
	}
}

// TestGSSAPIRefused is about tickets and authenticators that do not do.
func TestGSSAPIRefused(t *testing.T) {
	k := newKerberos(t, etypeID.AES256_CTS_HMAC_SHA1_96)
	s := NewServer(Config{Kerberos: k})
	for name, c := range map[string]struct {
		edit func(*gssClient)
		want string
	}{
		"another key of the service":  {func(c *gssClient) { c.password = "other" }, "decrypt"},
		"a ticket for another host":   {func(c *gssClient) { c.service = "zookeeper/zk2.example.com" }, "a ticket for"},
		"for another service":         {func(c *gssClient) { c.service = "hbase/zk1.example.com" }, "a ticket for"},
		"of another realm":            {func(c *gssClient) { c.realm = "EVIL.COM" }, "a ticket for"},
		"a key that is not there":     {func(c *gssClient) { c.etype = etypeID.AES128_CTS_HMAC_SHA1_96 }, "matching key not found"},
		"RC4":                         {func(c *gssClient) { c.etype = etypeID.RC4_HMAC }, "matching key not found"},
		"a subkey of RC4":             {func(c *gssClient) { c.subkey = etypeID.RC4_HMAC }, "not of AES"},
		"expired":                     {func(c *gssClient) { c.start, c.end = -2*time.Hour, -time.Hour }, "expired"},
		"not valid yet":               {func(c *gssClient) { c.start, c.end = time.Hour, 2*time.Hour }, "not yet valid"},
		"a clock that is ahead":       {func(c *gssClient) { c.skew = 6 * time.Minute }, "skew"},
		"a clock that is behind":      {func(c *gssClient) { c.skew = -6 * time.Minute }, "skew"},
		"another client":              {func(c *gssClient) { c.otherName = "admin" }, "CName"},
		"another realm of the client": {func(c *gssClient) { c.otherRealm = "EVIL.COM" }, "its realm is not that of the ticket"},
		"not for GSS-API":             {func(c *gssClient) { c.checksumType = 16 }, "not one for GSS-API"},
		"an at sign in the name":      {func(c *gssClient) { c.client = "admin@EXAMPLE.COM" }, "can't be written"},
		"an empty part of the name":   {func(c *gssClient) { c.client = "admin/" }, "can't be written"},
		"a name of three parts":       {func(c *gssClient) { c.client = "a/b/c" }, "is not a principal"},
	} {
		t.Run(name, func(t *testing.T) {
			client := newGSSClient(c.edit)
			e := s.Begin(false)
			reply, proof, err := e.Step(client.first(t))
			if err == nil { // the name is looked at in the end
				reply, proof, err = e.Step(client.layer(t, "\x01\x00\x00\x00", nil))
			}
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) || reply != nil || len(proof.IDs) > 0 {
				t.Errorf("%x, %v, %v; want an error with %q", reply, proof, err, c.want)
			}
			if _, _, err := e.Step(nil); err == nil {
				t.Error("the exchange continues")
			}
		})
	}
}

// TestGSSAPIForeign is about a client of another realm that the key distribution centers trust. The
// authorization id that it asks for has no effect.
func TestGSSAPIForeign(t *testing.T) {
	s := NewServer(Config{
		Kerberos: newKerberos(t, etypeID.AES256_CTS_HMAC_SHA1_96), SuperUsers: []string{"admin"},
		Names: Names{DefaultRealm: "EXAMPLE.COM", RemoveRealm: true, RemoveHost: true},
	})
	c := newGSSClient(func(c *gssClient) { c.client, c.clientRealm = "admin", "TRUSTED.COM" })
	e := s.Begin(false)
	if _, _, err := e.Step(c.first(t)); err != nil {
		t.Fatal(err)
	}
	_, proof, err := e.Step(c.layer(t, "\x01\x00\x00\x00admin", nil))
	if err != nil || len(proof.IDs) != 1 || proof.IDs[0].ID != "admin@TRUSTED.COM" {
		t.Errorf("%v, %v", proof, err)
	}
}

func TestGSSAPIReplay(t *testing.T) {
	s := NewServer(Config{Kerberos: newKerberos(t, etypeID.AES256_CTS_HMAC_SHA1_96)})
	token := newGSSClient(nil).first(t)
	if _, _, err := s.Begin(false).Step(token); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Begin(false).Step(token); err == nil || !strings.Contains(err.Error(), "used before") {
		t.Errorf("the token again: %v", err)
	}
}

func TestReplays(t *testing.T) {
	var r replays
	sum := func(n int) [sha256.Size]byte { return sha256.Sum256([]byte{byte(n)}) }
	begin := time.Unix(1e9, 0)
	for _, c := range []struct {
		at   time.Duration
		n    int
		want bool
	}{
		{0, 1, true}, {0, 1, false}, {0, 2, true}, {replayWindow - 1, 3, true}, {replayWindow, 1, false}, {replayWindow, 4, true},
		{2*replayWindow - 1, 3, false}, {2 * replayWindow, 4, false}, {2 * replayWindow, 1, true},
	} {
		if got := r.add(sum(c.n), begin.Add(c.at)); got != c.want {
			t.Errorf("%d at %v: new is %v", c.n, c.at, got)
		}
	}
	if len(r.recent)+len(r.older) > 2 {
		t.Errorf("%d and %d are remembered", len(r.recent), len(r.older))
	}
}

func TestGSSAPILayer(t *testing.T) {
	s := NewServer(Config{Kerberos: newKerberos(t, etypeID.AES256_CTS_HMAC_SHA1_96)})
	for name, c := range map[string]struct {
		choice string
		edit   func([]byte)
		good   bool
	}{
		"none":                {"\x01\x00\x00\x00", nil, true},
		"none, with an id":    {"\x01\x00\x00\x00bob", nil, true},
		"integrity":           {"\x02\x00\xff\xff", nil, false},
		"privacy":             {"\x04\x00\xff\xff", nil, false},
		"all":                 {"\x07\x00\xff\xff", nil, false},
		"too short":           {"\x01\x00\x00", nil, false},
		"nothing":             {"", nil, false},
		"from the server":     {"\x01\x00\x00\x00", func(b []byte) { b[2] = 1 }, false},
		"sealed":              {"\x01\x00\x00\x00", func(b []byte) { b[2] = 2 }, false},
		"another id":          {"\x01\x00\x00\x00", func(b []byte) { b[0] = 4 }, false},
		"another number":      {"\x01\x00\x00\x00", func(b []byte) { b[15]++ }, false},
		"changed":             {"\x02\x00\x00\x00", func(b []byte) { b[16] = 1 }, false},
		"no checksum":         {"\x01\x00\x00\x00", func(b []byte) { b[4], b[5] = 0, 0 }, false},
		"a long checksum":     {"\x01\x00\x00\x00", func(b []byte) { b[4], b[5] = 0xff, 0xff }, false},
		"rotated":             {"\x01\x00\x00\x00", func(b []byte) { b[7] = 12; copy(b[16:], append(bytes.Clone(b[20:]), b[16:20]...)) }, true},
		"rotated by too much": {"\x01\x00\x00\x00", func(b []byte) { b[6], b[7] = 0xff, 0xff }, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := newGSSClient(nil)
			e := s.Begin(false)
			if _, _, err := e.Step(client.first(t)); err != nil {
				t.Fatal(err)
			}
			_, proof, err := e.Step(client.layer(t, c.choice, c.edit))
			if good := err == nil && len(proof.IDs) == 1; good != c.good {
				t.Errorf("%v, %v", proof, err)
			}
		})
	}
}

// TestGSSAPITruncated cuts and changes the tokens.
func TestGSSAPITruncated(t *testing.T) {
	s := NewServer(Config{Kerberos: newKerberos(t, etypeID.AES256_CTS_HMAC_SHA1_96)})
	client := newGSSClient(func(c *gssClient) { c.mutual = true })
	token := client.first(t)
	for n := range token {
		if reply, _, err := s.Begin(false).Step(token[:n]); err == nil {
			t.Fatalf("%d of %d bytes are answered with %x", n, len(token), reply)
		}
		changed := bytes.Clone(token)
		changed[n] ^= 0x40
		if _, _, err := s.Begin(false).Step(changed); err == nil && n > 4 { // the length may be longer
			t.Errorf("the change of byte %d goes unnoticed", n)
		}
	}
	e := s.Begin(false)
	if _, _, err := e.Step(client.first(t)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Step([]byte("x")); err == nil {
		t.Error("a token instead of the empty one is taken")
	}
}

func TestKeytabs(t *testing.T) {
	whole, err := makeKeytab(t, service, "EXAMPLE.COM", "x", etypeID.AES256_CTS_HMAC_SHA1_96).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	rc4, err := makeKeytab(t, service, "EXAMPLE.COM", "x", etypeID.RC4_HMAC).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keytab          []byte
		principal, want string
	}{
		{whole, service + "@EXAMPLE.COM", ""},
		{whole, service, ""},
		{whole, service + "@EVIL.COM", "no AES key of"},
		{whole, "bob", "no AES key of"},
		{rc4, service, "no AES key of"},
		{nil, service, "no keytab"},
		{[]byte("Server { };"), service, "no keytab"},
	} {
		k, err := withKeytab(c.keytab, c.principal)
		switch {
		case c.want == "" && (err != nil || k.Realm() != "EXAMPLE.COM"):
			t.Errorf("%s: %v", c.principal, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "malformed")):
			t.Errorf("%s: error %v, want %q", c.principal, err, c.want)
		}
	}
	for n := range whole {
		if _, err := withKeytab(whole[:n], service); err == nil {
			t.Errorf("%d of %d bytes are a keytab", n, len(whole))
		}
	}
}

// TestKeytabChanges gives the service a new key, and then files that it can't use.
func TestKeytabChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keytab")
	write := func(of, realm, password string) {
		t.Helper()
		text, err := makeKeytab(t, of, realm, password, etypeID.AES256_CTS_HMAC_SHA1_96).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(service, "EXAMPLE.COM", "old")
	k, err := OpenKerberos(path, service, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	errs := 0
	k.OnError(func(error) { errs++ })
	expect := func(when, password string, wantErrs int) {
		t.Helper()
		k.seen, k.checked = nil, time.Time{} // as if time had passed
		for _, p := range []string{"old", "new"} {
			token := newGSSClient(func(c *gssClient) { c.password = p }).first(t)
			if _, _, err := NewServer(Config{Kerberos: k}).Begin(false).Step(token); (err == nil) != (p == password) {
				t.Errorf("%s, a ticket for the %s key: %v", when, p, err)
			}
		}
		if errs != wantErrs {
			t.Errorf("%s: %d errors, want %d", when, errs, wantErrs)
		}
	}
	expect("at first", "old", 0)
	write(service, "EXAMPLE.COM", "new")
	expect("with a new key", "new", 0)
	write(service, "EVIL.COM", "old")
	expect("with a key of another realm", "new", 1)
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("with half a file", "new", 2)
	os.Remove(path)
	expect("without the file", "new", 3)
}

func FuzzGSSAPI(f *testing.F) {
	k := newKerberos(f, etypeID.AES256_CTS_HMAC_SHA1_96)
	f.Add(newGSSClient(nil).first(f))
	f.Add(newGSSClient(func(c *gssClient) { c.mutual = true; c.subkey = 18 }).first(f))
	f.Add([]byte("\x60\x0b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00"))
	f.Fuzz(func(t *testing.T, token []byte) {
		s := NewServer(Config{Kerberos: k})
		e := s.Begin(false)
		if _, proof, _ := e.Step(token); len(proof.IDs) > 0 { // it must not panic
			t.Errorf("% x logs in", token)
		}
	})
}

func FuzzUnwrap(f *testing.F) {
	c := newGSSClient(nil)
	c.first(f)
	f.Add(c.layer(f, "\x01\x00\x00\x00", nil))
	f.Fuzz(func(t *testing.T, token []byte) {
		if plain, err := unwrap(token, types.EncryptionKey{KeyType: 18, KeyValue: make([]byte, 32)}); err == nil {
			t.Errorf("% x says %x", token, plain)
		}
	})
}

func FuzzKeytab(f *testing.F) {
	whole, err := makeKeytab(f, service, "EXAMPLE.COM", "x", etypeID.AES256_CTS_HMAC_SHA1_96).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(_ *testing.T, text []byte) {
		withKeytab(text, service) // it must not panic
	})
}
