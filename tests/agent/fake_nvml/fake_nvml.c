/* A small libnvidia-ml.so.1 for tests: the real pynvml talks to it.
 *
 * What it answers stands in the file named by FAKE_NVML, read anew at each call, one
 * `key value` a line. Keys: `name` for all GPUs, `name.INDEX` for one (which wins).
 *   count N                     how many GPUs;  first N: the number in the first one's UUID
 *   err.FUNCTION[.INDEX] CODE   that call returns CODE;  hang.FUNCTION[.INDEX] MS: it takes so long
 *   util power energy ...       what the calls return, in NVML's units
 *   samples.INDEX US:VALUE,...  the sample buffer;  process_samples.INDEX US:PID:SM,...
 *   processes.INDEX PID:BYTES[:GPU_INSTANCE:COMPUTE_INSTANCE],...
 * The keys of GPM, field values, MIG and events stand in the files beside this one.
 * -DOLD_DRIVER leaves out the calls that drivers before 510 do not have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int ret_t;
typedef void *dev_t_;

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMED_OUT = 10, LOST = 15 };

typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned int pid; unsigned long long memory; unsigned int gpu_instance, compute_instance; } process_t;
typedef union { double d; unsigned int ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us; } value_t;
typedef struct { unsigned long long stamp; value_t value; } sample_t;
typedef struct { char legacy[16]; unsigned int domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;

/* A handle is the GPU's place + 1, for a MIG device with its slot + 1 above. */
static int index_of(dev_t_ device) { return (int)((long)device & 0xffff) - 1; }
static int slot_of(dev_t_ device) { return (int)((long)device >> 16) - 1; }

#ifndef LOOK_UP /* benchmarks/live_nvml.c answers from the clock instead */
/* The value of the longest matching key; 0 when there is none. */
static int look_up(const char *name, int index, char *value, size_t size) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[8192], wanted[256];
    int found = 0;
    if (!file) return 0;
    snprintf(wanted, sizeof wanted, "%s.%d", name, index);
    while (fgets(line, sizeof line, file)) {
        char *space = strchr(line, ' ');
        if (!space) continue;
        *space = 0;
        space[strcspn(space + 1, "\n") + 1] = 0;
        if (!strcmp(line, wanted) || (found < 2 && !strcmp(line, name))) {
            found = strcmp(line, wanted) ? 1 : 2;
            snprintf(value, size, "%s", space + 1);
        }
    }
    fclose(file);
    return found;
}
#endif

static unsigned long long number(const char *name, int index, unsigned long long otherwise) {
    char value[256];
    return look_up(name, index, value, sizeof value) ? strtoull(value, NULL, 10) : otherwise;
}

static void sleep_ms(unsigned long long ms) {
    struct timespec length = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&length, NULL);
}

enum { MAX_FUNCTIONS = 64 };
static struct { const char *name; unsigned int calls; } functions[MAX_FUNCTIONS];

/* For tests: how often the function was called. */
unsigned int fake_calls(const char *name) {
    for (int at = 0; at < MAX_FUNCTIONS && functions[at].name; at++)
        if (!strcmp(functions[at].name, name)) return functions[at].calls;
    return 0;
}

static void count_call(const char *name) {
    int at = 0;
    while (at < MAX_FUNCTIONS - 1 && functions[at].name && strcmp(functions[at].name, name)) at++;
    functions[at].name = name;
    functions[at].calls++;
}

static ret_t error_of(const char *function, int index) {
    char name[200];
    unsigned long long ms;
    count_call(function);
    snprintf(name, sizeof name, "hang.%s", function);
    if ((ms = number(name, index, 0))) sleep_ms(ms);
    snprintf(name, sizeof name, "err.%s", function);
    if (index >= 0 && number("lost", index, 0)) return LOST;
    return (ret_t)number(name, index, OK);
}

#define GUARD(index) { ret_t error = error_of(__func__, index); if (error) return error; }
/* What MIG devices do not have; and what a GPU does not have either while it is cut into some. */
#define WHOLE(device) { GUARD(index_of(device)) if (slot_of(device) >= 0) return NOT_SUPPORTED; }
#define UNCUT(device) { WHOLE(device) if (number("mig", index_of(device), 0)) return NOT_SUPPORTED; }

ret_t nvmlInitWithFlags(unsigned int flags) { (void)flags; GUARD(-1) return OK; }
ret_t nvmlShutdown(void) { GUARD(-1) return OK; }

const char *nvmlErrorString(ret_t code) {
    static char text[32];
    snprintf(text, sizeof text, "fake error %d", code);
    return text;
}

ret_t nvmlSystemGetDriverVersion(char *text, unsigned int size) { GUARD(-1) snprintf(text, size, "580.95.05"); return OK; }
ret_t nvmlSystemGetNVMLVersion(char *text, unsigned int size) { GUARD(-1) snprintf(text, size, "13.580.95"); return OK; }
ret_t nvmlSystemGetCudaDriverVersion_v2(int *version) { GUARD(-1) *version = 13010; return OK; }
ret_t nvmlDeviceGetCount_v2(unsigned int *count) { GUARD(-1) *count = (unsigned int)number("count", -1, 1); return OK; }

ret_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, dev_t_ *device) {
    if (index >= number("count", -1, 1)) return INVALID;
    GUARD((int)index)
    *device = (dev_t_)(long)(index + 1);
    return OK;
}

ret_t nvmlDeviceGetPciInfo_v3(dev_t_ device, pci_t *pci) {
    GUARD(index_of(device))
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x10 + index_of(device));
    return OK;
}

#define NUMBER_CALL(function, type, key, otherwise) \
    ret_t function(dev_t_ device, type *value) { WHOLE(device) *value = (type)number(key, index_of(device), otherwise); return OK; }

NUMBER_CALL(nvmlDeviceGetPowerUsage, unsigned int, "power", 69850)
NUMBER_CALL(nvmlDeviceGetEnforcedPowerLimit, unsigned int, "limit", 700000)
NUMBER_CALL(nvmlDeviceGetPersistenceMode, unsigned int, "persistence", 1)
NUMBER_CALL(nvmlDeviceGetMinorNumber, unsigned int, "minor", 0)
#ifndef OLD_DRIVER
NUMBER_CALL(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy", 5000)
#endif

ret_t nvmlDeviceGetNumGpuCores(dev_t_ device, unsigned int *value) { UNCUT(device) *value = (unsigned int)number("cores", index_of(device), 16896); return OK; }
ret_t nvmlDeviceGetCudaComputeCapability(dev_t_ device, int *major, int *minor) { GUARD(index_of(device)) *major = (int)number("major", -1, 9); *minor = (int)number("revision", -1, 0); return OK; }

ret_t nvmlDeviceGetTemperature(dev_t_ device, int sensor, unsigned int *value) {
    (void)sensor;
    WHOLE(device)
    *value = (unsigned int)number("temperature", index_of(device), 34);
    return OK;
}

ret_t nvmlDeviceGetClockInfo(dev_t_ device, int kind, unsigned int *value) {
    WHOLE(device)
    *value = kind == 1 ? (unsigned int)number("clock", index_of(device), 345) : 0;
    return OK;
}

ret_t nvmlDeviceGetMaxClockInfo(dev_t_ device, int kind, unsigned int *value) {
    WHOLE(device)
    *value = kind == 1 ? (unsigned int)number("clock_max", index_of(device), 1980) : 0;
    return OK;
}

ret_t nvmlDeviceGetUtilizationRates(dev_t_ device, utilization_t *rates) {
    UNCUT(device)
    rates->gpu = (unsigned int)number("util", index_of(device), 0);
    rates->memory = (unsigned int)number("util_memory", index_of(device), 0);
    return OK;
}

/* `samples_sized 1`: this driver insists that its caller asks for the length first. */
ret_t nvmlDeviceGetSamples(dev_t_ device, int kind, unsigned long long last_us, int *type, unsigned int *count, sample_t *samples) {
    char text[4096], *rest = text, *part;
    unsigned int found = 0, room = *count;
    (void)kind;
    UNCUT(device)
    *type = 1;
    if (!look_up("samples", index_of(device), text, sizeof text)) return NOT_FOUND;
    while ((part = strtok_r(rest, ",", &rest))) {
        unsigned long long stamp = strtoull(part, &part, 10);
        if (stamp <= last_us) continue;
        if (samples && found < room) {
            samples[found].stamp = stamp;
            samples[found].value.ull = 0;
            samples[found].value.ui = (unsigned int)strtoul(part + 1, NULL, 10);
        }
        found++;
    }
    *count = found;
    if (samples && room != found && number("samples_sized", -1, 0)) return INVALID;
    return !found ? NOT_FOUND : samples && found > room ? TOO_SMALL : OK;
}

#define RATIO_CALL(function, key) \
    ret_t function(dev_t_ device, unsigned int *percent, unsigned int *period_us) { \
        UNCUT(device) *percent = (unsigned int)number(key, index_of(device), 0); *period_us = 166667; return OK; }
#ifndef OLD_DRIVER
RATIO_CALL(nvmlDeviceGetEncoderUtilization, "encoder")
RATIO_CALL(nvmlDeviceGetDecoderUtilization, "decoder")
RATIO_CALL(nvmlDeviceGetJpgUtilization, "jpeg")
RATIO_CALL(nvmlDeviceGetOfaUtilization, "ofa")
#endif

#include "mig.c"
#include "processes.c"
#ifndef OLD_DRIVER
#include "gpm.c"
#include "fields.c"
#include "events.c"
#endif
