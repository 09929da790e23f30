"""Cache, record, publish and events: what every stage stands on, and what knows no stage."""
