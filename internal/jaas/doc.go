// Package jaas reads the login configurations of Java (JAAS), in which ZooKeeper's servers
// and clients have their users, passwords and keytabs:
//
//	Server {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    user_bob="secret";
//	};
//
// It reads what Java's com.sun.security.auth.login.ConfigFile reads, except for the values
// of Java's system properties (${name}). Errors name the line, and show no value: it may be
// a secret.
package jaas
