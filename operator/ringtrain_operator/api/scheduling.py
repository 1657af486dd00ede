"""`spec.scheduling` of a TrainingJob, v1alpha1."""

from typing import Literal, Self

from pydantic import Field, model_validator

from ringtrain.contract.model import ContractModel
from ringtrain_operator.api.names import DNS_LABEL_1123, DNS_SUBDOMAIN, LABEL_KEY, MAXIMUM_LABEL_KEY, MAXIMUM_SUBDOMAIN


class Scheduling(ContractModel):
    """Where and by whom the job's pods are scheduled."""

    gang: Literal["None", "Operator", "Kueue", "Volcano", "Coscheduling"] = "None"
    """Who sees to it that all replicas are scheduled together, or none. None: nobody; pods that find a node hold it.
    Operator: this operator creates the pods that the job lacks when all of them fit, and none before; it needs the
    right to list the pods of all namespaces. Kueue: the pods are a pod group in the queue of queueName. Volcano: its
    scheduler, by a PodGroup. Coscheduling: the plug-in of the Kubernetes scheduler-plugins, by a PodGroup of theirs. It
    cannot be changed while there are pods."""
    queue_name: str | None = Field(default=None, max_length=63, pattern=DNS_LABEL_1123)
    """LocalQueue of Kueue, or queue of Volcano. It cannot be changed while there are pods."""
    scheduler_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=DNS_SUBDOMAIN)
    """Scheduler of the job's pods; when absent, volcano with gang Volcano, else Kubernetes' own."""
    priority_class_name: str | None = Field(default=None, max_length=MAXIMUM_SUBDOMAIN, pattern=DNS_SUBDOMAIN)
    """PriorityClass of the job's pods; the cluster's default when absent."""
    topology_key: str | None = Field(default=None, max_length=MAXIMUM_LABEL_KEY, pattern=LABEL_KEY)
    """Label of nodes by whose value the job's pods are kept together, such as topology.kubernetes.io/zone or one for
    racks; when absent they go anywhere."""
    topology_policy: Literal["Preferred", "Required"] = "Preferred"
    """Preferred: pods that find no node where the others are go elsewhere. Required: they wait."""

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        if self.topology_policy == "Required" and self.topology_key is None:
            raise ValueError("topologyPolicy Required needs topologyKey: set it, or remove topologyPolicy")
        return self
