/* MIG and what GPUs and MIG devices have in common: who they are, and their memory. Part of fake_nvml.c.
 *   mig.INDEX 1                 the GPU is cut
 *   instances.INDEX SLOT:GPU_INSTANCE:COMPUTE_INSTANCE:SMS:MEMORY_MB:SLICES:COMPUTE_SLICES[:PROFILE],...
 *   memory_GPU_INSTANCE.INDEX   bytes used there
 */
enum { SLOTS = 7 };

typedef struct { int gpu, compute, sms, megabytes, slices, compute_slices; char profile[32]; } instance_t;
typedef struct { unsigned int sms, copy, decoders, encoders, jpegs, ofas, slices, compute_slices; unsigned long long megabytes; } attributes_t;

static int instance_at(int index, int slot, instance_t *found) {
    char text[1024], *rest = text, *part;
    if (!number("mig", index, 0) || !look_up("instances", index, text, sizeof text)) return 0;
    while ((part = strtok_r(rest, ",", &rest))) {
        int at = -1;
        found->profile[0] = 0;
        int read = sscanf(part, "%d:%d:%d:%d:%d:%d:%d:%31s", &at, &found->gpu, &found->compute, &found->sms, &found->megabytes, &found->slices, &found->compute_slices, found->profile);
        if (read >= 7 && at == slot) return 1;
    }
    return 0;
}

/* A MIG device that was destroyed leaves a handle that means nothing. */
#define ALIVE(device, instance) \
    instance_t instance; \
    GUARD(index_of(device)) \
    if (slot_of(device) >= 0 && !instance_at(index_of(device), slot_of(device), &instance)) return INVALID;

ret_t nvmlDeviceGetMigMode(dev_t_ device, unsigned int *current, unsigned int *pending) {
    WHOLE(device)
    if (!number("mig_capable", index_of(device), 1)) return NOT_SUPPORTED;
    *current = *pending = (unsigned int)number("mig", index_of(device), 0);
    return OK;
}

ret_t nvmlDeviceGetMaxMigDeviceCount(dev_t_ device, unsigned int *count) { WHOLE(device) *count = SLOTS; return OK; }

ret_t nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ device, unsigned int slot, dev_t_ *mig) {
    instance_t instance;
    WHOLE(device)
    if (!instance_at(index_of(device), (int)slot, &instance)) return NOT_FOUND;
    *mig = (dev_t_)((long)(slot + 1) << 16 | (long)(index_of(device) + 1));
    return OK;
}

ret_t nvmlDeviceGetGpuInstanceId(dev_t_ device, unsigned int *id) {
    ALIVE(device, instance)
    if (slot_of(device) < 0) return NOT_SUPPORTED;
    *id = (unsigned int)instance.gpu;
    return OK;
}

ret_t nvmlDeviceGetComputeInstanceId(dev_t_ device, unsigned int *id) {
    ALIVE(device, instance)
    if (slot_of(device) < 0) return NOT_SUPPORTED;
    *id = (unsigned int)instance.compute;
    return OK;
}

ret_t nvmlDeviceGetAttributes_v2(dev_t_ device, attributes_t *attributes) {
    ALIVE(device, instance)
    if (slot_of(device) < 0) return NOT_SUPPORTED;
    memset(attributes, 0, sizeof *attributes);
    attributes->sms = (unsigned int)instance.sms;
    attributes->slices = (unsigned int)instance.slices;
    attributes->compute_slices = (unsigned int)instance.compute_slices;
    attributes->megabytes = (unsigned long long)instance.megabytes;
    return OK;
}

ret_t nvmlDeviceGetUUID(dev_t_ device, char *text, unsigned int size) {
    ALIVE(device, instance)
    if (slot_of(device) >= 0) snprintf(text, size, "MIG-00000000-0000-0000-%04d-%012d", instance.gpu, index_of(device) * 100 + instance.compute);
    else snprintf(text, size, "GPU-00000000-0000-0000-0000-%012d", index_of(device) + (int)number("first", -1, 0));
    return OK;
}

ret_t nvmlDeviceGetName(dev_t_ device, char *text, unsigned int size) {
    char model[64] = "NVIDIA H100 80GB HBM3";
    ALIVE(device, instance)
    int has_profile = slot_of(device) >= 0 && instance.profile[0];
    look_up("model", index_of(device), model, sizeof model);
    snprintf(text, size, "%s%s%s", model, has_profile ? " MIG " : "", has_profile ? instance.profile : "");
    return OK;
}

#ifndef OLD_DRIVER
ret_t nvmlDeviceGetMemoryInfo_v2(dev_t_ device, memory_v2_t *memory) {
    char key[40] = "memory";
    ALIVE(device, instance)
    if (memory->version != (sizeof *memory | 2u << 24)) return 25;
    memory->total = number("total", index_of(device), 85520809984ull);
    memory->reserved = 671088640ull;
    if (slot_of(device) >= 0) {
        memory->total = (unsigned long long)instance.megabytes << 20;
        memory->reserved = 0;
        snprintf(key, sizeof key, "memory_%d", instance.gpu);
    }
    memory->used = number(key, index_of(device), 0);
    memory->free = memory->total - memory->reserved - memory->used;
    return OK;
}
#endif
