/* Memory of one thread that another one gives back, without a lock for each piece.
 *
 * librdkafka makes every message in the thread that reads from the broker, and the application frees it in its own. In
 * glibc both then wait for the same lock: a consumer of small records spends more than half of its time there, and no
 * broker is ever quick enough to be seen behind it. Here a thread keeps what it frees, and passes it on in lots of
 * `LOT` pieces. Only small pieces are pooled; the rest is glibc's.
 */
#ifndef POOL_H
#define POOL_H
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

#define STEP 32u
#define CLASSES 16u /* up to 512 bytes */
#define LOT 256u
#define SPAN ((size_t)64 << 10) /* of pieces of one size */
#define REGION ((size_t)8 << 30) /* reserved, not used */

struct piece {
    struct piece *next, *next_lot;
};

static struct {
    pthread_mutex_t lock;
    struct piece *lots;
} depots[CLASSES];
static __thread struct {
    struct piece *first;
    unsigned count; /* of those freed here: a lot that came is not counted */
} kept[CLASSES];
static unsigned char class_of_span[REGION / SPAN];
static char *region;
static _Atomic size_t spans;
static pthread_once_t reserved = PTHREAD_ONCE_INIT;

static void reserve(void) {
    void *all = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all != MAP_FAILED) region = all;
    for (unsigned i = 0; i < CLASSES; i++) pthread_mutex_init(&depots[i].lock, NULL);
}

static int is_pooled(const void *p) { return region && (const char *)p >= region && (const char *)p < region + REGION; }
static size_t span_of(const void *p) { return (size_t)((const char *)p - region) / SPAN; }
static size_t room(const void *p) { return (class_of_span[span_of(p)] + 1u) * STEP; }

static struct piece *new_lot(unsigned class) {
    pthread_once(&reserved, reserve);
    pthread_mutex_lock(&depots[class].lock);
    struct piece *lot = depots[class].lots;
    if (lot) depots[class].lots = lot->next_lot;
    pthread_mutex_unlock(&depots[class].lock);
    if (lot || !region) return lot;
    size_t span = spans++, size = (class + 1u) * STEP;
    if (span >= REGION / SPAN) return NULL;
    class_of_span[span] = (unsigned char)class;
    for (size_t at = 0; at + size <= SPAN; at += size) {
        struct piece *one = (struct piece *)(region + span * SPAN + at);
        one->next = lot;
        lot = one;
    }
    return lot;
}

/* Not `malloc` itself: a compiler makes one call of `calloc` of that and a `memset`, inside of `calloc` too. */
static void *take(size_t size) {
    if (size > CLASSES * STEP || size == 0) return __libc_malloc(size);
    unsigned class = (unsigned)((size - 1) / STEP);
    struct piece *one = kept[class].first;
    if (!one) {
        one = new_lot(class);
        if (!one) return __libc_malloc(size);
    }
    kept[class].first = one->next;
    if (kept[class].count) kept[class].count--;
    return one;
}

void *malloc(size_t size) { return take(size); }

void free(void *p) {
    if (!is_pooled(p)) {
        __libc_free(p);
        return;
    }
    unsigned class = class_of_span[span_of(p)];
    struct piece *one = p;
    one->next = kept[class].first;
    kept[class].first = one;
    if (++kept[class].count < LOT) return;
    pthread_mutex_lock(&depots[class].lock);
    one->next_lot = depots[class].lots;
    depots[class].lots = one;
    pthread_mutex_unlock(&depots[class].lock);
    kept[class].first = NULL;
    kept[class].count = 0;
}

void *calloc(size_t count, size_t size) {
    if (count && size > CLASSES * STEP / count) return __libc_calloc(count, size);
    void *p = take(count * size);
    return p ? memset(p, 0, count * size) : p;
}

void *realloc(void *p, size_t size) {
    if (!p) return malloc(size);
    if (!is_pooled(p)) return __libc_realloc(p, size);
    if (size && size <= room(p)) return p;
    void *larger = malloc(size);
    if (larger) {
        memcpy(larger, p, room(p) < size ? room(p) : size);
        free(p);
    }
    return larger;
}
#endif
