/* Record what a process does to the files below HUSHMQ_RECORD_BELOW, in order, in the file HUSHMQ_RECORD_TO.
 *
 * Preloaded (LD_PRELOAD). A record: kind (one byte), lengths of path, second path and data (32 bits each), offset (64
 * bits), then the three. Kinds: W write, T truncate, S sync, C create, R rename, U unlink. tests/power_cut/recorded_disk.py
 * reads them and makes of them what a disk holds after a power cut. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int log_fd = -1;
static const char *below;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *to = getenv("HUSHMQ_RECORD_TO");
    below = getenv("HUSHMQ_RECORD_BELOW");
    if (to && below) log_fd = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void record(char kind, const char *path, const char *other, int64_t offset, const void *data, size_t size) {
    struct __attribute__((packed)) { char kind; uint32_t path, other, size; int64_t offset; } head =
        {kind, strlen(path), strlen(other), size, offset};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other}, {(void *)data, size}};
    pthread_mutex_lock(&lock);
    if (syscall(SYS_writev, log_fd, parts, 4) < 0) abort();
    pthread_mutex_unlock(&lock);
}

static int is_ours(const char *path) { return log_fd >= 0 && strncmp(path, below, strlen(below)) == 0; }

static int path_of(int fd, char *path) {
    char link[40];
    if (log_fd < 0 || fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_ours(path);
}

static void whole(int dir, const char *name, char *path) {
    char base[PATH_MAX];
    if (name[0] == '/') { snprintf(path, PATH_MAX, "%s", name); return; }
    if (dir == AT_FDCWD) { if (!getcwd(base, sizeof base)) base[0] = 0; }
    else if (!path_of(dir, base)) base[0] = 0;
    snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
}

static int opened(int dir, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat found;
    whole(dir, name, path);
    int is_new = (flags & O_CREAT) && syscall(SYS_newfstatat, dir, name, &found, 0) < 0;
    int fd = syscall(SYS_openat, dir, name, flags, mode);
    if (fd >= 0 && is_ours(path)) {
        if (is_new) record('C', path, "", 0, "", 0);
        else if (flags & O_TRUNC) record('T', path, "", 0, "", 0);
    }
    return fd;
}

#define MODE(flags) ({ mode_t m = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); m = va_arg(a, mode_t); va_end(a); } m; })
int open(const char *name, int flags, ...) { return opened(AT_FDCWD, name, flags, MODE(flags)); }
int open64(const char *name, int flags, ...) { return opened(AT_FDCWD, name, flags, MODE(flags)); }
int openat(int dir, const char *name, int flags, ...) { return opened(dir, name, flags, MODE(flags)); }
int openat64(int dir, const char *name, int flags, ...) { return opened(dir, name, flags, MODE(flags)); }

static ssize_t wrote(int fd, const void *data, ssize_t size, int64_t offset) {
    char path[PATH_MAX];
    if (size > 0 && path_of(fd, path)) record('W', path, "", offset, data, size);
    return size;
}

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t done = syscall(SYS_write, fd, data, size);
    return done > 0 && fd != log_fd ? wrote(fd, data, done, syscall(SYS_lseek, fd, 0, SEEK_CUR) - done) : done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return wrote(fd, data, syscall(SYS_pwrite64, fd, data, size, at), at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return wrote(fd, data, syscall(SYS_pwrite64, fd, data, size, at), at); }

static int cut(int fd, int64_t size) {
    char path[PATH_MAX];
    int done = syscall(SYS_ftruncate, fd, size);
    if (done == 0 && path_of(fd, path)) record('T', path, "", size, "", 0);
    return done;
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

static int synced(int fd, int done) {
    char path[PATH_MAX];
    if (done == 0 && path_of(fd, path)) record('S', path, "", 0, "", 0);
    return done;
}
/* Nothing is synced in truth: what counts is what was asked for. */
int fsync(int fd) { return synced(fd, 0); }
int fdatasync(int fd) { return synced(fd, 0); }

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    char one[PATH_MAX], other[PATH_MAX];
    whole(from_dir, from, one);
    whole(to_dir, to, other);
    int done = syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
    if (done == 0 && is_ours(one)) record('R', one, other, 0, "", 0);
    return done;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int dir, const char *name, int flags) {
    char path[PATH_MAX];
    whole(dir, name, path);
    int done = syscall(SYS_unlinkat, dir, name, flags);
    if (done == 0 && is_ours(path)) record('U', path, "", 0, "", 0);
    return done;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
