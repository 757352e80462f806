package command

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/cmd/internal/login"
	"github.com/zkd-project/zkd/cmd/zkcli/servers"
)

// envKeyPassword is the environment variable for the password of a key. As a flag it would be
// visible in lists of processes.
const envKeyPassword = "ZKCLI_TLS_KEY_PASSWORD"

// security has the settings for a secure connection.
type security struct {
	tls           bool
	ca, cert, key string
	keyPassword   string // from the environment
	login         login.Login
	clientConfig  string
	maxBuffer     int
}

func (s *security) flags(root *cobra.Command) {
	p := root.PersistentFlags()
	p.BoolVar(&s.tls, "tls", s.tls, "connect with TLS; implied by the flags below")
	p.StringVar(&s.ca, "tls-ca", "", "PEM file with the authorities that the servers' certificates are checked by")
	p.StringVar(&s.cert, "tls-cert", "", "PEM file with the client's certificate")
	p.StringVar(&s.key, "tls-key", "", "PEM file with the certificate's key (if it is encrypted, the password is in $"+envKeyPassword+")")
	s.login.Flags(p)
	p.IntVar(&s.maxBuffer, "max-buffer", 0, "the largest request and reply in `bytes`, if the servers' jute.maxbuffer is not 1 MiB")
	p.StringVar(&s.clientConfig, "client-configuration", "", "file with zkCli.sh's properties, of which TLS's are taken")
	for _, name := range append(login.FileFlags(), "tls-ca", "tls-cert", "tls-key", "client-configuration") {
		_ = p.SetAnnotation(name, kindAnnotation, []string{kindNames[File]}) // the flag is there
	}
	// It fails only for a flag that has not been defined.
	_ = root.RegisterFlagCompletionFunc("sasl", cobra.FixedCompletions(login.Mechanisms(), cobra.ShellCompDirectiveNoFileComp))
}

// apply sets the client's options. ask asks the user for a text that is not shown.
func (s *security) apply(o *client.Options, ask func(question string) (string, error)) (err error) {
	configs, err := s.tlsFor()
	if err != nil {
		return err
	}
	if configs != nil {
		o.Secure = secure.For(configs)
	}
	if s.maxBuffer > 0 {
		o.MaxRequest, o.MaxReply = s.maxBuffer, s.maxBuffer
	}
	o.SASL, err = s.login.Mechanism(configs != nil, ask)
	if wrong, ok := errors.AsType[*login.UsageError](err); ok {
		return &UsageError{Text: wrong.Error()}
	}
	return err
}

// tlsFor returns the configuration of TLS for a server, nil for none.
func (s *security) tlsFor() (func(server string) (*tls.Config, error), error) {
	if s.clientConfig != "" {
		if err := s.readProperties(); err != nil {
			return nil, err
		}
	}
	if !s.tls && s.ca == "" && s.cert == "" && s.key == "" {
		return nil, nil
	}
	config, err := secure.Files{CA: s.ca, Cert: s.cert, Key: s.key, Password: s.keyPassword, Logger: client.NoLog}.Load()
	if err != nil {
		return nil, &UsageError{Text: flagNames.Replace(err.Error())}
	}
	return config, nil
}

// flagNames puts flags in the place of the options of package client, in its errors.
var flagNames = strings.NewReplacer(
	"secure.Files.CA or tls.Config.RootCAs", "the file of --tls-ca",
	"secure.Files.Cert", "--tls-cert",
	"secure.Files.Key", "--tls-key",
	"secure.Files.Password", "$"+envKeyPassword,
	"Options.MaxRequest", "--max-buffer",
	"Options.MaxReply", "--max-buffer",
)

// asker returns what asks servers by four-letter words.
func (s *security) asker() (servers.Asker, error) {
	config, err := s.tlsFor()
	return servers.Asker{TLS: config}, err
}

// readProperties reads the known settings of a file of Java properties.
func (s *security) readProperties() error {
	f, err := os.Open(s.clientConfig)
	if err != nil {
		return fmt.Errorf("read the client's configuration: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff")) // a byte order mark begins the file
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if err := s.property(strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("%s: %w", s.clientConfig, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the client's configuration: %s: %w", s.clientConfig, err)
	}
	return nil
}

// property sets what the flags have not set.
func (s *security) property(key, value string) error {
	file := func(to *string) error {
		if !strings.HasSuffix(strings.ToLower(value), ".pem") {
			return &UsageError{Text: fmt.Sprintf("%s=%s is a Java key store: zkcli reads PEM files (convert it with keytool and openssl pkcs12)", key, value)}
		}
		if *to == "" {
			*to = value
		}
		return nil
	}
	switch key {
	case "zookeeper.client.secure":
		s.tls = s.tls || strings.EqualFold(value, "true")
	case "zookeeper.ssl.keyStore.location":
		return file(&s.cert)
	case "zookeeper.ssl.keyStore.password":
		if s.keyPassword == "" {
			s.keyPassword = value
		}
	case "zookeeper.ssl.trustStore.location":
		return file(&s.ca)
	case "jute.maxbuffer":
		n, err := strconv.ParseInt(value, 0, 32)
		if err != nil || n <= 0 {
			return &UsageError{Text: fmt.Sprintf("jute.maxbuffer=%s is no number of bytes", value)}
		}
		if s.maxBuffer == 0 {
			s.maxBuffer = int(n)
		}
	}
	return nil
}
