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


def check_restarts(file, job):
    """A job that is started again is so with all of its pods, which fail together."""
    if "backoffLimitPerIndex" not in job:
        expect(file, "a job whose pods are not counted one by one is not started again", job["backoffLimit"] == 0)
        return
    expect(file, "the failures of all pods together are not limited", "backoffLimit" not in job)
    expect(file, "a pod that cannot be started again ends the job", job["maxFailedIndexes"] == 0)
    (container,) = job["template"]["spec"]["containers"]
    rules = job["podFailurePolicy"]["rules"]
    by_status = {}
    for codes in (rule["onExitCodes"] | {"action": rule["action"]} for rule in rules if "onExitCodes" in rule):
        expect(file, "statuses are those of the program", codes["containerName"] == container["name"] and codes["operator"] == "In")
        by_status |= {status: codes["action"] for status in codes["values"]}
    expect(file, "wrong settings end the job, and suspension is no failure", by_status == {2: "FailJob", 143: "Ignore"})
    ignored = [rule for rule in rules if rule.get("onPodConditions") == [{"type": "DisruptionTarget", "status": "True"}]]
    expect(file, "a pod that gives way is no failure", [rule["action"] for rule in ignored] == ["Ignore"])


def check_checkpoint(file, spec, directory):
    """Checkpoints are on a volume that outlives the pod, which has the time for a last one."""
    (container,) = spec["containers"]
    claims = {volume["name"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume}
    mounted = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in claims]
    expect(file, "checkpoints are on a claimed volume", any(directory.startswith(path + "/") for path in mounted))
    expect(file, "there is time for a last checkpoint", spec.get("terminationGracePeriodSeconds", 30) >= 120)


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
    checkpoint = all_pods[0].get("THALWEG_CHECKPOINT")
    if checkpoint:
        check_checkpoint(file, template["spec"], checkpoint)
    if indexed:
        check_restarts(file, spec)
    return all_pods


print(json.dumps([pods(file) for file in sys.argv[1:]]))
