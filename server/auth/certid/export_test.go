package certid

// NameString and ValidName are for tests.
var (
	NameString = nameString
	ValidName  = validName
)
