{{/* The name of everything: that of the release. */}}
{{- define "ledgermq.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The service with a name for each pod. */}}
{{- define "ledgermq.nodes" -}}
{{- include "ledgermq.name" . }}-nodes
{{- end -}}

{{/* The name of the ledgermq cluster. */}}
{{- define "ledgermq.cluster" -}}
{{- .Values.cluster | default (include "ledgermq.name" .) -}}
{{- end -}}

{{- define "ledgermq.selector" -}}
app.kubernetes.io/name: ledgermq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ledgermq.labels" -}}
{{ include "ledgermq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* "true" with TLS and authentication, else empty. */}}
{{- define "ledgermq.secured" -}}
{{- if ne .Values.security.mode "insecure" }}true{{ end -}}
{{- end -}}

{{/* The host of the domain of all pods, without the name of the pod. */}}
{{- define "ledgermq.domain" -}}
{{ include "ledgermq.nodes" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* The setting `peers`: the nodes of the first start. */}}
{{- define "ledgermq.peers" -}}
{{- $peers := list -}}
{{- range $ordinal := until (int .Values.firstNodes) -}}
{{- $peers = append $peers (printf "%d=%s-%d.%s:9871" (add1 $ordinal) (include "ledgermq.name" $) $ordinal (include "ledgermq.domain" $)) -}}
{{- end -}}
{{- join "," $peers -}}
{{- end -}}

{{/* The setting `outside`. */}}
{{- define "ledgermq.outside" -}}
{{- $outside := list -}}
{{- range $node, $address := .Values.outside -}}
{{- $outside = append $outside (printf "%s=%s" $node $address) -}}
{{- end -}}
{{- join "," $outside -}}
{{- end -}}
