"""Stage: keep one document of every group of copies and near-copies."""
