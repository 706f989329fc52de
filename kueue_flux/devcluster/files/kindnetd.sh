#!/bin/busybox sh
# Stands in for kindnetd in a node image that was assembled on this machine: the CNI configuration of its node,
# routes to the pods of the others, and masquerading of what pods send elsewhere. It enforces no NetworkPolicy.
# Environment, from kind's manifest: HOST_IP, POD_SUBNET, KUBERNETES_SERVICE_HOST.
set -u

conflist=/etc/cni/net.d/10-kindnet.conflist

# Before kube-proxy has its rules a Service address is nobody's here, and a packet to it would leave the machine.
until iptables -w -t nat -S KUBE-SERVICES 2>/dev/null | busybox grep -qF "$KUBERNETES_SERVICE_HOST/32"; do
    busybox sleep 0.5
done

masquerade() {
    iptables -w -t nat "$1" POSTROUTING -s "$POD_SUBNET" ! -d "$POD_SUBNET" -j MASQUERADE
}
masquerade -C 2>/dev/null || masquerade -A

write_conflist() { # CIDR
    busybox cat > "$conflist.partial" <<JSON
{
  "cniVersion": "0.4.0",
  "name": "kindnet",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": "$1"}]]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
JSON
    busybox mv "$conflist.partial" "$conflist" # whole or not at all: containerd watches the folder
    echo "this node's pods get addresses of $1"
}

columns='jsonpath={.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}{"\n"}'
while true; do
    kubectl get nodes --watch -o "$columns" | while read -r cidr address; do
        if [ -z "$address" ]; then
            continue # the node has no pod network yet
        elif [ "$address" = "$HOST_IP" ]; then
            [ -e "$conflist" ] || write_conflist "$cidr"
        else
            busybox ip route replace "$cidr" via "$address"
        fi
    done
    busybox sleep 1 # the watch ends now and then
done
