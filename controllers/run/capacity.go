package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
)

// growing lists labels of machines that belong to groups which an autoscaler can enlarge. The current capacity of such
// a cluster is not its limit.
var growing = []string{
	"karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool", "cluster.x-k8s.io/deployment-name",
}

// checkCapacity refuses a run whose pods request more CPU than all machines of the cluster have, because some pods
// would never start. It accepts every run if the operator may not list machines.
func (s *scope) checkCapacity(ctx context.Context) error {
	machines := &corev1.NodeList{}
	if err := s.Live.List(ctx, machines); err != nil {
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	}
	if problem := crowded(machines.Items, s.db, s.run); problem != "" {
		return kube.Refuse("TooLittleCPU", "%s", problem)
	}
	return nil
}

// crowded describes by how much the CPU requests of a run's pods exceed the capacity of the machines. It returns "" if
// they do not, or if the capacity is unknown.
func crowded(machines []corev1.Node, db *v1alpha1.GeoDatabase, run *v1alpha1.BenchmarkRun) string {
	var has resource.Quantity
	usable := 0
	for i := range machines {
		m := &machines[i]
		// A machine with such a label shows that the cluster can grow, so the cluster's current capacity is not a limit.
		for _, label := range growing {
			if _, ok := m.Labels[label]; ok {
				return ""
			}
		}
		if !m.Spec.Unschedulable {
			if m.Status.Allocatable.Cpu().IsZero() {
				return "" // its kubelet has not reported its capacity yet
			}
			usable++
			has.Add(*m.Status.Allocatable.Cpu())
		}
	}
	regions := int64(len(db.Spec.Regions))
	nodes, each := int64(0), resource.Quantity{}
	cpu := func(r corev1.ResourceRequirements) resource.Quantity {
		r = database.OwnResources(r)
		return *r.Requests.Cpu()
	}
	if db.Spec.External == nil && !db.Spec.RunsPrograms() {
		nodes, each = regions*int64(db.Spec.PartitionsPerRegion)*int64(db.Spec.ReplicasPerPartition), cpu(db.Spec.Resources)
	}
	workers, worker := regions*int64(run.Spec.Load.WorkersPerRegion), cpu(run.Spec.Load.Resources)
	asked := nodes*each.MilliValue() + workers*worker.MilliValue()
	if usable == 0 || asked <= has.MilliValue() {
		return ""
	}
	return fmt.Sprintf("%d nodes of GeoDatabase %s x %s (spec.resources.requests.cpu) and %d load generators x %s (spec.load.resources.requests.cpu) ask for %s CPU, and the %d machines of the cluster have %s together: "+
		"some pods would never start; ask for less, take fewer spec.partitionsPerRegion, spec.replicasPerPartition or spec.load.workersPerRegion, or add machines",
		nodes, db.Name, each.String(), workers, worker.String(), resource.NewMilliQuantity(asked, resource.DecimalSI), usable, has.String())
}
