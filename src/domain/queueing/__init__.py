"""The queues of a worker: their weights, and which of them is served next."""
