// Package pemfile reads the files that TLS is configured with: certificates, the
// authorities that are believed, and private keys, which may be encrypted. Errors
// name the file, and say how to make it one that can be read. It keeps nothing: that
// files are renewed is its callers' affair.
package pemfile
