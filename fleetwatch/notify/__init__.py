"""How people are reached: channels, transports, deliveries.

In:   services.enqueue(channels, message, key), from alerts and reports.
Out:  Slack, e-mail.
Rule: every send is a row; retried with back-off; a permanent error disables the channel, visibly.
"""
