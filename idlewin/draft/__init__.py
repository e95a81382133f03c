"""A first rule for each pool of cards, drafted from what a cluster and its Prometheus show.

Pure: facts in, text out. What is looked at is adapters/inventory.py's.
"""
