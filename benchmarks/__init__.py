"""Benchmarks: what FleetWatch costs and how fast it answers, as ratios within one run. No timed
test is in the suite.

A bench is one module `benchmarks/bench_<name>.py` with one function:

    def run(size: Size) -> list[Table]:
        \"\"\"What it measures, in one sentence: the page prints it above the tables.\"\"\"

- `Size` and `Table` are in `benchmarks/tables.py`. `Size.QUICK` takes at most a minute or two,
  `Size.FULL` what it takes.
- A table may carry `Goal`s: the lines of the target table that it decides, each measured value
  beside its must and its moonshot. A goal that is missed is told with how much; it fails nothing,
  because machines differ.
- Raise `BenchError` when the measurement itself is worth nothing: answers that should agree do not,
  a peer can't be started.
- The runner calls `run` in a process of its own (`django.setup()` is the bench's affair: see
  `servers.running_hub`), so a bench starts and stops what it needs, and prints what it likes while
  it runs. One at a time: only `BESIDE` (__main__.py) warm up beside the others. What is prepared
  and not measured may take all cores (`apart.side_by_side`).
- CPU seconds (`cpu.py`) beside the clock: the machine may be shared. Rounds of things compared take
  turns; medians of >= 3.

`make bench` runs all of them quickly, `make bench-full` thoroughly; both write docs/benchmarks.md.
One alone: `python -m benchmarks --size quick NAME [NAME ...]` (writes no page; with
`--page docs/benchmarks.md` its section there).
"""
