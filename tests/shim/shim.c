/* A library between a process and the C library (LD_PRELOAD), for tests: a disk that fails, clocks that jump, another
 * boot. What it does stands in a small file that all processes share (SHIM_CONTROL) and that a test changes while they
 * run; tests/shim/__init__.py writes it. Only what lies below `below` can fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, SYNC = 8, NAME = 16, SIZE = 32 };

struct control {
    int64_t real_ns; /* added to the calendar */
    int64_t boot_ns; /* added to the time since boot */
    uint32_t calls;  /* kinds of calls that may fail */
    uint32_t code;   /* errno of those that do; 0: a write is short */
    uint32_t share;  /* of 1,000 calls so many fail */
    uint32_t seed;
    uint32_t count;  /* calls that might have failed */
    uint32_t failed; /* calls that did */
    char boot[64];   /* boot id, or nothing */
    char below[256]; /* the directory that fails */
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIM_CONTROL");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (shared != MAP_FAILED)
        control = shared;
}

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

#define REAL(type, name, ...)                                                                                          \
    static type (*call)(__VA_ARGS__);                                                                                  \
    if (!call)                                                                                                         \
        call = (type(*)(__VA_ARGS__))real(name)

static int is_below(const char *path) {
    size_t length = strlen(control->below);
    return length && strncmp(path, control->below, length) == 0;
}

/* Whether this call fails: by the seed and by how many might have failed before it. */
static int fails(void) {
    uint32_t number = __atomic_add_fetch(&control->count, 1, __ATOMIC_RELAXED);
    uint64_t mixed = (number * 0x9E3779B97F4A7C15ull) ^ (control->seed * 0xC2B2AE3D27D4EB4Full);
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ull;
    mixed ^= mixed >> 32;
    if (mixed % 1000 >= control->share)
        return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_RELAXED);
    return 1;
}

static int path_fails(uint32_t kind, const char *path) {
    return control && (control->calls & kind) && control->code && path && is_below(path) && fails();
}

static int file_is_meant(uint32_t kind, int descriptor) {
    if (!control || !(control->calls & kind))
        return 0;
    int before = errno;
    char name[32], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, sizeof path - 1);
    errno = before;
    if (length <= 0)
        return 0;
    path[length] = 0;
    return is_below(path);
}

static int file_fails(uint32_t kind, int descriptor) {
    return control && control->code && file_is_meant(kind, descriptor) && fails();
}

#define FAIL_IF(condition)                                                                                             \
    if (condition) {                                                                                                   \
        errno = (int)control->code;                                                                                    \
        return -1;                                                                                                     \
    }

/* Files by name */

static int boot_file(const char *path) {
    if (!control || !control->boot[0] || !path || strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
        return -1;
    int descriptor = memfd_create("boot_id", MFD_CLOEXEC);
    if (descriptor >= 0) {
        dprintf(descriptor, "%s\n", control->boot);
        lseek(descriptor, 0, SEEK_SET);
    }
    return descriptor;
}

#define MODE                                                                                                           \
    mode_t mode = 0;                                                                                                   \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                               \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

#define OPENS(name)                                                                                                    \
    int name(const char *path, int flags, ...) {                                                                       \
        MODE;                                                                                                          \
        int boot = boot_file(path);                                                                                    \
        if (boot >= 0)                                                                                                 \
            return boot;                                                                                               \
        FAIL_IF(path_fails(OPEN, path));                                                                               \
        REAL(int, #name, const char *, int, mode_t);                                                                   \
        return call(path, flags, mode);                                                                                \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                                                 \
    int name(int directory, const char *path, int flags, ...) {                                                        \
        MODE;                                                                                                          \
        FAIL_IF(path_fails(OPEN, path));                                                                               \
        REAL(int, #name, int, const char *, int, mode_t);                                                              \
        return call(directory, path, flags, mode);                                                                     \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

int rename(const char *old, const char *new) {
    FAIL_IF(path_fails(NAME, new));
    REAL(int, "rename", const char *, const char *);
    return call(old, new);
}

int renameat(int from, const char *old, int to, const char *new) {
    FAIL_IF(path_fails(NAME, new));
    REAL(int, "renameat", int, const char *, int, const char *);
    return call(from, old, to, new);
}

int mkdir(const char *path, mode_t mode) {
    FAIL_IF(path_fails(NAME, path));
    REAL(int, "mkdir", const char *, mode_t);
    return call(path, mode);
}

int unlink(const char *path) {
    FAIL_IF(path_fails(NAME, path));
    REAL(int, "unlink", const char *);
    return call(path);
}

/* Data */

#define SHORTEN(size)                                                                                                  \
    if (size > 1 && control && control->code == 0 && control->share && file_is_meant(WRITE, descriptor) && fails())    \
        size = (size + 2) / 3

ssize_t write(int descriptor, const void *data, size_t size) {
    FAIL_IF(file_fails(WRITE, descriptor));
    SHORTEN(size);
    REAL(ssize_t, "write", int, const void *, size_t);
    return call(descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    FAIL_IF(file_fails(WRITE, descriptor));
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return call(descriptor, parts, count);
}

#define WRITES_AT(name)                                                                                                \
    ssize_t name(int descriptor, const void *data, size_t size, off_t offset) {                                        \
        FAIL_IF(file_fails(WRITE, descriptor));                                                                        \
        SHORTEN(size);                                                                                                 \
        REAL(ssize_t, #name, int, const void *, size_t, off_t);                                                        \
        return call(descriptor, data, size, offset);                                                                   \
    }
WRITES_AT(pwrite)
WRITES_AT(pwrite64)

/* As Python calls it. */
#define PARTS_AT(name)                                                                                                 \
    ssize_t name(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) {                      \
        FAIL_IF(file_fails(WRITE, descriptor));                                                                        \
        SHORTEN(count);                                                                                                \
        REAL(ssize_t, #name, int, const struct iovec *, int, off_t, int);                                              \
        return call(descriptor, parts, count, offset, flags);                                                          \
    }
PARTS_AT(pwritev2)
PARTS_AT(pwritev64v2)

ssize_t copy_file_range(int from, off_t *start, int to, off_t *offset, size_t size, unsigned flags) {
    int descriptor = to;
    FAIL_IF(file_fails(WRITE, descriptor));
    SHORTEN(size);
    REAL(ssize_t, "copy_file_range", int, off_t *, int, off_t *, size_t, unsigned);
    return call(from, start, to, offset, size, flags);
}

ssize_t read(int descriptor, void *data, size_t size) {
    FAIL_IF(file_fails(READ, descriptor));
    REAL(ssize_t, "read", int, void *, size_t);
    return call(descriptor, data, size);
}

#define READS_AT(name)                                                                                                 \
    ssize_t name(int descriptor, void *data, size_t size, off_t offset) {                                              \
        FAIL_IF(file_fails(READ, descriptor));                                                                         \
        REAL(ssize_t, #name, int, void *, size_t, off_t);                                                              \
        return call(descriptor, data, size, offset);                                                                   \
    }
READS_AT(pread)
READS_AT(pread64)

#define SIZES(name)                                                                                                    \
    int name(int descriptor, off_t size) {                                                                             \
        FAIL_IF(file_fails(SIZE, descriptor));                                                                         \
        REAL(int, #name, int, off_t);                                                                                  \
        return call(descriptor, size);                                                                                 \
    }
SIZES(ftruncate)
SIZES(ftruncate64)

#define SYNCS(name)                                                                                                    \
    int name(int descriptor) {                                                                                         \
        FAIL_IF(file_fails(SYNC, descriptor));                                                                         \
        REAL(int, #name, int);                                                                                         \
        return call(descriptor);                                                                                       \
    }
SYNCS(fsync)
SYNCS(fdatasync)
SYNCS(syncfs)

/* Clocks */

static void shift(struct timespec *time, int64_t by) {
    int64_t nanoseconds = time->tv_nsec + by % 1000000000;
    time->tv_sec += by / 1000000000;
    if (nanoseconds < 0) {
        nanoseconds += 1000000000;
        time->tv_sec--;
    }
    time->tv_sec += nanoseconds / 1000000000;
    time->tv_nsec = nanoseconds % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(int, "clock_gettime", clockid_t, struct timespec *);
    int result = call(clock, time);
    if (result == 0 && control) {
        if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
            shift(time, control->real_ns);
        else if (clock == CLOCK_BOOTTIME)
            shift(time, control->boot_ns);
    }
    return result;
}

int gettimeofday(struct timeval *restrict when, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    when->tv_sec = now.tv_sec;
    when->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where)
        *where = now.tv_sec;
    return now.tv_sec;
}
