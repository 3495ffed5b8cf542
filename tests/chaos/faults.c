/* Loaded into a node before the C library (LD_PRELOAD): a disk that is full or fails, and a clock that is wrong.
 *
 * What is wrong is read from a small file that is mapped into memory, so that a test changes it while the node runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int32_t sync_fails, disk_is_full;
    int64_t clock_offset_s;
};

static const struct faults *faults(void) {
    static const struct faults none;
    static const struct faults *mapped;
    if (!mapped) {
        const char *path = getenv("OTTLA_TEST_FAULTS");
        int fd = path ? open(path, O_RDONLY) : -1;
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        mapped = at == MAP_FAILED ? &none : at;
    }
    return mapped;
}

#define REAL(name, type) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, name)
#define FAIL(code) do { errno = code; return -1; } while (0)

typedef int (*sync_fn)(int);
int fdatasync(int fd) { REAL("fdatasync", sync_fn); if (faults()->sync_fails) FAIL(EIO); return real(fd); }
int fsync(int fd) { REAL("fsync", sync_fn); if (faults()->sync_fails) FAIL(EIO); return real(fd); }

typedef ssize_t (*pwritev_fn)(int, const struct iovec *, int, off_t);
typedef ssize_t (*pwritev2_fn)(int, const struct iovec *, int, off_t, int);
#define PWRITEV(name) ssize_t name(int fd, const struct iovec *v, int n, off_t at) { \
    REAL(#name, pwritev_fn); if (faults()->disk_is_full) FAIL(ENOSPC); return real(fd, v, n, at); }
#define PWRITEV2(name) ssize_t name(int fd, const struct iovec *v, int n, off_t at, int flags) { \
    REAL(#name, pwritev2_fn); if (faults()->disk_is_full) FAIL(ENOSPC); return real(fd, v, n, at, flags); }
PWRITEV(pwritev)
PWRITEV(pwritev64)
PWRITEV2(pwritev2)
PWRITEV2(pwritev64v2)

typedef int (*clock_fn)(clockid_t, struct timespec *);
int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL("clock_gettime", clock_fn);
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += faults()->clock_offset_s;
    return result;
}
