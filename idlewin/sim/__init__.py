"""The ports behind which idlewin works, as a seeded world in virtual time.

Serves tests, replay and backtests alike: no threads, no real time, nothing read from outside.
"""
