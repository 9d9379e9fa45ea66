"""What is done about incidents that nobody answers: jobs that are ended, off by default.

In:   incidents, people, deliveries, what agents say became of orders.
Out:  warnings, orders to agents, requests to webhooks; a row per ladder with its end.
Rule: nothing is acted on whose owner was not told twice, with time to answer.
"""
