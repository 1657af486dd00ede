"""Pure decisions: (job, observed, now) -> plan. No I/O, no clock, no kopf, no client."""
