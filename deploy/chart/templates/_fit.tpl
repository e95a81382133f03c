{{- /* Write `from` into `into`: maps field by field, all else as it stands. */ -}}
{{- define "idlewin.patch" -}}
{{- range $key, $value := .from }}
{{- $old := get $.into $key }}
{{- if and (kindIs "map" $value) (kindIs "map" $old) }}
{{- include "idlewin.patch" (dict "into" $old "from" $value) }}
{{- else }}
{{- $_ := set $.into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Values, written into the objects that they are about. */ -}}
{{- define "idlewin.fit" -}}
{{- if eq .thing.kind "Deployment" }}
{{- $spec := .thing.spec.template.spec }}
{{- include "idlewin.pod" (dict "spec" $spec "Values" .Values "Chart" .Chart) }}
{{- $container := first $spec.containers }}
{{- $_ := set $container "args" (concat $container.args .Values.args) }}
{{- range $container.env }}
{{- if eq .name "IDLEWIN_PROMETHEUS" }}{{ $_ := set . "value" $.Values.prometheus.url }}{{ end }}
{{- end }}
{{- else if eq .thing.kind "CronJob" }}
{{- include "idlewin.pod" (dict "spec" .thing.spec.jobTemplate.spec.template.spec "Values" .Values "Chart" .Chart) }}
{{- else if and .Values.monitoring.labels (has .thing.kind (list "ServiceMonitor" "PrometheusRule")) }}
{{- $_ := set .thing.metadata "labels" .Values.monitoring.labels }}
{{- end }}
{{- end }}

{{- define "idlewin.pod" -}}
{{- $container := first .spec.containers }}
{{- $repository := required "image.repository: it must be given, for there is no published image; docs/operations.md says how to build one" .Values.image.repository }}
{{- $_ := set $container "image" (printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion)) }}
{{- if .Values.resources }}{{ $_ := set $container "resources" .Values.resources }}{{ end }}
{{- range $field, $value := .Values.pod }}
{{- if $value }}{{ $_ := set $.spec $field $value }}{{ end }}
{{- end }}
{{- end }}
