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


XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Tue Nov  3 09:00:00 2026</timestamp>
  <driver_version>580.95.05</driver_version>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:3B:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <persistence_mode>Enabled</persistence_mode>
    <uuid>GPU-aaaa</uuid>
    <minor_number>3</minor_number>
    <fb_memory_usage><total>81559 MiB</total><reserved>551 MiB</reserved><used>19818 MiB</used><free>61190 MiB</free></fb_memory_usage>
    <utilization><gpu_util>97 %</gpu_util><memory_util>41 %</memory_util>
      <encoder_util>0 %</encoder_util><decoder_util>N/A</decoder_util></utilization>
    <temperature><gpu_temp>58 C</gpu_temp><memory_temp>71 C</memory_temp></temperature>
    <gpu_power_readings><power_state>P0</power_state><average_power_draw>612.40 W</average_power_draw>
      <instant_power_draw>640.10 W</instant_power_draw><current_power_limit>700.00 W</current_power_limit></gpu_power_readings>
    <module_power_readings><average_power_draw>900.00 W</average_power_draw></module_power_readings>
    <clocks><sm_clock>1755 MHz</sm_clock></clocks>
    <max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>
    <processes>
      <process_info><pid>4711</pid><type>C</type><process_name>python</process_name><used_memory>19260 MiB</used_memory></process_info>
      <process_info><pid>4712</pid><type>C</type><process_name>[Insufficient Permissions]</process_name>
        <used_memory>N/A</used_memory></process_info>
    </processes>
  </gpu>
  <gpu id="00000000:5E:00.0">
    <product_name>Tesla T4</product_name>
    <persistence_mode>Disabled</persistence_mode>
    <uuid>GPU-bbbb</uuid>
    <minor_number>N/A</minor_number>
    <fb_memory_usage><total>15360 MiB</total><used>ERR!</used></fb_memory_usage>
    <utilization><gpu_util>N/A</gpu_util></utilization>
    <power_readings><power_draw>26.78 W</power_draw><enforced_power_limit>70.00 W</enforced_power_limit></power_readings>
  </gpu>
</nvidia_smi_log>
"""
