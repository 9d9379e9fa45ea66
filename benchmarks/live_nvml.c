/* The fake driver of the tests, answering from the clock instead of a file: a stub that costs next to nothing, with
 * numbers that move as a training job's do (a benchmark of bytes on the wire needs noise).
 * FAKE_COUNT: how many GPUs. FAKE_PIDS: one process a GPU, comma-separated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_UP
#define POLL_MS 1000 /* waits without looking */
static int index_of(void *device);
static int look_up(const char *name, int index, char *value, size_t size);
#include "../tests/agent/fake_nvml/fake_nvml.c"

/* Drivers keep a hundred samples, and whoever asks each second gets the six that he has not seen: no more are made. */
enum { SAMPLE_US = 166667, SAMPLES = 12 };

static unsigned long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* 0 to range - 1, the same for the same number (a step of splitmix64). */
static unsigned long long noise(unsigned long long number, unsigned long long range) {
    number = (number + 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    number = (number ^ number >> 27) * 0x94d049bb133111ebull;
    return (number ^ number >> 31) % range;
}

/* A cycle of 7 s: busy, with a dip for the data loader. */
static unsigned long long util_at(unsigned long long us, int index) {
    unsigned long long phase = (us / 1000 + (unsigned long long)index * 900) % 7000;
    return phase < 700 ? noise(us / SAMPLE_US, 8) : 88 + noise(us / SAMPLE_US + (unsigned long long)index, 13);
}

static int put(char *value, size_t size, unsigned long long number) {
    snprintf(value, size, "%llu", number);
    return 2;
}

static int put_samples(char *value, size_t size, unsigned long long us, int index) {
    size_t used = 0;
    for (unsigned long long tick = us / SAMPLE_US - (SAMPLES - 1); tick <= us / SAMPLE_US && used + 32 < size; tick++)
        used += (size_t)snprintf(value + used, size - used, "%s%llu:%llu", used ? "," : "", tick * SAMPLE_US, util_at(tick * SAMPLE_US, index));
    return 2;
}

static int put_process(char *value, size_t size, int index) {
    const char *pid = getenv("FAKE_PIDS");
    for (int skipped = 0; pid && skipped < index; skipped++)
        pid = strchr(pid, ',') ? strchr(pid, ',') + 1 : NULL;
    if (!pid) return 0;
    snprintf(value, size, "%d:60129542144", atoi(pid));
    return 2;
}

/* What NVML tells of SMs, memory and links: percent of the metrics 1 to 13, MiB a second of 20 to 61. */
static int put_gpm(char *value, size_t size, unsigned long long place) {
    static const int metrics[] = {1, 2, 3, 5, 10, 12, 13, 20, 21, 60, 61};
    static const int levels[] = {93, 71, 40, 33, 41, 12, 21, 900, 400, 80000, 80000};
    size_t used = 0;
    for (size_t at = 0; at < sizeof metrics / sizeof *metrics; at++)
        used += (size_t)snprintf(value + used, size - used, "%s%d:%.3f", used ? "," : "", metrics[at], levels[at] * (0.8 + noise(place + at * 977, 100000) * 2e-6));
    return 2;
}

static int look_up(const char *name, int index, char *value, size_t size) {
    unsigned long long us = now_us(), place = us / 1000000 * 64 + (unsigned long long)(index + 1);
    if (!strncmp(name, "err.", 4) || !strncmp(name, "hang.", 5) || !strcmp(name, "lost")) return 0;
    if (!strcmp(name, "count")) return put(value, size, getenv("FAKE_COUNT") ? strtoull(getenv("FAKE_COUNT"), NULL, 10) : 8);
    if (!strcmp(name, "util")) return put(value, size, util_at(us, index));
    if (!strcmp(name, "util_memory")) return put(value, size, 30 + noise(place, 20));
    if (!strcmp(name, "power")) return put(value, size, 560000 + noise(place + 7, 120000));
    if (!strcmp(name, "energy")) return put(value, size, us / 1000 * 620 + noise(place, 30000));
    if (!strcmp(name, "memory")) return put(value, size, 60129542144ull + noise(us / 60000000, 4) * 2097152);
    if (!strcmp(name, "temperature")) return put(value, size, 58 + noise(us / 20000000 + (unsigned long long)index, 6));
    if (!strcmp(name, "clock")) return put(value, size, 1755 + 15 * noise(place + 3, 12));
    if (!strcmp(name, "minor")) return put(value, size, (unsigned long long)index);
    if (!strcmp(name, "samples")) return put_samples(value, size, us, index);
    if (!strcmp(name, "processes")) return put_process(value, size, index);
    if (!strcmp(name, "gpm")) return put_gpm(value, size, place);
    if (!strcmp(name, "fields")) return snprintf(value, size, "74:q:%llu,82:u:%llu", us * 30, 70 + noise(us / 20000000, 5)) > 0 ? 2 : 0;
    return 0;
}
