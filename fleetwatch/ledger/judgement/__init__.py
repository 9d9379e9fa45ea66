"""The judgement, pure: columns, allocations and events in; one state per GPU-millisecond out."""
