"""What capacity there is for what jobs hold: short or too much, and what fewer GPUs would have
meant.
"""
