package trial

import "regexp"

var (
	guid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	number = regexp.MustCompile(`[0-9]{10}`)
)

// readable replaces what is different in each run.
func readable(path string) string {
	return number.ReplaceAllString(guid.ReplaceAllString(path, "GUID"), "#")
}
