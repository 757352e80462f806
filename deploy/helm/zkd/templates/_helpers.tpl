{{- define "zkd.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "zkd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "zkd.labels" -}}
{{ include "zkd.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The ports of a service for clients. */}}
{{- define "zkd.clientPorts" -}}
{{- if .Values.tls.client.plain }}
- {name: client, port: 2181, targetPort: client}
{{- end }}
{{- if .Values.tls.client.secret }}
- {name: client-tls, port: 2281, targetPort: client-tls}
{{- end }}
{{- end }}

{{- /* The members: server.N=HOST:2888:3888;2181 */}}
{{- define "zkd.servers" -}}
{{- $name := include "zkd.name" . }}
{{- $port := ternary ";2181" "" .Values.tls.client.plain }}
{{- range $i := until (int (.Values.members | default .Values.replicas)) }}
{{- if $i }} {{ end }}server.{{ add $i 1 }}={{ $name }}-{{ $i }}.{{ $name }}-headless.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:2888:3888{{ $port }}
{{- end }}
{{- end }}

{{- /* The keys of zoo.cfg by the parts of the values. */}}
{{- define "zkd.config" -}}
{{- /* The name of a pod may not be known yet when its server starts. */}}
{{- $config := dict "quorumListenOnAllIPs" "true" }}
{{- if .Values.quorumSecret }}
{{- $_ := set $config "zkd.quorumSecretFile" "/secrets/quorum/secret" }}
{{- end }}
{{- if .Values.tls.quorum.secret }}
{{- $_ := set $config "sslQuorum" "true" }}
{{- $_ := set $config "ssl.quorum.keyStore.location" (printf "/secrets/quorum-tls/%s" .Values.tls.keyStore) }}
{{- $_ := set $config "ssl.quorum.trustStore.location" (printf "/secrets/quorum-tls/%s" .Values.tls.trustStore) }}
{{- end }}
{{- if .Values.tls.client.secret }}
{{- $_ := set $config "secureClientPort" "2281" }}
{{- $_ := set $config "ssl.keyStore.location" (printf "/secrets/client-tls/%s" .Values.tls.keyStore) }}
{{- $_ := set $config "ssl.trustStore.location" (printf "/secrets/client-tls/%s" .Values.tls.trustStore) }}
{{- end }}
{{- toYaml (merge $config .Values.config) }}
{{- end }}

{{- /* The file of an edge. */}}
{{- define "zkd.edgeConfig" -}}
{{- $name := include "zkd.name" . }}
{{- $port := ternary "2281" "2181" (ne .Values.edge.secret "") }}
{{- $servers := list }}
{{- range $i := until (int (.Values.members | default .Values.replicas)) }}
{{- $servers = append $servers (printf "%s-%d.%s-headless.%s.svc.%s:%s" $name $i $name $.Release.Namespace $.Values.clusterDomain $port) }}
{{- end }}
{{- $config := dict "edge.upstream" (join "," $servers) "edge.listen" "0.0.0.0:2181" "edge.http" "0.0.0.0:7001" }}
{{- if .Values.edge.secret }}
{{- $_ := set $config "edge.tls.ca" "/secrets/edge/ca.crt" }}
{{- $_ := set $config "edge.tls.cert" "/secrets/edge/tls.crt" }}
{{- $_ := set $config "edge.tls.key" "/secrets/edge/tls.key" }}
{{- end }}
{{- range $key, $value := merge (deepCopy .Values.edge.config) $config }}
{{ $key }}={{ $value }}
{{- end }}
{{- end }}
