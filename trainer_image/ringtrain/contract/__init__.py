"""What operator and trainer agree on: pure data, importable without torch and without Kubernetes."""
