"""The stages of a language model's life, and the core that runs them. Nothing here imports Airflow."""
