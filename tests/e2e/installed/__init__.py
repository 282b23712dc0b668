"""The scheduler on a real cluster as the manual installs it: its image, its overlays, its settings as shipped."""
