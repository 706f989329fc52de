#!/bin/sh
# Turns a Debian root filesystem into what kind's node image is built on; runs inside it.
# The steps are those of kind's images/base/Dockerfile, which itself cannot be built without a registry.
set -eu

# a node boots its own few services, not what Debian starts on a machine
rm -f /lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service
rm -f /lib/systemd/system/multi-user.target.wants/* /etc/systemd/system/*.wants/*
rm -f /lib/systemd/system/local-fs.target.wants/* /lib/systemd/system/basic.target.wants/*
rm -f /lib/systemd/system/sockets.target.wants/*udev* /lib/systemd/system/sockets.target.wants/*initctl*
echo ReadKMsg=no >> /etc/systemd/journald.conf
ln -sf /usr/lib/systemd/systemd /sbin/init
systemctl enable kubelet.service containerd.service undo-mount-hacks.service
systemctl mask systemd-binfmt.service
mkdir -p /etc/kubernetes/manifests

ctr oci spec | jq '.hooks.createContainer = [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
    > /etc/containerd/cri-base.json
# a program that does not start is better found here than in a node that does not come up
containerd --version
runc --version
crictl --version
iptables --version
/opt/cni/bin/ptp --version || true # prints its version on stderr, and has a status of its own

rm -rf /var/cache/debconf/* /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /usr/share/doc/* /usr/share/man/*
