"""The artifacts as pages inside Airflow's UI. Imported by the API server only."""
