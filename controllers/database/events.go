package database

import (
	"github.com/geobench/geobench/controllers/kube"
)

func eventDeployed(incarnation, cause string) kube.Event {
	return kube.Normal("Deployed", "Deploy", "Made incarnation "+incarnation+": "+cause)
}

func eventStateLost(why string) kube.Event { return kube.Warning("StateLost", "Watch", why) }

func eventDatabaseReady(nodes string) kube.Event {
	return kube.Normal("Ready", "Watch", nodes+" nodes are ready")
}

func eventNetworkVerified(message string) kube.Event {
	return kube.Normal("NetworkVerified", "Measure", message)
}

func eventNetworkLost(message string) kube.Event {
	return kube.Warning("NetworkNotVerified", "Measure", message)
}
