"""What users read: lists, events, reports, slots over time, and rows that cannot be read. Nothing here writes."""
