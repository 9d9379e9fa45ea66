/* GPM. Part of fake_nvml.c.
 *   gpm_supported.INDEX 0|1     a card before Hopper has none
 *   gpm.INDEX METRIC:VALUE,...  what a metric is between any two samples; `nan`, or eCODE for an error; else 0
 *   gpm_INSTANCE.INDEX          the same for a GPU instance
 */
typedef struct { int index, instance; unsigned int serial; } gpm_sample_t;
typedef struct { unsigned int id; ret_t error; double value; const char *names[3]; } gpm_metric_t;
typedef struct { unsigned int version, count; gpm_sample_t *first, *second; gpm_metric_t metrics[]; } gpm_request_t;
typedef struct { unsigned int version, is_supported; } gpm_support_t;

static unsigned int live_samples, taken_samples;

/* For tests: samples that were not given back. */
unsigned int fake_live_samples(void) { return live_samples; }

ret_t nvmlGpmQueryDeviceSupport(dev_t_ device, gpm_support_t *support) {
    WHOLE(device)
    if (support->version != 1) return 25;
    support->is_supported = (unsigned int)number("gpm_supported", index_of(device), 1);
    return OK;
}

ret_t nvmlGpmSampleAlloc(gpm_sample_t **sample) {
    GUARD(-1)
    *sample = calloc(1, sizeof **sample);
    live_samples++;
    return OK;
}

ret_t nvmlGpmSampleFree(gpm_sample_t *sample) { GUARD(-1) free(sample); live_samples--; return OK; }

ret_t nvmlGpmSampleGet(dev_t_ device, gpm_sample_t *sample) {
    UNCUT(device)
    *sample = (gpm_sample_t){index_of(device), -1, ++taken_samples};
    return OK;
}

ret_t nvmlGpmMigSampleGet(dev_t_ device, unsigned int instance, gpm_sample_t *sample) {
    WHOLE(device)
    *sample = (gpm_sample_t){index_of(device), (int)instance, ++taken_samples};
    return OK;
}

static void answer_metric(const char *text, gpm_metric_t *metric) {
    char copy[2048], *rest = copy, *part;
    metric->error = OK;
    metric->value = 0;
    snprintf(copy, sizeof copy, "%s", text);
    while ((part = strtok_r(rest, ",", &rest))) {
        char *value = strchr(part, ':');
        if (!value || strtoul(part, NULL, 10) != metric->id) continue;
        if (value[1] == 'e') metric->error = atoi(value + 2);
        else metric->value = strtod(value + 1, NULL);
    }
}

/* Refuses what a real driver would answer with nonsense: samples of two GPUs, or in the wrong order. */
ret_t nvmlGpmMetricsGet(gpm_request_t *request) {
    char key[40] = "gpm", text[2048] = "";
    gpm_sample_t *first = request->first, *second = request->second;
    GUARD(first->index)
    if (request->version != 1) return 25;
    if (first->index != second->index || first->instance != second->instance || first->serial >= second->serial) return INVALID;
    if (first->instance >= 0) snprintf(key, sizeof key, "gpm_%d", first->instance);
    look_up(key, first->index, text, sizeof text);
    for (unsigned int at = 0; at < request->count; at++) answer_metric(text, &request->metrics[at]);
    return OK;
}
