/* Who holds the GPU. Part of fake_nvml.c; keys: processes, graphics, mps, process_samples. */
typedef struct { unsigned int pid; unsigned long long stamp; unsigned int sm, memory, encoder, decoder; } process_sample_t;

static ret_t list(const char *key, dev_t_ device, unsigned int *count, process_t *processes) {
    char text[4096], *rest = text, *part;
    unsigned int found = 0, room = *count;
    instance_t instance;
    int is_instance = slot_of(device) >= 0;
    if (is_instance && !instance_at(index_of(device), slot_of(device), &instance)) return INVALID;
    if (!is_instance && number("mig", index_of(device), 0) && number("unprivileged", index_of(device), 0)) return 4;
    if (look_up(key, index_of(device), text, sizeof text))
        while ((part = strtok_r(rest, ",", &rest))) {
            char memory[24] = "";
            process_t one = {0, 0, ~0u, ~0u};
            sscanf(part, "%u:%23[^:]:%u:%u", &one.pid, memory, &one.gpu_instance, &one.compute_instance);
            /* a dash: the driver may not tell the memory */
            one.memory = memory[0] == '-' ? ~0ull : strtoull(memory, NULL, 10);
            if (is_instance && (one.gpu_instance != (unsigned int)instance.gpu || one.compute_instance != (unsigned int)instance.compute)) continue;
            if (processes && found < room) processes[found] = one;
            found++;
        }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}

#ifdef OLD_DRIVER
#define LIST_CALL(function, key) ret_t function##_v2(dev_t_ device, unsigned int *count, process_t *processes) { GUARD(index_of(device)) return list(key, device, count, processes); }
#else
#define LIST_CALL(function, key) ret_t function##_v3(dev_t_ device, unsigned int *count, process_t *processes) { GUARD(index_of(device)) return list(key, device, count, processes); }
#endif
LIST_CALL(nvmlDeviceGetComputeRunningProcesses, "processes")
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses, "graphics")
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses, "mps")

/* Without a sample it succeeds with nothing at all, as some drivers do: pynvml raises that as an error of value 0. */
ret_t nvmlDeviceGetProcessUtilization(dev_t_ device, process_sample_t *samples, unsigned int *count, unsigned long long last_us) {
    char text[4096], *rest = text, *part;
    unsigned int found = 0, room = *count;
    UNCUT(device)
    if (look_up("process_samples", index_of(device), text, sizeof text))
        while ((part = strtok_r(rest, ",", &rest))) {
            process_sample_t one = {0};
            sscanf(part, "%llu:%u:%u", &one.stamp, &one.pid, &one.sm);
            if (one.stamp <= last_us) continue;
            if (samples && found < room) samples[found] = one;
            found++;
        }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}
