"""How Airflow runs a stage. Imported as ``plugins.…``; Airflow itself loads only ``plugin.py``."""
