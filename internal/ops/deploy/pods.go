package deploy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Pod is a pod of a GeoDatabase.
type Pod struct {
	Region string
	// Role is nil if the database has no roles.
	Role *v1alpha1.Role
	// Ordinal is the number of the pod among the pods of its role in the region, counted from 0.
	Ordinal int
	// Set is the name of the pod's StatefulSet and its Service. Name is the name of the pod. Host is the host name by
	// which other pods find it.
	Set, Name, Host string
	// Known is the host name by which programs address the pod. It is Host or, if the role has a Service for each pod, the
	// host name of the pod's Service.
	Known string
}

// ServiceOfItsOwn reports whether the pod has its own Service, which has the name of the pod.
func (p *Pod) ServiceOfItsOwn() bool { return p.Known != p.Host }

// Hosts returns all host names of the pod. Packets from the pod may have the address of any of these hosts as their
// source address.
func (p *Pod) Hosts() []string {
	if p.ServiceOfItsOwn() {
		return []string{p.Host, p.Known}
	}
	return []string{p.Host}
}

// InRegion reports whether a role has pods in a region, given by its index.
func InRegion(role *v1alpha1.Role, region int) bool {
	return role.FirstRegions == nil || region < int(*role.FirstRegions)
}

// PodsIn returns the pods of a region, grouped by role in the order of the spec.
func PodsIn(db *v1alpha1.GeoDatabase, region string) (pods []Pod) {
	add := func(role *v1alpha1.Role, count int) {
		name := ""
		if role != nil {
			name = role.Name
		}
		set := SetName(db.Name, region, name)
		for ordinal := range count {
			p := Pod{Region: region, Role: role, Ordinal: ordinal, Set: set, Name: fmt.Sprintf("%s-%d", set, ordinal)}
			p.Host = fmt.Sprintf("%s.%s.%s.svc", p.Name, set, db.Namespace)
			if p.Known = p.Host; role != nil && role.ServicePerPod {
				p.Known = fmt.Sprintf("%s.%s.svc", p.Name, db.Namespace)
			}
			pods = append(pods, p)
		}
	}
	if len(db.Spec.Roles) == 0 {
		add(nil, int(db.Spec.NodesPerRegion()))
	}
	for i := range db.Spec.Roles {
		if role := &db.Spec.Roles[i]; InRegion(role, slices.Index(db.Spec.RegionNames(), region)) {
			add(role, int(max(role.PerRegion, 1)))
		}
	}
	return pods
}

// Pods returns the pods of all regions, in the order of regions, roles and ordinals.
func Pods(db *v1alpha1.GeoDatabase) (pods []Pod) {
	for _, region := range db.Spec.RegionNames() {
		pods = append(pods, PodsIn(db, region)...)
	}
	return pods
}

// MostPods returns the number of pods in the region with the most pods.
func MostPods(db *v1alpha1.GeoDatabase) (most int) {
	for _, region := range db.Spec.RegionNames() {
		most = max(most, len(PodsIn(db, region)))
	}
	return most
}

// OfRole returns the pods of a role, ordered by region and ordinal.
func OfRole(pods []Pod, role string) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Role == nil || p.Role.Name != role })
}

// HostsVariable returns the name of the environment variable that lists the hosts of a role.
func HostsVariable(role string) string { return "GEOBENCH_HOSTS_" + strings.ToUpper(role) }

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// HostVariables returns the environment variables that list hosts. They are for the containers of a role or, if role is
// nil, of a database without roles.
func HostVariables(db *v1alpha1.GeoDatabase, role *v1alpha1.Role) []Variable {
	pods := Pods(db)
	if role == nil {
		return []Variable{{"GEOBENCH_HOSTS", JoinHosts(pods, "{host}", ",")}}
	}
	out := []Variable{{"GEOBENCH_HOSTS", JoinHosts(OfRole(pods, role.Name), "{host}", ",")}}
	for i := range db.Spec.Roles {
		name := db.Spec.Roles[i].Name
		out = append(out, Variable{HostsVariable(name), JoinHosts(OfRole(pods, name), "{host}", ",")})
	}
	for _, l := range role.Lists {
		out = append(out, Variable{"GEOBENCH_LIST_" + l.Name, JoinHosts(OfRole(pods, cmp.Or(l.Role, role.Name)), cmp.Or(l.Format, "{host}"), cmp.Or(l.Separator, ","))})
	}
	return out
}

// JoinHosts joins the hosts of pods, in the format and with the separator of a v1alpha1.HostList.
func JoinHosts(pods []Pod, format, separator string) string {
	parts := make([]string, len(pods))
	for i, p := range pods {
		parts[i] = strings.NewReplacer("{host}", p.Known, "{pod}", p.Name, "{region}", p.Region, "{ordinal}", strconv.Itoa(p.Ordinal)).Replace(format)
	}
	return strings.Join(parts, separator)
}
