#!/bin/sh
# Installs what the compatibility suites need, on Debian and its relatives.
# Does nothing, and says so, where that is not possible. Arguments are more packages.
set -eu

packages="$* python3-pure-sasl zookeeper zookeeper-bin libzookeeper-java libzookeeper-mt-dev libcurator-recipes-java libguava-java
libslf4j-java python3-kazoo python3-pytest python3-objgraph gcc libc6-dev libssl-dev default-jdk-headless maven npm
krb5-kdc krb5-admin-server krb5-user python3-kerberos
patroni postgresql-15 python3-tooz python3-taskflow python3-testscenarios python3-oslotest python3-zake"

missing=""
for p in $packages; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q "ok installed" || missing="$missing $p"
done
# has PROGRAM PACKAGE: the program will do, wherever it is from.
has() { command -v "$1" >/dev/null 2>&1 && missing=$(echo "$missing" | sed "s/ $2\\>//"); true; }
has javac default-jdk-headless
has gcc gcc
has mvn maven
has npm npm
if [ -z "$missing" ]; then
	echo "compat: all packages are installed"
	exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
	echo "compat: no apt-get here; needed are the Debian packages:$missing" >&2
	exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
	if ! sudo -n true 2>/dev/null; then
		echo "compat: may not install packages here; run as root: apt-get install -y$missing" >&2
		exit 1
	fi
	sudo="sudo -n"
fi
echo "compat: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words
$sudo apt-get install -y --no-install-recommends $missing ||
	{ $sudo apt-get update && $sudo apt-get install -y --no-install-recommends $missing; }
