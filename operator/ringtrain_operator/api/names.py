"""Names, labels and paths as Kubernetes takes them."""

import re

MAXIMUM_JOB_NAME = 52
"""Pods are named `<job>-<index>-<epoch>` within 63 characters: 4 digits of index, 5 of epoch, 2 dashes."""

DNS_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""DNS-1035: the name of a Service."""
NAMESPACE = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""DNS-1123 label: the name of a namespace."""
DNS_LABEL_1123 = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Within 63 characters."""
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""DNS-1123 subdomain: the name of most objects, within 253 characters."""
MAXIMUM_SUBDOMAIN = 253

_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
QUALIFIED_RESOURCE = f"^{_DOMAIN}/{_KEY}$"
"""An extended resource, such as nvidia.com/gpu."""
MAXIMUM_RESOURCE = 317

CONTROLLER_NAME = f"^{_DOMAIN}/[A-Za-z0-9][-A-Za-z0-9_./]*$"
"""A controller in `managedBy`: a domain and a path."""

LABEL_KEY = f"^({_DOMAIN}/)?{_KEY}$"
"""Of a label or annotation: [domain/]name."""
MAXIMUM_LABEL_KEY = 317
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
"""Of a label, within 63 characters."""

NOT_A_KEY = "is not a valid key: use [domain/]name, the name within 63 characters"
"""Of what is no qualified name."""
_QUALIFIED_NAME = re.compile(LABEL_KEY)
_STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"


def is_qualified_name(text: str) -> bool:
    """A key of labels and annotations."""
    return _QUALIFIED_NAME.fullmatch(text) is not None and len(text.rpartition("/")[0]) <= MAXIMUM_SUBDOMAIN


def is_resource(text: str) -> bool:
    """A resource that containers can ask for."""
    return text in _STANDARD_RESOURCES or is_device(text)


def is_device(resource: str) -> bool:
    """An extended resource or huge pages: comes in whole units, and is never overcommitted."""
    return is_qualified_name(resource) and ("/" in resource or resource.startswith(_HUGE_PAGES))
