"""Kafka to Kafka: orders in, revenue per user and minute out, each once for readers with read_committed."""

import os

import strandline as sl

kafka = sl.Kafka(os.environ.get("KAFKA", "127.0.0.1:9092"))
flow = sl.Flow("revenue")

orders = flow.source(
    "orders",
    kafka.read("orders", format="json", schema="user string, amount double, at timestamp"),
    time="at",
    watermark=sl.Bounded("20s", idle_after="1m"),  # for each partition; one that is idle holds nothing back
)
revenue = (
    orders.key_by("user")
    .window(sl.Tumbling("1m"), lateness="10m", mode="retracting")
    .aggregate("per_minute", orders=sl.Count(), revenue=sl.Sum("amount"))
)
revenue.sink("revenue", kafka.write("revenue", key="user", create={"partitions": 2}), rows="changelog")
revenue.late.sink("late", kafka.write("orders-late", key="user", create={"partitions": 1}))
orders.rejected.sink("rejected", kafka.write("orders-rejected", create={"partitions": 1}))

if __name__ == "__main__":
    flow.run(state="state/revenue")
