{{- define "ringtrain.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of what the release creates: the release's name alone when it says "ringtrain" already. */}}
{{- define "ringtrain.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := include "ringtrain.name" . }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Of what has no namespace: releases of one name in several namespaces must not share it. */}}
{{- define "ringtrain.clusterwideName" -}}
{{- printf "%s-%s" .Release.Namespace (include "ringtrain.fullname" .) }}
{{- end }}

{{- define "ringtrain.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ringtrain.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "ringtrain.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "ringtrain.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: ringtrain
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of metadata, from a list: the context, and the object's own annotations, which win. Nothing where there is none. */}}
{{- define "ringtrain.annotations" -}}
{{- with mergeOverwrite (dict) (first .).Values.commonAnnotations (last . | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "ringtrain.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "ringtrain.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name must name an existing service account when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "ringtrain.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Who may ask the agents of jobs: the operator, and whom the values name. */}}
{{- define "ringtrain.agentsFrom" -}}
{{- $namespace := dict "matchLabels" (dict "kubernetes.io/metadata.name" .Release.Namespace) }}
{{- $pods := dict "matchLabels" (fromYaml (include "ringtrain.selectorLabels" .)) }}
{{- prepend .Values.networkPolicy.metricsFrom (dict "namespaceSelector" $namespace "podSelector" $pods) | toJson }}
{{- end }}

{{/* What the operator may do with the objects of a namespace: in a ClusterRole, or in a Role of each watched namespace. */}}
{{- define "ringtrain.namespacedRules" -}}
- apiGroups: [ringtrain.io]
  resources: [trainingjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [ringtrain.io]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, persistentvolumeclaims]
  verbs: [get, list, watch, create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create]
- apiGroups: [scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}
