{{- define "streamjob.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What the controller's pods are found by. Jobs' network policies select by it, so it does not change. */}}
{{- define "streamjob.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "streamjob.labels" -}}
{{ include "streamjob.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "streamjob.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "streamjob.fullname" . -}}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{/* An image, of a dict with its values and the default tag. */}}
{{- define "streamjob.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .tag) -}}
{{- end -}}
{{- end -}}

{{/* The Secret that has the certificate of the admission webhook. */}}
{{- define "streamjob.admissionSecret" -}}
{{- .Values.admission.certificate.secretName | default (printf "%s-admission" (include "streamjob.fullname" .)) -}}
{{- end -}}

{{/* What the controller may do where it looks after jobs: rules of a ClusterRole, or of a Role in each namespace. */}}
{{- define "streamjob.rules" -}}
- apiGroups: [streamjob.io]
  resources: [streamjobs]
  verbs: [get, list, watch, patch]
- apiGroups: [streamjob.io]
  resources: [streamsnapshots]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [streamjob.io]
  resources: [streamjobs/status, streamsnapshots/status]
  verbs: [update]
- apiGroups: [streamjob.io]   # to name a resource as the owner that waits for what it owns
  resources: [streamjobs/finalizers, streamsnapshots/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]   # automatic scaling in place
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [create, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, create, update, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [create, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, update, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end -}}

{{/* The controller's settings, as the environment has them. */}}
{{- define "streamjob.env" -}}
{{- $labels := list }}
{{- range $key, $value := include "streamjob.selectorLabels" . | fromYaml }}
{{- $labels = append $labels (printf "%s=%s" $key $value) }}
{{- end -}}
{{- with .Values.watchNamespaces -}}
- {name: STREAMJOB_NAMESPACES, value: {{ join "," . | quote }}}
{{ end -}}
- {name: STREAMJOB_IMAGE, value: {{ include "streamjob.image" (dict "image" .Values.runtime.image "tag" .Chart.AppVersion) | quote }}}
- {name: STREAMJOB_INTERVAL, value: {{ .Values.reconcileInterval | quote }}}
- {name: STREAMJOB_CONCURRENCY, value: {{ .Values.concurrency | quote }}}
- {name: STREAMJOB_ALLOW_AMBIENT_CREDENTIALS, value: {{ .Values.allowAmbientCredentials | quote }}}
- {name: STREAMJOB_LOG_LEVEL, value: {{ .Values.logLevel | quote }}}
- {name: STREAMJOB_LOG_FORMAT, value: {{ .Values.logFormat | quote }}}
{{- with .Values.otlp.endpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
- {name: STREAMJOB_LEASE_NAME, value: {{ include "streamjob.fullname" . | quote }}}
- {name: STREAMJOB_OWN_LABELS, value: {{ join "," $labels | quote }}}
{{- if .Values.admission.enabled }}
- {name: STREAMJOB_ADMISSION_CERTIFICATE, value: /etc/streamjob/admission}
{{- end }}
{{- if .Values.page.enabled }}
- {name: STREAMJOB_PAGE_PORT, value: "8082"}
{{- with concat .Values.page.hosts (ternary .Values.page.ingress.hosts list .Values.page.ingress.enabled) | uniq }}
- {name: STREAMJOB_PAGE_HOSTS, value: {{ join " " . | quote }}}
{{- end }}
{{- end }}
{{- with .Values.networkPolicy.driverMetricsFrom }}
- {name: STREAMJOB_DRIVER_METRICS_FROM, value: {{ toJson . | quote }}}
{{- end }}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
