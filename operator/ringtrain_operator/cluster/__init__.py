"""Where a plan is carried out: the Cluster protocol and its Kubernetes implementation."""
