"""Effects that happen once, under fire.

`python -m chaos.servers` kills, stops and cuts off those who publish to Kafka, PostgreSQL, Redis and a server of payments,
kills these servers, and kills a whole flow between them. A reader beside it judges, and what is there in the end.
"""
