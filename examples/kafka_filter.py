"""Kafka to Kafka in three lines: the orders that were paid. No state is kept but how far it is."""

import os

import strandline as sl

kafka = sl.Kafka(os.environ.get("KAFKA", "127.0.0.1:9092"))
flow = sl.Flow("paid")

orders = flow.source(
    "orders", kafka.read("orders", format="json", schema="user string, status string"), time=sl.Arrival()
)
paid = orders.where("status = 'paid'").select("user", "status")
paid.sink("paid", kafka.write("paid", key="user", create={"partitions": 2}))

if __name__ == "__main__":
    flow.run(state="state/paid")
