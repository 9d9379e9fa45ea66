"""Memory for people: one function for pages and messages. Pure."""

GB = 1024**3
MB = 1024**2


def gigabytes(count: float) -> str:
    """61 GB, 9.5 GB below ten, 300 MB below one.

    A GB is 2^30 bytes, as NVIDIA counts the memory of its cards: an "H100 80GB" has 81,559 MiB in
    nvidia-smi, which are 80 GB here and would be 86 of 10^9 bytes.
    """
    if count < GB:
        return f"{int(count) // MB} MB"
    in_gb = count / GB
    return f"{in_gb:.0f} GB" if in_gb >= 9.95 else f"{in_gb:.1f} GB"
