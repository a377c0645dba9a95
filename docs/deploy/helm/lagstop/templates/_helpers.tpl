{{/* Names are short enough for labels and for what is made from them. */}}
{{- define "lagstop.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "lagstop.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: exporter
{{- end }}

{{- define "lagstop.labels" -}}
{{ include "lagstop.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "lagstop.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Of the root context and a path. By TCP if clients must show a certificate: the kubelet has none. */}}
{{- define "lagstop.probe" -}}
{{- $web := (index . 0).Values.webConfig -}}
{{- if and $web.existingSecret $web.clientCertificates -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ index . 1 }}
  port: metrics
  {{- if $web.existingSecret }}
  scheme: HTTPS
  {{- end }}
{{- end }}
{{- end }}

{{/* Memory limit in MiB: 160, and 0.3 for each possible CPU. */}}
{{- define "lagstop.memory" -}}
{{- add 160 (div (add (mul 3 (int .Values.cpus)) 9) 10) }}
{{- end }}

{{/* The resources, with a memory limit where they name none. */}}
{{- define "lagstop.resources" -}}
{{- $limits := dict "memory" (printf "%sMi" (include "lagstop.memory" .)) }}
{{- $all := dict "limits" $limits }}
{{- toYaml (mergeOverwrite $all (deepCopy .Values.resources)) }}
{{- end }}
