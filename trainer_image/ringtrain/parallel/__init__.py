"""Model parallelism: pipelines and sharding."""
