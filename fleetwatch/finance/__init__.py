"""What is paid, beside what the ledger says: invoices, commitments, policies that are only tried.

In:   figures of the ledger, commitments, imported invoices.
Out:  what of a difference is whose, lines of it booked, lines of the fleet's report.
Rule: no room below knows it; nothing here changes a dollar of the ledger.
"""
