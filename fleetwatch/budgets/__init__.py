"""Room `budgets`: what may be spent in a month, what will be, and what was unusual.

Reads dollars through costs and keeps hours of them; the rest is arithmetic on those.
Imports: lib, accounts, jobs, costs, operations. Imported by: alerts, reports, dashboard, api.
"""
