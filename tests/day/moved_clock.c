/* Another time for a process: its wall clock is moved by as many nanoseconds as the file named by
 * MOVED_CLOCK holds, at every moment. Waits go by the monotonic clock, which is left alone.
 * cc -shared -fPIC; LD_PRELOAD. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static const volatile int64_t *offset_ns;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("MOVED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset_ns = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || !offset_ns || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t moved = now->tv_sec * SECOND_NS + now->tv_nsec + *offset_ns;
    now->tv_sec = moved / SECOND_NS;
    now->tv_nsec = moved % SECOND_NS;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept)
        *kept = now.tv_sec;
    return now.tv_sec;
}
