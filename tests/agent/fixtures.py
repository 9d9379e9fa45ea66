"""What nvidia-smi prints, in the shape of real recordings; every value is made up."""

from datetime import UTC, datetime, timedelta

HEADER = (
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw"
    " [W], power.limit [W]"
)
LOG_START = datetime(2026, 11, 3, 9, tzinfo=UTC)
LOG_START_MS = round(LOG_START.timestamp() * 1000)


def stamp(seconds):
    return (LOG_START + timedelta(seconds=seconds)).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]


def row(seconds, *, index=0, util=100, used=61440, watts=612.0, model="NVIDIA H100 80GB HBM3"):
    return (
        f"{stamp(seconds)}, {index}, {model}, {util} %, {used} MiB, 81559 MiB, {watts:.2f} W,"
        " 700.00 W"
    )


def write(path, lines, header=HEADER):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path
