"""What two or more stages need from plain text: words, personal data, splits. Nothing here knows a stage."""
