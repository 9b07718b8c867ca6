#!/bin/sh
# MESH_ROLE=init leads the pod's TCP connections through the proxy, but for those to the ports in EXCLUDE_INBOUND (with commas between them) and to the
# proxy's counters (15090), those of the proxy's own user, and those that stay in the pod. Otherwise this is the proxy.
set -eu
if [ "${MESH_ROLE:-}" != init ]; then
  exec envoy -c /etc/mesh/envoy.yaml --log-level warning --concurrency 1
fi
nft -f - <<RULES
table ip mesh {
  chain inbound {
    type nat hook prerouting priority dstnat
    tcp dport { 15090, ${EXCLUDE_INBOUND:-15021} } return
    meta l4proto tcp redirect to :15006
  }
  chain outbound {
    type nat hook output priority -100
    meta skuid 1337 return
    fib daddr type local return
    meta l4proto tcp redirect to :15001
  }
}
RULES
