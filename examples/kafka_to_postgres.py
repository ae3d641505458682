"""Kafka to PostgreSQL: a table with one row for each user and minute, shown early, and corrected when late orders come."""

import os

import strandline as sl

kafka = sl.Kafka(os.environ.get("KAFKA", "127.0.0.1:9092"))
# A password does not stand here: password=sl.Secret.env("DATABASE_PASSWORD"), or libpq's own password file.
database = sl.Database(os.environ.get("DATABASE", "postgresql://localhost/postgres"))
flow = sl.Flow("revenue_table")

orders = flow.source(
    "orders",
    kafka.read("orders", format="json", schema="user string, amount double, at timestamp"),
    time="at",
    watermark=sl.Bounded("20s", idle_after="1m"),
)
revenue = (
    orders.key_by("user")
    .window(sl.Tumbling("1m"), trigger=sl.AfterWatermark(early=sl.AfterProcessingTime("5s")), lateness="10m")
    .aggregate("per_minute", orders=sl.Count(), revenue=sl.Sum("amount"))
)
revenue.sink("table", database.write("revenue"), rows="upsert")
revenue.late.sink("late", database.write("late_orders"), columns=["user", "amount", "at", "late_by"])

if __name__ == "__main__":
    flow.run(state="state/revenue_table")
