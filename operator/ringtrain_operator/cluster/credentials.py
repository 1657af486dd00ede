"""Where the API server is and who we are: from the pod's service account, or from a kubeconfig."""

import os
from pathlib import Path

import kopf
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import (
    KUBE_CONFIG_DEFAULT_LOCATION,
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DEFAULT_NAMESPACE = "default"


async def load_configuration(context: str | None = None) -> Configuration:
    """$KUBECONFIG when it is set, else the pod's service account, else the default kubeconfig; of a kubeconfig, the
    context of that name, or the current one.

    Raises kubernetes.aio.config.ConfigException when there is neither.
    """
    configuration = Configuration()
    if _is_in_cluster():
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    else:
        await load_kube_config(  # type: ignore[no-untyped-call]
            _kubeconfig(), context=context, client_configuration=configuration
        )
    return configuration


def current_namespace(context: str | None = None) -> str:
    """The namespace of the context, or of the pod. Raises kubernetes.aio.config.ConfigException."""
    if _is_in_cluster():
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip()
    contexts, active = list_kube_config_contexts(_kubeconfig())  # type: ignore[no-untyped-call]
    chosen = next((known for known in contexts if known["name"] == context), active)
    return str(chosen["context"].get("namespace") or _DEFAULT_NAMESPACE)


def _is_in_cluster() -> bool:
    return "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ


def _kubeconfig() -> str:
    """One file, or several as kubectl takes them. Raises ConfigException where there is none of them: the library logs
    that, and goes on to complain of what the file lacks."""
    files = os.environ.get("KUBECONFIG", KUBE_CONFIG_DEFAULT_LOCATION)
    if not any(Path(file).expanduser().exists() for file in files.split(os.pathsep)):
        raise ConfigException(f"there is no file {files}")
    return files


async def login(**_kwargs: object) -> kopf.ConnectionInfo:
    """kopf's login handler: kopf watches with the credentials that everything else uses. Called again after a 401."""
    configuration = await load_configuration()
    scheme, token = [*configuration.api_key.get("BearerToken", "").split(maxsplit=1), "", ""][:2]
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
    )
