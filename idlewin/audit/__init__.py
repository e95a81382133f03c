"""``idlewin audit``: who is on the cards past whom, and what looks like a limit and is none.

Pure: facts in, findings out.
"""
