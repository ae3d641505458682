"""Who is asked, and how: an event loop that asks for many keys at once, then one module for each kind of server.

The contract, `Lookup` and `BatchLookup`, stands in `strandline.model.lookups`, where flows are described.
"""
