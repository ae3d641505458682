"""Files to Kafka: each line of each file that is put into a folder becomes one message, once."""

import os

import strandline as sl

kafka = sl.Kafka(os.environ.get("KAFKA", "127.0.0.1:9092"))
flow = sl.Flow("files_to_kafka")

orders = flow.source(
    "orders",
    sl.Files(os.environ.get("ORDERS", "data/orders")).read(
        format="json", schema="user string, amount double, at timestamp"
    ),
    time="at",
    watermark=sl.Bounded("20s"),
)
orders.sink("orders", kafka.write("orders", key="user", create={"partitions": 2}))
orders.rejected.sink("rejected", kafka.write("orders-rejected", create={"partitions": 1}))

if __name__ == "__main__":
    flow.run(state="state/files_to_kafka")
