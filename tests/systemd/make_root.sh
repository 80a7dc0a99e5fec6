#!/bin/sh
# make_root.sh FOLDER CHECKOUT: what a machine of the tests boots from, in memory. Its /usr is this machine's with
# Cairn installed above it; all else is its own and nearly empty. REQUIRES: root, a mount namespace of the caller's own.
set -eu
root=$1
from=$2
mount -t tmpfs -o mode=0755,size=2g machine "$root"
cd "$root"
mkdir -p usr etc var run proc sys dev root home .above .work
mkdir -m 1777 tmp
for link in bin sbin lib lib32 lib64 libx32; do [ ! -L "/$link" ] || ln -s "usr/$link" "$link"; done
mount -t overlay -o "lowerdir=/usr,upperdir=$root/.above,workdir=$root/.work" machine "$root/usr"

for name in alternatives dbus-1 ld.so.cache login.defs nsswitch.conf pam.d security; do
  [ ! -e "/etc/$name" ] || cp -a "/etc/$name" etc/
done
ln -s ../usr/lib/os-release etc/os-release
: >etc/machine-id
grep -E '^(root|daemon|bin|sys|sync|games|man|nobody|messagebus|systemd-[a-z]+|polkitd):' /etc/passwd >etc/passwd
cp /etc/group etc/group
(umask 077 && echo 'root:*:19000::::::' >etc/shadow)
for user in alice:2001 bob:2002 mallory:2003; do
  name=${user%:*} id=${user#*:}
  echo "$name:x:$id:$id::/home/$name:/bin/sh" >>etc/passwd
  echo "$name:x:$id:" >>etc/group
  echo "$name:*:19000::::::" >>etc/shadow # without it PAM has no sessions for them
  mkdir -m 0700 "home/$name"
  chown "$id:$id" "home/$name"
done

# As deploy/README.md says.
install "$from/daemon/cairnd" "$from/client/cli/cairn" "$from/tests/integration/crash_client" usr/bin/
install "$from/client/libcairn.so" usr/lib/x86_64-linux-gnu/
install "$from/tests/systemd/mallory.py" usr/bin/mallory
cd "$from/deploy/systemd"
install -m 644 cairnd.service cairnd.socket "$root/usr/lib/systemd/system/"
install -m 644 cairnd-user.service "$root/usr/lib/systemd/user/"
install -m 644 cairn.tmpfiles "$root/usr/lib/tmpfiles.d/cairn.conf"
install -m 644 cairn.sysusers "$root/usr/lib/sysusers.d/cairn.conf"
mkdir -p "$root/etc/cairn" "$root/etc/systemd/system/sockets.target.wants"
ln -s /usr/lib/systemd/system/cairnd.socket "$root/etc/systemd/system/sockets.target.wants/"
