"""The papers' evaluations, run again: one module per family of figures.

A family says which sweeps it needs in a profile, what their rows mean for each claim of the paper, and which
curves to draw. It starts no Spark and reads no files: whoever joins it with the pipeline (the command) does.
"""
