"""The kinds of objects that an audit looks at, in files and in a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Looked:
    """One kind."""

    path: str
    """Where a cluster lists all of it."""
    namespaced: bool = True
    needed: bool = False
    """Whether there is nothing to say of a cluster without it."""

    def is_of(self, api_version: str) -> bool:
        """Whether an apiVersion is one of its group."""
        group = self.path.split("/")[2] if self.path.startswith("/apis/") else ""
        return (api_version.partition("/")[0] if "/" in api_version else "") == group


_APPS, _BATCH, _KUEUE = "/apis/apps/v1", "/apis/batch/v1", "/apis/kueue.x-k8s.io/v1beta2"
_DRA = "/apis/resource.k8s.io/v1"

KINDS = {
    "Node": Looked("/api/v1/nodes", namespaced=False, needed=True),
    "Pod": Looked("/api/v1/pods", needed=True),
    "Deployment": Looked(f"{_APPS}/deployments"),
    "StatefulSet": Looked(f"{_APPS}/statefulsets"),
    "DaemonSet": Looked(f"{_APPS}/daemonsets"),
    "Job": Looked(f"{_BATCH}/jobs"),
    "CronJob": Looked(f"{_BATCH}/cronjobs"),
    "InferenceService": Looked("/apis/serving.kserve.io/v1beta1/inferenceservices"),
    "ScaledObject": Looked("/apis/keda.sh/v1alpha1/scaledobjects"),
    "HorizontalPodAutoscaler": Looked("/apis/autoscaling/v2/horizontalpodautoscalers"),
    "PriorityClass": Looked("/apis/scheduling.k8s.io/v1/priorityclasses", namespaced=False),
    "ResourceClaim": Looked(f"{_DRA}/resourceclaims"),
    "ResourceClaimTemplate": Looked(f"{_DRA}/resourceclaimtemplates"),
    "ClusterQueue": Looked(f"{_KUEUE}/clusterqueues", namespaced=False),
    "Cohort": Looked(f"{_KUEUE}/cohorts", namespaced=False),
    "LocalQueue": Looked(f"{_KUEUE}/localqueues"),
    "ResourceFlavor": Looked(f"{_KUEUE}/resourceflavors", namespaced=False),
    "Workload": Looked(f"{_KUEUE}/workloads"),
    "IdleRule": Looked("/apis/idlewin.dev/v1alpha1/idlerules", namespaced=False),
    "ConfigMap": Looked("/api/v1/configmaps"),
    "GpuDevicePlugin": Looked("/apis/deviceplugin.intel.com/v1/gpudeviceplugins", namespaced=False),
    "ClusterPolicy": Looked("/apis/nvidia.com/v1/clusterpolicies", namespaced=False),
    "HelmRelease": Looked("/apis/helm.toolkit.fluxcd.io/v2/helmreleases"),
    "Application": Looked("/apis/argoproj.io/v1alpha1/applications"),
}
