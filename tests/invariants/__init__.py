"""What must hold after every tick of a simulated run, judged beside the scheduler: one module for each subject.

`checker` runs all of it.
"""
