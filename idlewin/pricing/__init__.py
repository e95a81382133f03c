"""Pricing: what a late return must cost so that a budget of them holds.

Recorded demand is lent again and again at different prices, by the decision rule that runs live,
with forecasts from nothing but the past of each day. Pure, numpy; no clock, no I/O.
"""
