// Package secure adds TLS to the connections of a client:
//
//	files, err := secure.Files{CA: "ca.pem", Cert: "app.pem"}.Load() // read again when they change
//	c, err := client.Connect(ctx, servers, client.Options{Secure: secure.For(files)})
//
// It is apart from package client so that a program without TLS is smaller by what crypto/tls
// has. Its functions start no goroutine, and several goroutines may call them.
package secure
