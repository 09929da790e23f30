"""Where a task's buttons lead."""
