"""Finds the job, node, foreign pod or booking that makes ticks fail, and holds it so that all others go on."""
