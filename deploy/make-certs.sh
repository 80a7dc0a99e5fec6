#!/bin/sh
# Makes what `ingest` over TCP needs: a certificate authority, a certificate for daemons and one for clients; and one for
# the links between daemons. How they are used: README.md in this folder, "Ingest over TLS" and "Links between nodes".
set -eu

if [ $# -lt 2 ] || [ "$1" = --help ]; then
  cat <<HELP
Usage: make-certs.sh DIR HOST...

Makes in DIR (mode 0700):
  ca.pem                   the authority; both sides trust what it signed     ca.key      keep it off the nodes
  server.pem, server.key   for daemons on the given hosts (names or addresses)
  client.pem, client.key   for applications
  peer.pem, peer.key       for the links between daemons, which are servers and clients in one
An authority that is already in DIR is used again; the certificates are made anew. Valid for \$DAYS days (default 825).
HELP
  [ "${1:-}" = --help ] && exit 0
  exit 2
fi

dir=$1
shift
days=${DAYS:-825}
umask 077
mkdir -p "$dir"
work=$(mktemp -d "$dir/.make-certs.XXXXXX")
trap 'rm -rf "$work"' EXIT

new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

if [ ! -e "$dir/ca.pem" ]; then
  new_key "$dir/ca.key"
  openssl req -x509 -new -key "$dir/ca.key" -sha256 -days "$days" -subj "/CN=Cairn ingest authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$dir/ca.pem"
fi

# sign NAME COMMON_NAME EXTENSIONS: the new pair replaces the old one only when it is complete.
sign() {
  new_key "$work/$1.key"
  openssl req -new -key "$work/$1.key" -subj "/CN=$2" -out "$work/$1.csr"
  printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" "$3" > "$work/$1.ext"
  openssl x509 -req -in "$work/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -sha256 -days "$days" \
    -set_serial "0x$(openssl rand -hex 16)" -extfile "$work/$1.ext" -out "$work/$1.pem" 2>/dev/null
  mv "$work/$1.key" "$work/$1.pem" "$dir/"
}

names=
for host in "$@"; do
  case $host in
    *:*) kind=IP ;;
    *[!0-9.]*) kind=DNS ;;
    *) kind=IP ;;
  esac
  names="$names${names:+,}$kind:$host"
done
sign server "$1" "extendedKeyUsage=serverAuth
subjectAltName=$names"
sign client "Cairn client" "extendedKeyUsage=clientAuth"
sign peer "Cairn peer" "extendedKeyUsage=serverAuth,clientAuth"
echo "$dir: ca.pem, server.pem, server.key for $*; client.pem, client.key; peer.pem, peer.key"
