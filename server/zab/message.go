package zab

// MessageKind is the kind of a message between cores.
type MessageKind uint8

// Message is what one core says to another. Which fields count depends on the
// kind.
type Message struct {
	Kind MessageKind
}

// Append appends the message's encoding to b.
func (m *Message) Append(b []byte) []byte { return append(b, byte(m.Kind)) }

// Decode sets m from all of b. The entries' data aliases b.
func (m *Message) Decode(b []byte) error { return nil }
