"""Histories on disk: Arrow columns in Parquet segments, written while a process runs, read by anybody.

A journal is a folder with one folder per process life, and in it segments in the order they were closed. A
segment is written aside and renamed when it is whole, so whoever reads sees only whole segments; a crash loses
at most what had not been written yet. The schema has a version and every segment names it.
"""

from unisono.journal.contents import Contents, Problem, Segment, scan
from unisono.journal.reader import read_journal, read_records
from unisono.journal.records import records_of, table_of
from unisono.journal.simulated import write_records
from unisono.journal.writer import JournalWriter

__all__ = [
    "Contents",
    "JournalWriter",
    "Problem",
    "Segment",
    "read_journal",
    "read_records",
    "records_of",
    "scan",
    "table_of",
    "write_records",
]
