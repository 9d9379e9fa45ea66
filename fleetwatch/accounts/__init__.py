"""People, teams, the organisation, API tokens.

In:   the log-in, the settings page, create_api_token.
Out:  permissions, selectors, visibility (what a request's reader sees of others).
Rule: a secret is kept as its SHA-256 and shown once.
"""
