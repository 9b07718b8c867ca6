// Package wan emulates a wide-area network in a sidecar. It delays, drops, reorders, paces and cuts the packets that a
// pod receives from the pods of each region. It runs in user space, so the declared network applies to every program,
// on any kernel.
//
// The sidecar shares the pod's network namespace and acts only on incoming packets. The sidecar of pod b emulates the
// link from pod a to pod b; a round trip passes both pods' sidecars. Packets are held at the receiver because the
// sender's kernel would count held packets as its own and would stop sending (docs/wan.md has the figures).
//
// Only packets from the addresses of peers are affected; packets from the API server, the name server or kubelet are
// not. Addresses are pod addresses. Replies from a Service's cluster IP do not match, because the kernel of the pod's
// node has rewritten the sender's address outside the pod. Headless Services work.
//
// # The configuration
//
// Config is the whole configuration, as JSON in a file that is mounted from a ConfigMap and read again when it changes.
// A file that does not parse or violates a rule of Validate is rejected. In that case the last valid configuration
// stays in effect, the metric geobench_wan_config_errors_total counts the rejection, and GET /status reports the error.
// At the start there is no earlier configuration, so the sidecar exits with an error.
//
//	{
//	  "generation": 7,
//	  "region": "eu",
//	  "seed": 42,
//	  "failPolicy": "Open",
//	  "peers": [
//	    {"address": "10.0.0.12", "region": "us"},
//	    {"address": "10.0.0.13", "region": "us", "link": "us-slow"},
//	    {"address": "10.2.0.0/16", "region": "ap"},
//	    {"host": "db-sa.default.svc.cluster.local", "region": "sa"}
//	  ],
//	  "links": [
//	    {"from": "us", "delayMicros": 45000, "jitterMicros": 500, "lossPPM": 20000, "rateBitsPerSecond": 100000000},
//	    {"from": "us-slow", "delayMicros": 145000},
//	    {"from": "ap", "delayMicros": 90000},
//	    {"from": "sa", "cut": true}
//	  ]
//	}
//
// A single file fits all pods of a region, because the sidecar removes a pod's own addresses from the peers. A peer
// with a host instead of an address stands for all addresses that the name resolves to. The sidecar looks up names
// every second (if there are n > 50 names, every n x 20 ms). If peers are named by a headless Service with
// publishNotReadyAddresses, pods may therefore start and stop without a new configuration.
//
// A file may also be named after the pod (--config /etc/geobench/wan/$(POD_NAME).json), for faults that affect only
// some pods of a region. kubelet refreshes a mounted ConfigMap when it syncs the pod, about once a minute. A change of
// a pod annotation makes it sync immediately.
//
// # Endpoints
//
// Private endpoints, at ports.WANAdmin. With Options.Credentials, mutual TLS admits only the operator. Without
// credentials, the sidecar listens on the loopback interface, so that only processes of the pod have access:
//
//	GET /status   Status: the configuration in effect, and the packets received over each link
//	GET /log      Log: the configurations that were in effect, with their times
//
// Public endpoints, at Config.Listen:
//
//	GET /readyz   200 once the rules are in place (the startup probe); 503 with the reason otherwise
//	GET /healthz  200 while the packet loop makes progress
//	GET /metrics  Prometheus
//
// Package ping measures round trips, as any program of the pod would see them.
package wan
