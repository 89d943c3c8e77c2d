"""Sizes in words, as the perf programs take them."""
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """Bytes of "8", "32K", "2M" or "1G"; ValueError: of something else."""
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
