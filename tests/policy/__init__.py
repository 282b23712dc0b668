"""The planner's guarantees."""
