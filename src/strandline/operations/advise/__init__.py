"""What a sample of events says of bound, lateness and ttl: columns in, advice out; only `reading` opens files.

sample     events as columns, in the order in which they arrived
behind     how far behind the watermark each event comes, judged as the engine judges
choosing   the least bound that is enough, and the roundest one near it
keys       how many keys there are, how uneven, and how long they fall silent
advice     all of it together
"""
