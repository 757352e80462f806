package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/secret"
)

// TestSecretsAreMasked loads a configuration with a secret in each key that has one, and
// looks for it wherever a configuration is shown.
func TestSecretsAreMasked(t *testing.T) {
	const hunter = "super:hunter2hunter2"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(hunter+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "dataDir=/d\nclientPort=2181\nzkd.quorumSecretFile=" + file + "\n"
	hidden := 0
	for _, k := range Keys() {
		if k.value.secret {
			hidden++
			text += k.Name + "=" + hunter + "\n"
		}
	}
	if hidden == 0 {
		t.Fatal("no key is a secret")
	}
	c, warnings, err := Parse(strings.NewReader(text), "zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	if c.SuperDigest.Reveal() != hunter || c.QuorumSecret.Reveal() != hunter {
		t.Errorf("secrets are lost: %q, %q", c.SuperDigest.Reveal(), c.QuorumSecret.Reveal())
	}
	var described bytes.Buffer
	if err := c.Describe(&described, true); err != nil {
		t.Fatal(err)
	}
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string]string{
		"Describe": described.String(), "JSON": string(marshalled), "warnings": fmt.Sprint(warnings),
		"%v": fmt.Sprintf("%v", *c), "%+v": fmt.Sprintf("%+v", *c), "%#v": fmt.Sprintf("%#v", *c),
	} {
		if strings.Contains(shown, "hunter") {
			t.Errorf("%s shows a secret:\n%s", name, shown)
		}
	}
	if want := "superDigest=" + secret.Mask; !strings.Contains(described.String(), want) {
		t.Errorf("Describe does not show %s:\n%s", want, &described)
	}
}
