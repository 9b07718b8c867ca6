// Package wan is a wide-area network in a sidecar: it delays, drops, reorders, paces and cuts what a pod receives from
// the pods of each region, in user space, so that any program meets the network that a profile declares, on any kernel.
//
// The sidecar shares the pod's network namespace and acts on what comes in, nothing else: the link from a to b is made
// by the sidecar of b, and a round trip by those of both. Packets are held where they arrive because the sender's
// kernel would not send more while it counts the held ones as its own (docs/wan.md has the figures). Only packets from
// the addresses listed as peers are touched; what comes from the API server, the name server or kubelet is not.
// Addresses are those of pods: what a pod gets back from a Service's cluster IP is not matched, because the kernel of
// its node has rewritten the sender's address outside the pod. Headless Services are right.
//
// # The configuration
//
// Config says it all, as JSON in a file that is mounted from a ConfigMap and read again when it changes. A file that
// does not parse or breaks a rule of Validate is refused: the last good configuration stays, the metric
// geobench_wan_config_errors_total counts it and GET /status names the error. At the start there is no last good one,
// so the sidecar ends with an error.
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
// One file fits all pods of a region, because a pod's own addresses are left out of its peers. A peer with a host
// instead of an address stands for all addresses that the name resolves to, looked up every second (every n x 20 ms
// where there are n > 50 names): pods that come and go need no new configuration if a headless Service with
// publishNotReadyAddresses names them. A file may also be named after the pod (--config
// /etc/geobench/wan/$(POD_NAME).json), where a fault hits some pods of a region only. kubelet refreshes a mounted
// ConfigMap when it syncs the pod, about once a minute; a change of one of the pod's annotations makes it sync at once.
//
// # What it answers
//
// At ports.WANAdmin, to the operator alone, which mutual TLS sees to (Options.Credentials), or to the pod itself:
//
//	GET /status   Status: the configuration in force, and what came over each link
//	GET /log      Log: what was in force when
//
// At Config.Listen, to everybody:
//
//	GET /readyz   200 once the rules are in place (the startup probe); 503 with the reason otherwise
//	GET /healthz  200 while the packets' loop turns
//	GET /metrics  Prometheus
//
// Round trips are measured by others (package ping), as any program of the pod would see them.
package wan
