"""The governance plane: from one file about cards, tenants and classes of work to its manifests.

Pure but for reading that file: ``written`` is what it may say, ``read`` judges it, ``model`` is
what follows from it, and ``kueue``, ``policies`` and ``rules`` are the objects; ``render`` puts
them into files.
"""
