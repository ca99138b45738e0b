#!/bin/sh
# The first process of a node's mount, network, pid, uts and ipc namespaces: it makes them ready and then becomes the
# pause program. Arguments: node name, node directory, the cache (which the node directory is in), pause program.
set -eu
node=$1 directory=$2 cache=$3 pause=$4

hostname "$node"

# Kubernetes, containerd and CNI have files in fixed places: the node gets a /run and a /var of its own, in which the
# host's are not seen, and no two nodes meet. Should the cache lie in one of them, it is kept.
own() {
	case "$cache/" in
	"$1"/*)
		mount --bind "$cache" /mnt
		mount -t tmpfs tmpfs "$1"
		mkdir -p "$cache"
		mount --move /mnt "$cache"
		;;
	*) mount -t tmpfs tmpfs "$1" ;;
	esac
}
own "$(readlink -f /run)"
own "$(readlink -f /var)"
mkdir -p /var/tmp /var/log /var/lib/cni /run/containerd /run/netns /run/lock
chmod 1777 /var/tmp
ln -s /run /var/run

# Pods' volume mounts must be able to travel between the kubelet and containers; nothing travels back to the host.
mount --make-rshared /

# The kubelet insists on these values, which hold for the whole machine: it is shown them, and the machine is unchanged.
mkdir -p "$directory/sysctl"
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
	kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
	shown=$directory/sysctl/$(echo "${pair%%=*}" | tr / _)
	echo "${pair##*=}" >"$shown"
	mount --bind "$shown" "/proc/sys/${pair%%=*}"
done

ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
# Traffic between two pods of a node crosses one bridge; without this it never meets a NetworkPolicy.
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

: >"$directory/ready"
exec "$pause"
