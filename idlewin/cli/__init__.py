"""The command line: one file a verb, with a function of the same name; app.py lists them."""
