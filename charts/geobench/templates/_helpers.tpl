{{- define "geobench.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* The prefix of all names: the release's name, with the chart's where it does not say it already. */ -}}
{{- define "geobench.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "geobench.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "geobench.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "geobench.operator.name" -}}
{{- printf "%s-operator" (include "geobench.fullname" .) }}
{{- end }}

{{- define "geobench.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "geobench.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: geobench
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "geobench.operator.selector" -}}
app.kubernetes.io/name: {{ include "geobench.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "geobench.prometheus.selector" -}}
app.kubernetes.io/name: {{ include "geobench.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: prometheus
{{- end }}

{{- /* The chart's own Prometheus, as an item of a NetworkPolicy's ingress from. */ -}}
{{- define "geobench.prometheus.peer" -}}
{{- if .Values.prometheus.enabled -}}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ .Release.Namespace }}
  podSelector:
    matchLabels:
      {{- include "geobench.prometheus.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- /* What is around databases, as geobench operator --network-policies takes it. */ -}}
{{- define "geobench.around" -}}
{{- $metrics := .Values.networkPolicy.databases.metricsFrom }}
{{- if $metrics }}
{{- $metrics = concat $metrics (include "geobench.prometheus.peer" . | fromYamlArray) }}
{{- end }}
{{- dict "operator" (include "geobench.operator.selector" . | fromYaml) "metricsFrom" $metrics "apiServerPorts" .Values.networkPolicy.operator.apiServerPorts
    "apiServerCIDRs" .Values.networkPolicy.operator.apiServerCIDRs "externalCIDRs" .Values.networkPolicy.databases.externalCIDRs | toJson }}
{{- end }}

{{- define "geobench.operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "geobench.operator.name" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: name the ServiceAccount of the operator, or let serviceAccount.create make one" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* The image's repository; global.imageRegistry takes the place of its registry. */ -}}
{{- define "geobench.repository" -}}
{{- $repository := .Values.image.repository }}
{{- with (.Values.global).imageRegistry }}
{{- $parts := splitList "/" $repository }}
{{- if and (gt (len $parts) 1) (regexMatch "[.:]|^localhost$" (first $parts)) }}
{{- $repository = rest $parts | join "/" }}
{{- end }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository }}
{{- end }}
{{- $repository }}
{{- end }}

{{- define "geobench.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" (include "geobench.repository" .) .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" (include "geobench.repository" .) (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* The pull secrets of the chart and of global, as YAML. The global ones may be names, as other charts take them. */ -}}
{{- define "geobench.imagePullSecrets" -}}
{{- $all := list }}
{{- range concat (.Values.imagePullSecrets | default list) ((.Values.global).imagePullSecrets | default list) }}
{{- $all = append $all (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with $all | uniq }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* Namespaces with databases: those given, else the one that is watched, else the release's. As JSON. */ -}}
{{- define "geobench.namespaces" -}}
{{- $default := list (default .context.Release.Namespace .context.Values.scope.namespace) -}}
{{- .given | default $default | uniq | toJson }}
{{- end }}

{{- define "geobench.operator.subjects" }}
subjects:
- kind: ServiceAccount
  name: {{ include "geobench.operator.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Whether to make an object of the Prometheus operator: yes, no, or auto, which is where the cluster has the kind. */ -}}
{{- define "geobench.monitor" -}}
{{- $enabled := toString .enabled }}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (.context.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind))) }}
{{- "yes" }}
{{- end }}
{{- end }}

{{- /* Without objects of the cluster, some values have no meaning. The error names all of them. */ -}}
{{- define "geobench.namespacedOnly" -}}
{{- $wrong := list }}
{{- if not .Values.scope.namespace }}{{- $wrong = append $wrong "scope.namespace: name the namespace to watch" }}{{- end }}
{{- if .Values.crds.enabled }}{{- $wrong = append $wrong "crds.enabled: false, and have the definitions installed by an administrator" }}{{- end }}
{{- if .Values.admission.enabled }}{{- $wrong = append $wrong "admission.enabled: false" }}{{- end }}
{{- if .Values.rbac.aggregateToUserRoles }}{{- $wrong = append $wrong "rbac.aggregateToUserRoles: false" }}{{- end }}
{{- if .Values.metrics.enabled }}{{- $wrong = append $wrong "metrics.enabled: false, because metrics check the rights of their readers in the cluster" }}{{- end }}
{{- if .Values.prometheus.enabled }}{{- $wrong = append $wrong "prometheus.enabled: false" }}{{- end }}
{{- with $wrong }}
{{- fail (printf "rbac.clusterScoped is false, and these values make objects of the cluster; set %s. values-namespaced.yaml has all of them" (join "; " .)) }}
{{- end }}
{{- end }}

{{- /* The policies would keep the operator from its own Secret and lease, and from the namespace that it is for. */ -}}
{{- define "geobench.admission.check" -}}
{{- range list .Release.Namespace .Values.scope.namespace }}
{{- if has . $.Values.admission.protectedNamespaces }}
{{- fail (printf "admission.protectedNamespaces: the operator has to write in %s; install the chart elsewhere, or take that namespace from the list" .) }}
{{- end }}
{{- end }}
{{- end }}
