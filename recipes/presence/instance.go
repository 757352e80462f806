package presence

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ServiceType says what happens to an instance when its program ends.
type ServiceType string

const (
	Dynamic           ServiceType = "DYNAMIC"            // it ends, too
	DynamicSequential ServiceType = "DYNAMIC_SEQUENTIAL" // it ends, too; its node has a number
	Static            ServiceType = "STATIC"             // it stays
	Permanent         ServiceType = "PERMANENT"          // it stays
)

// Instance is an instance of a service.
type Instance struct {
	// Name is the name of the service, without /.
	Name string
	// ID is unique among the instances of the service. Register makes one if it is empty.
	ID string
	// Address is a host name or an IP address.
	Address string
	// Port and SSLPort are 0 if there is none.
	Port, SSLPort int
	// Payload is more about the instance, as JSON. Nil is null.
	Payload json.RawMessage
	// Registered is when the instance was registered, to the millisecond. Register
	// fills it in if it is zero.
	Registered time.Time
	// Type is Dynamic for all instances that Register makes.
	Type ServiceType
	// URISpec is a pattern of the instance's URI, such as "{scheme}://{address}:{port}/": see
	// URI. Empty means none.
	URISpec string
	// Disabled instances are found, but not picked.
	Disabled bool
}

// wire is an Instance as Curator writes it.
type wire struct {
	Name                string          `json:"name"`
	ID                  string          `json:"id"`
	Address             *string         `json:"address"`
	Port                *int            `json:"port"`
	SSLPort             *int            `json:"sslPort"`
	Payload             json.RawMessage `json:"payload"`
	RegistrationTimeUTC int64           `json:"registrationTimeUTC"`
	ServiceType         ServiceType     `json:"serviceType"`
	URISpec             *uriSpec        `json:"uriSpec"`
	Enabled             *bool           `json:"enabled,omitempty"`
}

type uriSpec struct {
	Parts []uriPart `json:"parts"`
}

type uriPart struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

// orNull returns nil for a zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// orZero returns the zero value for nil.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// MarshalJSON returns the instance as Curator writes it.
func (i Instance) MarshalJSON() ([]byte, error) {
	w := wire{
		Name: i.Name, ID: i.ID, Address: orNull(i.Address), Port: orNull(i.Port), SSLPort: orNull(i.SSLPort),
		Payload: i.Payload, ServiceType: i.Type,
	}
	if !i.Registered.IsZero() {
		w.RegistrationTimeUTC = i.Registered.UnixMilli()
	}
	if i.Disabled {
		w.Enabled = new(bool)
	}
	if i.URISpec != "" {
		parts, err := parseURISpec(i.URISpec)
		if err != nil {
			return nil, err
		}
		w.URISpec = &uriSpec{parts}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what Curator or MarshalJSON has written.
func (i *Instance) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if w.Name == "" || w.ID == "" {
		return errors.New("an instance has a name and an id")
	}
	*i = Instance{
		Name: w.Name, ID: w.ID, Address: orZero(w.Address), Port: orZero(w.Port), SSLPort: orZero(w.SSLPort),
		Payload: w.Payload, Type: w.ServiceType, Disabled: w.Enabled != nil && !*w.Enabled,
	}
	if string(i.Payload) == "null" {
		i.Payload = nil
	}
	if w.RegistrationTimeUTC != 0 {
		i.Registered = time.UnixMilli(w.RegistrationTimeUTC).UTC()
	}
	if w.URISpec != nil {
		for _, p := range w.URISpec.Parts {
			if p.Variable {
				p.Value = "{" + p.Value + "}"
			}
			i.URISpec += p.Value
		}
	}
	return nil
}

// parseURISpec splits text with {variables} into parts.
func parseURISpec(spec string) ([]uriPart, error) {
	parts := []uriPart{}
	for rest := spec; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		switch {
		case i < 0:
			return append(parts, uriPart{Value: rest}), nil
		case i > 0:
			parts = append(parts, uriPart{Value: rest[:i]})
		}
		name, after, closed := strings.Cut(rest[i+1:], "}")
		if rest[i] == '}' || !closed || strings.Contains(name, "{") {
			return nil, fmt.Errorf("URISpec %q: braces don't match; a brace itself is {[} or {]}", spec)
		}
		parts = append(parts, uriPart{Value: strings.TrimSpace(name), Variable: true})
		rest = after
	}
	return parts, nil
}

// URI returns URISpec with the variables in braces replaced: scheme ("https" if there
// is an SSLPort, else "http"), name, id, address, port, ssl-port,
// registration-time-utc, service-type, and [ and ] for braces. Unknown variables are left
// out. It is empty if the spec is empty or malformed.
func (i Instance) URI() string {
	parts, err := parseURISpec(i.URISpec)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Variable {
			p.Value = i.variable(p.Value)
		}
		b.WriteString(p.Value)
	}
	return b.String()
}

func (i Instance) variable(name string) string {
	switch name {
	case "scheme":
		if i.SSLPort != 0 {
			return "https"
		}
		return "http"
	case "name":
		return i.Name
	case "id":
		return i.ID
	case "address":
		return i.Address
	case "port":
		return number(i.Port)
	case "ssl-port":
		return number(i.SSLPort)
	case "registration-time-utc":
		return strconv.FormatInt(i.Registered.UnixMilli(), 10)
	case "service-type":
		return strings.ToLower(string(i.Type))
	case "[":
		return "{"
	case "]":
		return "}"
	}
	return ""
}

// number returns n in digits, or nothing for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
