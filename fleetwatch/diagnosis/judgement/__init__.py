"""What GPUs did, cell by cell, and why: judged from columns. Pure.

In:   windows of nodes, what the ledger says of each five minutes, facts of jobs and GPUs.
Out:  figures of cells, features of longer windows, one cause per lane and cell.
Rule: the first rule of the catalogue that holds; what was not read meets nothing.
"""
