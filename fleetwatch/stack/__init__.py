"""`manage.py up`: embedded Postgres and Redis, web, worker and beat as supervised children.

In:   the command line. Out:  running processes, one readable log. Rule: every process is a direct
child; stopping it leaves none behind. No Django import but in commands.
"""
