"""The tick: observe, absorb, plan, commit, apply."""
