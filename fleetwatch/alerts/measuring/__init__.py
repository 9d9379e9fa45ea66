"""What conditions measure jobs, GPUs and budgets by."""
