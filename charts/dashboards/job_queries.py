"""PromQL on one job: the one that the dashboard's variables name."""

from dashboards.panels import Query

WHERE = 'namespace="$namespace",training_job="$training_job"'


def of_job(metric: str) -> str:
    return f"{metric}{{{WHERE}}}"


def either(**metrics: str) -> Query:
    """A curve for each that has values: those that a job need not have would be a query without any."""
    parts = (f"""label_replace(max({of_job(name)}), "of", "{of}", "", "")""" for of, name in metrics.items())
    return Query(" or ".join(parts), "{{of}}")


def rate(metric: str) -> str:
    return f"rate({of_job(metric)}[$__rate_interval])"


def per_round(metric: str, labels: str = "") -> str:
    """By one rank on average, kept apart by `labels`."""
    return f"{total(metric, labels)} / scalar(sum({rate('ringtrain_rounds_total')}))"


def total(metric: str, labels: str = "") -> str:
    by = f" by ({labels})" if labels else ""
    return f"sum{by} ({rate(metric)})"
