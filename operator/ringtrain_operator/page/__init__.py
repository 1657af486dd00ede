"""A small read-only page that shows jobs while they train, for where no Grafana is."""
