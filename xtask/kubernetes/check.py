"""Checks manifests by the schemas of Kubernetes, and that their parts fit; prints the variables of each pod as JSON.

    python check.py FILE...

The output is a list of lists: for each file the pods' variables, as Kubernetes would set them.
"""

import json
import sys

import kubernetes_validate
import yaml

VERSION = "1.31"


def variables(pod_name, spec, index):
    """The variables of a pod's only container."""
    fields = {"metadata.name": pod_name}
    # What Kubernetes sets by itself.
    found = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "HOSTNAME": pod_name}
    if index is not None:
        found["JOB_COMPLETION_INDEX"] = str(index)
    (container,) = spec["containers"]
    for variable in container["env"]:
        value = variable.get("value")
        if value is None:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        found[variable["name"]] = value
    return found


def expect(file, what, is_so):
    if not is_so:
        sys.exit(f"{file}: {what}")


def pods(file):
    with open(file) as text:
        parts = {part["kind"]: part for part in yaml.safe_load_all(text) if part}
    for part in parts.values():
        kubernetes_validate.validate(part, VERSION, strict=True)
    service = parts["Service"]
    set_of_pods = parts.get("Job") or parts["StatefulSet"]
    name, spec = set_of_pods["metadata"]["name"], set_of_pods["spec"]
    template = spec["template"]
    indexed = set_of_pods["kind"] == "Job"
    count = spec["completions"] if indexed else spec["replicas"]
    domain = template["spec"]["subdomain"] if indexed else spec["serviceName"]
    labels = template.get("metadata", {}).get("labels", {})
    if indexed:
        labels = {**labels, "batch.kubernetes.io/job-name": name}
        expect(file, "all pods of the job run at once", spec["parallelism"] == count)
        expect(file, "the pods of the job are numbered", spec["completionMode"] == "Indexed")
    expect(file, "the service is that of the pods", service["metadata"]["name"] == domain)
    selector = service["spec"]["selector"].items()
    expect(file, "the service selects the pods", selector <= labels.items())
    expect(file, "the service is headless", service["spec"]["clusterIP"] == "None")
    expect(file, "hosts find each other before they are ready", service["spec"]["publishNotReadyAddresses"])
    port = service["spec"]["ports"][0]["port"]
    all_pods = []
    for index in range(count):
        # The random end of the names of a job's pods.
        pod = f"{name}-{index}-x2x1z" if indexed else f"{name}-{index}"
        found = variables(pod, template["spec"], index if indexed else None)
        expect(file, "the first host has the name of the first pod", found["THALWEG_FIRST_HOST"] == f"{name}-0.{domain}:{port}")
        expect(file, "the number of hosts is that of the pods", found["THALWEG_HOST_COUNT"] == str(count))
        (mount,) = (m for m in template["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == "/etc/thalweg")
        expect(file, "the secret is mounted", found["THALWEG_SECRET_FILE"].startswith(mount["mountPath"] + "/"))
        all_pods.append(found)
    return all_pods


print(json.dumps([pods(file) for file in sys.argv[1:]]))
