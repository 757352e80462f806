package show

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
)

// TestStrangeNamespaces: clients choose the names of nodes. A long one is left out, and one that a terminal may not show is escaped.
func TestStrangeNamespaces(t *testing.T) {
	limit := strings.Repeat("x", monitor.MaxNamespaceName)
	got := ByNamespace([]datatree.Quota{{Path: "/" + limit + "x/a"}, {Path: "/" + limit}, {Path: "/a\u2028b\u202ec"}})
	if len(got) != 2 || got[0].Name != "a\u2028b\u202ec" || got[1].Name != limit {
		t.Errorf("namespaces %v", got)
	}
	var metrics monitor.Metrics
	metrics.QuotaErrors.CountOne("/a\u2028b\u202ec")
	var c monitor.NamespaceCount
	c.Add(&metrics.ReadPerNamespace, "/a\u2028b\u202ec", 1)
	c.Flush()
	v := (&fake{view: View{Metrics: &metrics}}).View()
	v.Lists.Quotas = func() []NamespaceQuotas { return got }
	found := 0
	for _, m := range v.Words() {
		if strings.ContainsAny(m.Name, "\u2028\u202e") {
			t.Errorf("mntr has %q", m.Name)
		}
		if strings.Contains(m.Name, `a\u2028b\u202ec_`) {
			found++
		}
	}
	if want := len(quotaNumbers) + 1 + 5; found != want {
		t.Errorf("%d figures of the namespace, want %d", found, want)
	}
}
