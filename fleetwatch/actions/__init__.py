"""What is done about incidents that nobody answers: idle jobs are ended, nodes with a broken GPU
drained; off by default. Each kind is a file of kinds/, named there, in models.Policy.Kind and in
the API's vocabulary.

In:   incidents, people, deliveries, what agents say became of orders.
Out:  warnings, orders to agents, requests to webhooks; a row per ladder with its end.
Rule: nothing is acted on of which its owner, or who runs the fleet, was not told twice, with time
      to answer.
"""
