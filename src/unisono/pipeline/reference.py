"""The independent audit once more, hand-written in SQL for DuckDB: what the pipeline's speed is compared with.

It says only whether something is wrong, not what. The same facts are checked: nothing created, nothing doubled,
publishers' order, a common order in which every untagged row increases, causes before effects, nothing lost.
"""

from __future__ import annotations

from pathlib import Path

_VIEWS = """
create temp table published as
  select publisher, incarnation, n, topic, process, seq from journal where kind = 'published';
create temp table sequenced as
  select publisher, incarnation, n, topic, number, row_number() over (order by "at", number) as rank
  from journal where kind = 'sequenced';
create temp table joined as
  select process, subscription, topic, number, "order" from journal where kind = 'subscribed';
create temp table delivered as
  select d.process, d.subscription, d.seq, d.publisher, d.incarnation, d.n, d.topic, d.in_order, s.rank,
         p.topic as published_on
  from journal d
  left join sequenced s using (publisher, incarnation, n)
  left join published p using (publisher, incarnation, n)
  where d.kind = 'delivered';
"""

_CHECKS = {
    "no_creation": """
        select count(*) from delivered d where published_on is distinct from topic
           or not exists (select 1 from joined j where j.process = d.process
                          and j.subscription = d.subscription and j.topic = d.topic)""",
    "no_duplication": """
        select count(*) from (select 1 from delivered
          group by process, subscription, publisher, incarnation, n having count(*) > 1)""",
    "publisher_fifo": """
        select count(*) from (select n < lag(n) over (
          partition by process, subscription, publisher, incarnation, topic order by seq) as wrong
          from delivered where in_order) where wrong""",
    "total_notification_order": """
        select count(*) from (select rank <= lag(rank) over (
          partition by process, subscription order by seq) as wrong
          from delivered where in_order) where wrong""",
    "causal_order": """
        select count(*) from (select s.rank <= max(s.rank) over (
          partition by p.process order by p.seq rows between unbounded preceding and 1 preceding) as wrong
          from published p join sequenced s using (publisher, incarnation, n)) where wrong""",
    "nothing_lost": """
        select (select count(*) from joined j join sequenced s on s.topic = j.topic and s.number > j.number)
             - (select count(*) from (select distinct process, subscription, publisher, incarnation, n
                from delivered))""",
}


def audit_in_duckdb(journal: str | Path, *, threads: int = 2, memory: str = "4GB") -> dict[str, int]:
    """How many rows break each promise."""
    import duckdb

    with duckdb.connect() as db:
        db.execute(f"set threads = {threads}")
        db.execute(f"set memory_limit = '{memory}'")
        files = str(Path(journal) / "**" / "*.parquet").replace("'", "''")
        db.execute(f"create view journal as select * from read_parquet('{files}')")
        db.execute(_VIEWS)
        return {promise: int(db.execute(query).fetchall()[0][0]) for promise, query in _CHECKS.items()}
