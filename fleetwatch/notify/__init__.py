"""How people are reached: channels, transports, deliveries.

In:   services.enqueue(recipients, message, key=, thread=), from alerts and reports.
Out:  Slack, Teams, e-mail, PagerDuty, Alertmanager, webhooks.
Rule: every send is a row, in order within its thread and held by no other; retried with back-off; a
      permanent error disables the channel, visibly.
"""
