package database

import (
	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// eventDeployed reports that an incarnation of a database was created, with the cause.
func eventDeployed(db *v1alpha1.GeoDatabase, incarnation, cause string) kube.Event {
	return kube.Normal("Deployed", "Deploy", "Made incarnation "+incarnation+": "+cause).
		Logged("incarnation made", "database", db.Name, "incarnation", incarnation, "reason", cause)
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
