"""How what Airflow knows of other systems reaches our commands."""
