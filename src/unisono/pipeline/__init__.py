"""The data pipeline on Spark: what processes recorded, judged, summed up and planned from.

The kernels are plain functions of Arrow and numpy and import no Spark: the same code serves a batch, an
increment, a test and a notebook.
"""
