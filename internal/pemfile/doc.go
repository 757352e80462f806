// Package pemfile reads the files that TLS is configured with: certificates, authorities, and
// private keys, which may be encrypted. Errors name the file and the remedy. The package
// keeps no state: its callers read files again when they change.
package pemfile
