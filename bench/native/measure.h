/* What both drivers share: clocks, CPU time of a process, exact percentiles, CRC-32C and options. */
#ifndef MEASURE_H
#define MEASURE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t wall_clock_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* User and system time of all threads of a process, the dead ones included. 0 for pid 0. To a fraction of a scheduler's
 * tick, where /proc/PID/stat counts in hundredths of a second: too coarse for a run that reads a topic in half a second. */
static inline double process_cpu_s(int pid) {
    clockid_t clock;
    struct timespec t;
    if (!pid || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double process_rss_mb(int pid) {
    char path[64];
    unsigned long total, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = pid ? fopen(path, "r") : NULL;
    if (!file) return 0;
    if (fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

/* Of several processes, given as "12,34": a cluster is measured as a whole. */
static inline double sum_over(const char *pids, double (*figure)(int)) {
    double sum = 0;
    while (*pids) {
        char *end;
        int pid = (int)strtol(pids, &end, 10);
        if (end == pids) break;
        sum += figure(pid);
        pids = *end ? end + 1 : end;
    }
    return sum;
}

static inline double brokers_cpu_s(const char *pids) { return sum_over(pids, process_cpu_s); }
static inline double brokers_rss_mb(const char *pids) { return sum_over(pids, process_rss_mb); }

/* ---- percentiles: every sample is kept, so that they are exact ---------------------------------------------------- */

struct samples {
    uint64_t *ns;
    size_t count, capacity;
};

static inline void add_sample(struct samples *s, uint64_t ns) {
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 1 << 16;
        s->ns = realloc(s->ns, s->capacity * sizeof *s->ns);
    }
    s->ns[s->count++] = ns;
}

static inline int compare_samples(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static inline double percentile_ms(const struct samples *s, double share) {
    if (s->count == 0) return 0;
    size_t at = (size_t)(share * (double)s->count);
    return (double)s->ns[at < s->count ? at : s->count - 1] / 1e6;
}

static inline void print_latencies(struct samples *s) {
    qsort(s->ns, s->count, sizeof *s->ns, compare_samples);
    printf("\"p50_ms\": %.3f, \"p95_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f", percentile_ms(s, 0.5),
           percentile_ms(s, 0.95), percentile_ms(s, 0.99), percentile_ms(s, 0.999), percentile_ms(s, 1));
}

/* ---- CRC-32C, bit by bit: it runs once per partition at the start -------------------------------------------------- */

static inline uint32_t crc32c(const char *bytes, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint8_t)bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* ---- options: --name value ---------------------------------------------------------------------------------------- */

struct option_spec {
    const char *name;
    const char **text;
    int *number;
    double *real;
};

#define TEXT(name, target) {name, &(target), NULL, NULL}
#define NUMBER(name, target) {name, NULL, &(target), NULL}
#define REAL(name, target) {name, NULL, NULL, &(target)}

static inline void read_options(int argc, char **argv, const struct option_spec *specs) {
    for (int i = 1; i < argc; i += 2) {
        const struct option_spec *spec = specs;
        while (spec->name && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, spec->name) != 0)) spec++;
        if (!spec->name || i + 1 == argc) {
            fprintf(stderr, "%s: unknown option or missing value: %s\n", argv[0], argv[i]);
            exit(2);
        }
        if (spec->text) *spec->text = argv[i + 1];
        if (spec->number) *spec->number = atoi(argv[i + 1]);
        if (spec->real) *spec->real = atof(argv[i + 1]);
    }
}
#endif
