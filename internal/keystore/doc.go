// Package keystore reads the files that TLS is configured with: private keys with their
// certificates, and the certificates of trusted authorities, from PEM, JKS (Java's own
// format) and PKCS #12 files. Errors name the file and the remedy.
//
// A format is recognized by its contents, not by the name of the file: Java's keytool
// writes PKCS #12 into files that are called .jks.
//
// A [Source] holds the contents of a set of files. It reads them again when they change,
// and keeps the previous contents if the new ones can't be used.
//
// The decoders take no more memory than a few times the size of the file, which is
// limited, whatever is in it.
package keystore
