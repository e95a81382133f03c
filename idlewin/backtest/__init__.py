"""Backtest: what a forecaster would have harvested on recorded demand, and what that cost.

The metric is that of docs/forecast.md: harvest as a share of the oracle's, at a budget of late
returns, on a grid of minutes. Every decision rests on its past alone, the price included; the
policies of peers have their settings chosen in hindsight, which favours them.
"""
