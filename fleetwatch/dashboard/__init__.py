"""Pages that read across apps.

In:   selectors of every app below.
Out:  HTML, figures (figures.py is pure: rows -> Plotly figure).
Rule: a view parses, permits, selects, renders; no query in a template.
"""
