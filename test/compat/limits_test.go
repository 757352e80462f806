//go:build compat

package compat

import (
	"path/filepath"
	"testing"
)

// limitRules are what the programs exceed. A byte in a second is so little that the second
// request is refused, however slow the machine is.
var limitRules = []string{
	"zkd.limit.counts=identity * watches=2 ephemerals=1",
	"zkd.limit.slow=subtree /slow bytes/s=1",
}

// TestLimitsKazoo checks that kazoo survives refusals.
func TestLimitsKazoo(t *testing.T) {
	needKazoo(t)
	runProgram(t, python, filepath.Join("python", "zkd_limits.py"), start(t, zkd, config{lines: limitRules}).addr)
}

// TestLimitsJava checks the same of Apache's Java client, which knows both kinds of codes.
func TestLimitsJava(t *testing.T) {
	needJavac(t)
	run := compileJava(t, "limits", "LimitsProgram", "zookeeper", "zookeeper-jute", "slf4j-simple")
	for _, codes := range []struct{ setting, counts, rates string }{
		{"common", "NOAUTH", "OPERATIONTIMEOUT"},
		{"exact", "QUOTAEXCEEDED", "THROTTLEDOP"},
	} {
		t.Run(codes.setting, func(t *testing.T) {
			lines := append([]string{"zkd.limitCodes=" + codes.setting}, limitRules...)
			run(t, start(t, zkd, config{lines: lines}).addr, codes.counts, codes.rates)
		})
	}
}
