"""Columns of time: windows as received, sealed, and read back as numpy arrays.

In:   ingest, through services.append_batch.
Out:  frames.read_windows, selectors.
Rule: lossless. A hot partition goes only after all of it is sealed.
"""
