{{/* The name of the secret. */}}
{{- define "thalweg.secret" -}}
{{ .Values.existingSecret | default .Release.Name }}
{{- end }}

{{/* What the pods of a Job and of a StatefulSet have in common. */}}
{{- define "thalweg.pod" -}}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
containers:
  - name: job
    image: {{ .Values.image | quote }}
    command: {{- toYaml .Values.command | nindent 6 }}
    env:
      - name: HOSTNAME
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      - name: THALWEG_HOST_COUNT
        value: {{ .Values.hosts | quote }}
      - name: THALWEG_FIRST_HOST
        value: {{ printf "%s-0.%s:%d" .Release.Name .Release.Name (int .Values.port) | quote }}
      - name: THALWEG_SECRET_FILE
        value: /etc/thalweg/secret
      {{- if .Values.tlsSecret }}
      - name: THALWEG_TLS_DIR
        value: /etc/thalweg-tls
      {{- end }}
      {{- if .Values.checkpoint.claim }}
      - name: THALWEG_CHECKPOINT
        value: /var/lib/thalweg/{{ .Release.Name }}
      {{- end }}
      - name: THALWEG_CONNECT_TIMEOUT
        value: {{ .Values.connectTimeout | quote }}
      {{- with .Values.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: hosts
        containerPort: {{ .Values.port }}
    resources: {{- toYaml .Values.resources | nindent 6 }}
    volumeMounts:
      - name: thalweg-secret
        mountPath: /etc/thalweg
        readOnly: true
      {{- if .Values.tlsSecret }}
      - name: thalweg-tls
        mountPath: /etc/thalweg-tls
        readOnly: true
      {{- end }}
      {{- if .Values.checkpoint.claim }}
      - name: thalweg-checkpoint
        mountPath: /var/lib/thalweg
      {{- end }}
      {{- with .Values.volumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: thalweg-secret
    secret:
      secretName: {{ include "thalweg.secret" . }}
      defaultMode: 0440
  {{- with .Values.tlsSecret }}
  - name: thalweg-tls
    secret:
      secretName: {{ . }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.checkpoint.claim }}
  - name: thalweg-checkpoint
    persistentVolumeClaim:
      claimName: {{ . }}
  {{- end }}
  {{- with .Values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
