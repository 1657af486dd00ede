"""Where the API server is and who we are: from the pod's service account, or from a kubeconfig."""

import os

import kopf
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import KUBE_CONFIG_DEFAULT_LOCATION, load_incluster_config, load_kube_config


async def load_configuration() -> Configuration:
    """$KUBECONFIG when it is set, else the pod's service account, else the default kubeconfig.

    Raises kubernetes.aio.config.ConfigException when there is neither.
    """
    configuration = Configuration()
    if "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    else:
        file = os.environ.get("KUBECONFIG", KUBE_CONFIG_DEFAULT_LOCATION)
        await load_kube_config(file, client_configuration=configuration)  # type: ignore[no-untyped-call]
    return configuration


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
