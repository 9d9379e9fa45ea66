"""What the columns that judging reads are called for people. Pure."""

LABELS = {
    "util_mean": "utilisation, mean",
    "util_max": "utilisation, highest",
    "util_zero_fraction": "readings at 0 % utilisation",
    "spin_fraction": "busy near idle power",
    "gr_engine_active": "graphics engine active",
    "sm_active": "SM active, mean",
    "sm_active_max": "SM active, highest",
    "process_sm_ratio": "SM use of its processes",
    "tensor_active": "tensor active",
    "dram_active": "memory bandwidth in use",
    "fp64_active": "FP64 active",
    "memory_used_bytes": "memory in use",
    "power_w": "power",
    "energy_j": "energy",
    "encoder_ratio": "video encoder in use",
    "decoder_ratio": "video decoder in use",
    "jpeg_ratio": "JPEG engine in use",
    "ofa_ratio": "optical flow engine in use",
    "pcie_rx_bytes_s": "PCIe traffic to the GPU",
    "pcie_tx_bytes_s": "PCIe traffic from the GPU",
    "nvlink_rx_bytes_s": "NVLink traffic to the GPU",
    "nvlink_tx_bytes_s": "NVLink traffic from the GPU",
    "process_count": "processes",
    "live_process_count": "processes that live",
}


def label(column: str) -> str:
    """The column in words; one without words of its own by its name."""
    return LABELS.get(column, column.replace("_", " "))
