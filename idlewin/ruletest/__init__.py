"""Tests of rules, as an operator writes them beside a rule: ``*.test.yaml``.

What such a file may say is written.py's, how it is read and bound to its rule read.py's, what a
test is once it can be run trial.py's. It is run in a simulated cluster: ``idlewin/sim/tried.py``.
"""
