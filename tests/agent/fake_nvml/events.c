/* Event sets. Part of fake_nvml.c.
 *   events SERIAL:INDEX:TYPE:DATA[:GPU_INSTANCE],...   each is told once, in order of its serial number from 1 on
 *   event_types.INDEX N         what the GPU can tell (8, XID, by default)
 *   event_wait_ms N             how long a wait lasts at most, so that tests need not
 */
typedef struct { unsigned long long types[64]; unsigned int told; } event_set_t;
typedef struct { dev_t_ device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; } event_t;

static unsigned int live_sets;

/* For tests: sets that were not given back. */
unsigned int fake_live_sets(void) { return live_sets; }

ret_t nvmlEventSetCreate(event_set_t **set) { GUARD(-1) *set = calloc(1, sizeof **set); live_sets++; return OK; }
ret_t nvmlEventSetFree(event_set_t *set) { GUARD(-1) free(set); live_sets--; return OK; }

ret_t nvmlDeviceGetSupportedEventTypes(dev_t_ device, unsigned long long *types) { WHOLE(device) *types = number("event_types", index_of(device), 8); return OK; }

ret_t nvmlDeviceRegisterEvents(dev_t_ device, unsigned long long types, event_set_t *set) {
    WHOLE(device)
    if (types & ~number("event_types", index_of(device), 8)) return NOT_SUPPORTED;
    set->types[index_of(device)] = types;
    return OK;
}

static int next_event(event_set_t *set, event_t *event) {
    char text[2048], *rest = text, *part;
    if (!look_up("events", -1, text, sizeof text)) return 0;
    while ((part = strtok_r(rest, ",", &rest))) {
        unsigned int serial, index, instance = ~0u;
        if (sscanf(part, "%u:%u:%llu:%llu:%u", &serial, &index, &event->type, &event->data, &instance) < 4) continue;
        if (serial <= set->told || !(set->types[index] & event->type)) continue;
        set->told = serial;
        event->device = (dev_t_)(long)(index + 1);
        event->gpu_instance = instance;
        event->compute_instance = ~0u;
        return 1;
    }
    return 0;
}

#ifndef POLL_MS /* a benchmark would measure this instead of the agent */
enum { POLL_MS = 5 };
#endif

ret_t nvmlEventSetWait_v2(event_set_t *set, event_t *event, unsigned int timeout_ms) {
    unsigned long long longest = number("event_wait_ms", -1, timeout_ms);
    GUARD(-1)
    for (unsigned long long ms = 0; ms < longest; ms += POLL_MS) {
        if (next_event(set, event)) return OK;
        sleep_ms(POLL_MS);
    }
    return TIMED_OUT;
}
