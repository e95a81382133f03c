"""The pure core: what a rule means, and what to do next.

Nothing here reads a clock, the network, a file or the environment, logs, sleeps or draws a
random number. The standard library only; ``calendar.py`` alone may use pendulum.
"""
