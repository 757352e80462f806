//go:build compat

package compat

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestFullDisk has the clients of others come to a server whose disk is full. They are told,
// and can make room: zkCli.sh and so the Java client, and kazoo.
func TestFullDisk(t *testing.T) {
	needZkCli(t)
	needKazoo(t)
	fill := func(t *testing.T) *server {
		z := zktest.Start(t)
		c := z.Client(t)
		for path, data := range map[string]string{"/a": "x", "/c": "z", "/d": ""} {
			if _, err := c.Create(t.Context(), path, []byte(data), client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Create(t.Context(), "/a/b", nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		z.FillDisk(true)
		return &server{kind: zkd, addr: z.Addr()}
	}
	t.Run("zkCli.sh", func(t *testing.T) {
		s := fill(t)
		out, errOut, status := runCli(t, s, []byte("create /j x\nset /c x\nget /c\ndelete /c\ndeleteall /a\nls /\nquit\n"))
		if said := out + errOut; status != 0 || strings.Count(said, "Not a read-only call: /") != 2 || !strings.Contains(out, "\nz\n") || !strings.Contains(out, "\n[d, zookeeper]\n") {
			t.Errorf("exit %d\n%s%s", status, out, errOut)
		}
	})
	t.Run("kazoo", func(t *testing.T) { runProgram(t, python, "python/zkd_full_disk.py", fill(t).addr) })
}
