#!/bin/sh
# The first process of a node's mount, network, pid, uts and ipc namespaces: it makes them ready and then becomes the
# pause program. Arguments: node name, node directory, pause program.
set -eu
node=$1 directory=$2 pause=$3

hostname "$node"
# Pods' volume mounts must be able to travel between the kubelet and containers; nothing travels back to the host.
mount --make-rshared /

# Places whose names are fixed in Kubernetes, containerd and CNI get a file system of the node's own.
for place in /run/netns /run/containerd /var/log/containers; do
	mkdir -p "$place"
	mount -t tmpfs tmpfs "$place"
done
mount --make-shared /run/netns
mkdir -p /var/lib/cni "$directory/cni-state"
mount --bind "$directory/cni-state" /var/lib/cni

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
