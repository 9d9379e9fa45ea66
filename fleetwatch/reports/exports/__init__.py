"""Stored reports as files: tables (CSV, Excel) and FOCUS.

Pure: what is stored goes in, text or bytes come out.
"""
