#!/bin/sh
# Finish a Python image in place and try it, in a mount namespace of its own. Arguments: base directory (read only),
# scratch directory with `upper` in it, X.Y, `with-pip` or `without-pip`.
set -eu
base=$1 scratch=$2 minor=$3 pip=$4

mkdir -p "$scratch/work" "$scratch/merged"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/merged"
# Programs want /dev/null and the like; a tmpfs hides that from the layer.
mkdir -p "$scratch/merged/dev"
mount -t tmpfs tmpfs "$scratch/merged/dev"
for device in null zero random urandom; do
	: >"$scratch/merged/dev/$device"
	mount --bind "/dev/$device" "$scratch/merged/dev/$device"
done

inside() {
	chroot "$scratch/merged" /usr/bin/env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$@"
}

cd "$scratch/merged/usr/local/bin"
ln -sf "python$minor" python3
ln -sf python3 python
[ ! -e "pydoc$minor" ] || ln -sf "pydoc$minor" pydoc
[ ! -e "idle$minor" ] || ln -sf "idle$minor" idle
[ ! -e "python$minor-config" ] || ln -sf "python$minor-config" python-config
cd /

inside ldconfig
[ "$pip" = without-pip ] || inside python3 -m ensurepip --default-pip >/dev/null
find "$scratch/upper/usr/local" -depth \( -name __pycache__ -o -name '*.pyc' -o -name test -o -name tests \
	-o -name idle_test \) -exec rm -rf {} +
rm -rf "$scratch/upper/tmp" "$scratch/upper/root" "$scratch/upper/var/cache/ldconfig" "$scratch/upper/run"

inside python3 -c '
import bz2, ctypes, curses, dbm, decimal, hashlib, lzma, readline, sqlite3, ssl, sys, sysconfig, uuid, zlib
assert sys.prefix == "/usr/local", sys.prefix
assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 100
hashlib.new("sha256"), ctypes.CDLL(None), sqlite3.connect(":memory:").execute("select 1")
'
umount -R "$scratch/merged"
