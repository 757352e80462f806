package config

import (
	"strings"
	"time"
)

// Audit configures the audit log.
type Audit struct {
	// Enable writes an entry for each write, and for what is refused. Default false.
	Enable bool
	// File is the audit log; "", the default, means the server's own log.
	File string
	// Format is "text", which is Apache's, or "json". Default text.
	Format string
	// Reads says of which reads there are entries: "none", those "refused" for want of a
	// permission, or "all". Default none.
	Reads string
	// MaxFileBytes is the size from which a new file begins. Default 10 MiB.
	MaxFileBytes int64
	// FilePeriod is the time after which a new file begins; 0, the default, means never.
	FilePeriod time.Duration
	// MaxFiles is the number of older files that are kept; 0 means all. Default 10.
	MaxFiles int
}

func auditKeys(c *Config) []Key {
	a := &c.Audit
	return []Key{
		{Name: "audit.enable", Default: "false", Live: true, value: truth(&a.Enable), Protects: true,
			Doc: "Write the [audit log](monitor.md#audit-log)."},
		{Name: "zkd.audit.file", value: path(&a.File), Protects: true,
			Doc: "File of the audit log. Default: the server's own log, under the name `audit`."},
		{Name: "zkd.audit.format", Default: "text", value: oneOf(&a.Format, "text", "json"),
			Doc: "Format of the entries: Apache's, or JSON objects with more fields."},
		{Name: "zkd.audit.reads", Default: "none", Live: true, value: oneOf(&a.Reads, "none", "refused", "all"), Protects: true,
			Doc: "Reads that have entries too: those that an ACL refused, or all."},
		{Name: "zkd.audit.maxFileSizeKb", Default: "10240", value: kib(&a.MaxFileBytes, 1, 1<<30),
			Doc: "Size at which a new file begins; the old one is renamed."},
		{Name: "zkd.audit.filePeriod", Default: "0", value: span(&a.FilePeriod, "hours", time.Hour, 0, 24*366),
			Doc: "Time after which a new file begins, such as 24 for one a day (UTC); 0 turns this off."},
		{Name: "zkd.audit.maxFiles", Default: "10", value: count(&a.MaxFiles, "files", 0, maxInt),
			Doc: "Older files that are kept; 0 keeps all."},
		{Name: "zkd.authFailuresPerSecond", Default: "2", Live: true, value: count(&c.AuthFailuresPerSecond, "attempts", 0, 1000), Protects: true,
			Doc: "How often clients of one IP address may fail to authenticate; ten seconds' worth at once. More attempts are [delayed](security.md#guesses). 0 is no limit."},
		{Name: "audit.impl.class", Status: Ignored,
			Doc:      "zkd loads no classes: its audit log goes to zkd.audit.file, or to the server's log",
			harmless: []string{"org.apache.zookeeper.audit.Slf4jAuditLogger"}},
	}
}

// resolveAudit warns of settings of an audit log that is off.
func (l *loader) resolveAudit() {
	if l.c.Audit.Enable {
		return
	}
	for _, k := range auditKeys(l.c) {
		if p, given := l.set[k.Name]; given && k.Status == Honoured && strings.HasPrefix(k.Name, "zkd.audit.") {
			l.warn(p, "has no effect without audit.enable=true")
		}
	}
}
